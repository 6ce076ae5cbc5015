// What a safetensors file says of itself: eight bytes of header length, a JSON header, then the tensors' bytes.
//
//   auto header = ParseSafetensors(header_text, data_bytes);
//
// Order: little-endian; offsets count from the first byte after the header. Tensors come back by name, ascending.
// Errors: INVALID_ARGUMENT naming the tensor and its bytes: no JSON, a name that is there twice, sizes that do not
//   agree, bytes beyond the file's end, of two tensors or of none. Input is hostile.
// Source: the safetensors README (format section) and its Rust reader's checks.
// Tests: tests/unit/schema/safetensors_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace downpour {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kMostSafetensorsHeader = uint64_t{100} << 20;

// Those that can become float32; a file may have others.
enum class TensorNumber { kF32, kF64, kF16, kBf16, kOther };

struct TensorEntry {
  std::string name;
  TensorNumber number = TensorNumber::kOther;
  std::string type;  // as the file has it: "F32"
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // in the data
  uint64_t end = 0;
};

size_t BytesOf(TensorNumber number);  // 0 of kOther

absl::StatusOr<std::vector<TensorEntry>> ParseSafetensors(const std::string& header, uint64_t data_bytes);

// `to` has room for from.size() / BytesOf(number) floats. Doubles are rounded.
void ToFloats(TensorNumber number, absl::Span<const std::byte> from, float* to);

}  // namespace downpour
