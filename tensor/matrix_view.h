// Where numbers lie: row-major matrices in some backend's memory, not owned.
//
// Shapes: `rows` runs of `cols` elements, `stride` elements apart (stride >= cols), so that some columns of a matrix
//   are a matrix too. `data` is an address in the backend's memory: only where Backend::memory_is_host() may others
//   read it.
#pragma once

#include <cstdint>
#include <type_traits>

namespace downpour {

template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  MatrixView() = default;
  MatrixView(T* data_in, int64_t rows_in, int64_t cols_in) : MatrixView(data_in, rows_in, cols_in, cols_in) {}
  MatrixView(T* data_in, int64_t rows_in, int64_t cols_in, int64_t stride_in)
      : data(data_in), rows(rows_in), cols(cols_in), stride(stride_in) {}
  operator MatrixView<const T>() const requires(!std::is_const_v<T>) { return {data, rows, cols, stride}; }

  constexpr T* row(int64_t r) const { return data + r * stride; }  // constexpr: device code may call it too
  int64_t elements() const { return rows * cols; }
  bool contiguous() const { return stride == cols || rows <= 1; }
  MatrixView Rows(int64_t count) const { return {data, count, cols, stride}; }  // the first ones
  MatrixView Columns(int64_t first, int64_t count) const { return {data + first, rows, count, stride}; }
};

using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;
using ConstByteMatrix = MatrixView<const uint8_t>;

}  // namespace downpour
