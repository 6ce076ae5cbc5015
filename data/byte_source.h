// ByteSource: where the bytes of data lie, read at any place. A file is one kind; objects in a bucket can be another.
//
//   auto source = OpenFile("train.csv");
//   auto got = (*source)->Read(offset, to);
//
// Threads: reading is const and may happen on several threads.
// Errors: of opening what absl::ErrnoToStatus makes of it, or INVALID_ARGUMENT (a folder, a pipe); of reading
//   UNAVAILABLE.
// Tests: tests/unit/data/byte_source_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace downpour {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;  // as errors have it
  virtual uint64_t size() const = 0;            // when it was opened
  // Another one once it was written anew, as far as its place knows: of a file the time of its last change.
  virtual uint64_t version() const { return 0; }
  // How many bytes from `offset` on were read; fewer than to.size() only at the end.
  virtual absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<uint8_t> to) const = 0;
};

// Closes `fd`, a regular file open for reading, in the end. Errors: as OpenFile, then it is closed.
absl::StatusOr<std::unique_ptr<ByteSource>> AdoptFile(const std::string& name, int fd);

// Does not wait for whoever writes a pipe.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

}  // namespace downpour
