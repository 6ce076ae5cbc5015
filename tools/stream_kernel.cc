#include "tools/stream_kernel.h"

#include <glog/logging.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/stream_kernel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <size_t kArrays>
void Stream(const float* addend, size_t n, const UpdatedArray* arrays) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float* in[kArrays];
  float* out[kArrays];
  for (size_t a = 0; a < kArrays; ++a) {
    in[a] = arrays[a].in;
    out[a] = arrays[a].out;
  }
  for (size_t i = 0; i + lanes <= n; i += lanes) {
    const auto g = hn::LoadU(d, addend + i);
    for (size_t a = 0; a < kArrays; ++a) hn::StoreU(hn::Add(hn::LoadU(d, in[a] + i), g), d, out[a] + i);
  }
}

void StreamOne(const float* addend, size_t n, const UpdatedArray* arrays) { Stream<1>(addend, n, arrays); }
void StreamTwo(const float* addend, size_t n, const UpdatedArray* arrays) { Stream<2>(addend, n, arrays); }
void StreamThree(const float* addend, size_t n, const UpdatedArray* arrays) { Stream<3>(addend, n, arrays); }

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(StreamOne);
HWY_EXPORT(StreamTwo);
HWY_EXPORT(StreamThree);

void StreamArrays(absl::Span<const float> addend, absl::Span<const UpdatedArray> arrays) {
  CHECK(arrays.size() >= 1 && arrays.size() <= 3);
  const auto kernel = arrays.size() == 1   ? HWY_DYNAMIC_DISPATCH(StreamOne)
                      : arrays.size() == 2 ? HWY_DYNAMIC_DISPATCH(StreamTwo)
                                           : HWY_DYNAMIC_DISPATCH(StreamThree);
  kernel(addend.data(), addend.size(), arrays.data());
}

}  // namespace downpour
#endif  // HWY_ONCE
