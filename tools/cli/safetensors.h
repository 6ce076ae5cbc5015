// Writes a safetensors file: eight bytes of header length, a JSON header, then all tensors one after the other.
//
//   SafetensorsFile file(path, {{"ids", {n}, "I64"}, {"values", {n, width}}}, metadata);
//   file.Append(0, some);                        // of each tensor in its order; tensors in any
//   absl::Status status = file.Commit();
//
// Shapes: what was appended to a tensor, joined, are its row-major elements.
// Order: little-endian; the header is padded with spaces so that the data begin at a multiple of 64 bytes, without
//   holes.
// Cost: holds nothing of what was appended.
// Errors: those of NewFile. INTERNAL where a tensor did not get as many bytes as its shape says.
// Source: the safetensors README (format section) and its Rust reader's checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tools/cli/new_file.h"

namespace downpour {

struct SafeTensor {
  std::string name;  // unique in its file
  std::vector<int64_t> shape;
  std::string dtype = "F32";  // or I64
};

class SafetensorsFile {
 public:
  SafetensorsFile(const std::string& path, const std::vector<SafeTensor>& tensors,
                  const std::map<std::string, std::string>& metadata);
  void Append(size_t tensor, absl::Span<const std::byte> bytes);
  absl::Status Commit();

 private:
  struct Range {
    uint64_t next = 0;  // in the file
    uint64_t end = 0;
  };
  NewFile file_;
  std::vector<Range> tensors_;
};

}  // namespace downpour
