#include "bench/stream_kernel.h"

#include <glog/logging.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/stream_kernel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// All loads before the first store, as the update kernels have it and for the same reason.
void StreamOne(const float* addend, size_t n, const UpdatedArray* arrays) {
  const hn::ScalableTag<float> d;
  const UpdatedArray a = arrays[0];
  for (size_t i = 0; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, a.in + i), hn::LoadU(d, addend + i)), d, a.out + i);
  }
}

void StreamTwo(const float* addend, size_t n, const UpdatedArray* arrays) {
  const hn::ScalableTag<float> d;
  const UpdatedArray a = arrays[0], b = arrays[1];
  for (size_t i = 0; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto g = hn::LoadU(d, addend + i);
    const auto sum_a = hn::Add(hn::LoadU(d, a.in + i), g);
    const auto sum_b = hn::Add(hn::LoadU(d, b.in + i), g);
    hn::StoreU(sum_a, d, a.out + i);
    hn::StoreU(sum_b, d, b.out + i);
  }
}

void StreamThree(const float* addend, size_t n, const UpdatedArray* arrays) {
  const hn::ScalableTag<float> d;
  const UpdatedArray a = arrays[0], b = arrays[1], c = arrays[2];
  for (size_t i = 0; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto g = hn::LoadU(d, addend + i);
    const auto sum_a = hn::Add(hn::LoadU(d, a.in + i), g);
    const auto sum_b = hn::Add(hn::LoadU(d, b.in + i), g);
    const auto sum_c = hn::Add(hn::LoadU(d, c.in + i), g);
    hn::StoreU(sum_a, d, a.out + i);
    hn::StoreU(sum_b, d, b.out + i);
    hn::StoreU(sum_c, d, c.out + i);
  }
}

void StreamRoots(const float* addend, size_t n, const UpdatedArray* arrays) {
  const hn::ScalableTag<float> d;
  const UpdatedArray a = arrays[0], b = arrays[1], c = arrays[2];
  for (size_t i = 0; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto g = hn::LoadU(d, addend + i);
    const auto sum_b = hn::Add(hn::LoadU(d, b.in + i), g);
    const auto sum_c = hn::Add(hn::LoadU(d, c.in + i), g);
    const auto sum_a = hn::Add(hn::LoadU(d, a.in + i), hn::Div(sum_b, hn::Sqrt(sum_c)));
    hn::StoreU(sum_a, d, a.out + i);
    hn::StoreU(sum_b, d, b.out + i);
    hn::StoreU(sum_c, d, c.out + i);
  }
}

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(StreamOne);
HWY_EXPORT(StreamTwo);
HWY_EXPORT(StreamThree);
HWY_EXPORT(StreamRoots);

void StreamArrays(absl::Span<const float> addend, absl::Span<const UpdatedArray> arrays) {
  CHECK(arrays.size() >= 1 && arrays.size() <= 3);
  const auto kernel = arrays.size() == 1   ? HWY_DYNAMIC_DISPATCH(StreamOne)
                      : arrays.size() == 2 ? HWY_DYNAMIC_DISPATCH(StreamTwo)
                                           : HWY_DYNAMIC_DISPATCH(StreamThree);
  kernel(addend.data(), addend.size(), arrays.data());
}

void StreamArraysWithRoots(absl::Span<const float> addend, absl::Span<const UpdatedArray> arrays) {
  CHECK_EQ(arrays.size(), 3u);
  HWY_DYNAMIC_DISPATCH(StreamRoots)(addend.data(), addend.size(), arrays.data());
}

}  // namespace downpour
#endif  // HWY_ONCE
