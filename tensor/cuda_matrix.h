// CudaMatrix: where a matrix lies on the GPU, of either storage.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/bf16.h"

namespace downpour {

// A matrix in memory of floats or of bfloat16: the address of the other kind is null.
template <typename T>
struct CudaView {
  using Half = std::conditional_t<std::is_const_v<T>, const Bf16, Bf16>;

  T* floats = nullptr;
  Half* halves = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  CudaView() = default;
  CudaView(T* floats_in, Half* halves_in, int64_t rows_in, int64_t cols_in, int64_t stride_in)
      : floats(floats_in), halves(halves_in), rows(rows_in), cols(cols_in), stride(stride_in) {}
  operator CudaView<const T>() const requires(!std::is_const_v<T>) { return {floats, halves, rows, cols, stride}; }

  const void* data() const { return halves != nullptr ? static_cast<const void*>(halves) : floats; }
  int64_t elements() const { return rows * cols; }
  bool contiguous() const { return stride == cols || rows <= 1; }
};
using CudaMatrix = CudaView<float>;
using CudaConstMatrix = CudaView<const float>;

}  // namespace downpour
