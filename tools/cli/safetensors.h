// Writes a safetensors file: eight bytes of header length, a JSON header, then all tensors one after the other.
//
// Shapes: a tensor's pieces, joined, are its row-major float32 elements.
// Order: little-endian; the header is padded with spaces so that the data begin at a multiple of 64 bytes, without
//   holes.
// Errors: the disk's, naming the path; then the file is not there, or as it was: it is written beside and renamed.
// Source: the safetensors README (format section) and its Rust reader's checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schema/payload.h"

namespace downpour {

struct SafeTensor {
  std::string name;  // unique in its file
  std::vector<int64_t> shape;
  std::vector<Payload> pieces;
};

absl::Status WriteSafetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace downpour
