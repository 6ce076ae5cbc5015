// The fields of a plain struct, without naming them: so that a test of every message also sees fields added later.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace downpour {

struct AnyField {
  template <typename T>
  operator T() const;
};

template <typename T, typename... Fields>
constexpr size_t FieldCount() {
  if constexpr (requires { T{Fields{}..., AnyField{}}; }) {
    return FieldCount<T, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

// References to the fields of `t`, in order.
template <typename T>
auto Fields(T& t) {
  constexpr size_t kCount = FieldCount<std::remove_const_t<T>>();
  static_assert(kCount >= 1 && kCount <= 23, "give this function another case");
#define DOWNPOUR_FIELDS(n, ...)   \
  if constexpr (kCount == n) {    \
    auto& [__VA_ARGS__] = t;      \
    return std::tie(__VA_ARGS__); \
  }
  // clang-format off
  DOWNPOUR_FIELDS(1, a)
  DOWNPOUR_FIELDS(2, a, b)
  DOWNPOUR_FIELDS(3, a, b, c)
  DOWNPOUR_FIELDS(4, a, b, c, d)
  DOWNPOUR_FIELDS(5, a, b, c, d, e)
  DOWNPOUR_FIELDS(6, a, b, c, d, e, f)
  DOWNPOUR_FIELDS(7, a, b, c, d, e, f, g)
  DOWNPOUR_FIELDS(8, a, b, c, d, e, f, g, h)
  DOWNPOUR_FIELDS(9, a, b, c, d, e, f, g, h, i)
  DOWNPOUR_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  DOWNPOUR_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  DOWNPOUR_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  DOWNPOUR_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  DOWNPOUR_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  DOWNPOUR_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  DOWNPOUR_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  DOWNPOUR_FIELDS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  DOWNPOUR_FIELDS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  DOWNPOUR_FIELDS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  DOWNPOUR_FIELDS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, z)
  DOWNPOUR_FIELDS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v)
  DOWNPOUR_FIELDS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w)
  DOWNPOUR_FIELDS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x)
  // clang-format on
#undef DOWNPOUR_FIELDS
}

}  // namespace downpour
