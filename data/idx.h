// IDX files, as MNIST has them, gzipped or not.
//
// Shapes: bytes 00 00 TYPE DIMS, then DIMS big-endian uint32 sizes, then the elements, row-major. Only TYPE 08
//   (unsigned byte) is read: images have 3 dimensions (magic 2051), labels 1 (magic 2049).
// Source: the format note on the MNIST page (LeCun, Cortes, Burges).
// Tests: tests/unit/data/idx_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"

namespace downpour {

struct IdxArray {
  std::vector<uint32_t> sizes;
  std::vector<uint8_t> elements;
};

// Memory grows with what the file really holds, not with what its header claims.
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, size_t dimensions);

// The sizes that its header promises, whatever follows.
// Cost: the first bytes are read, and unpacked.
absl::StatusOr<std::vector<uint32_t>> ReadIdxHeader(const std::string& path, size_t dimensions);

// The sizes alone, of a file that is as long as they promise: for telling what a job would read.
// Cost: one that is gzipped is unpacked to its end.
absl::StatusOr<std::vector<uint32_t>> ReadIdxSizes(const std::string& path, size_t dimensions);

// Writes beside and renames, so that a file that stands is whole. elements.size() is the product of sizes.
absl::Status WriteIdx(const std::string& path, absl::Span<const uint32_t> sizes, absl::Span<const uint8_t> elements);

// Columns: "image", rows * columns bytes of an example, and kLabelColumn.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const SetFiles& files);

}  // namespace downpour
