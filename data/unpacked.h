// A source that is read at any place though it may be gzipped: then it is unpacked once, on disk.
//
// Tests: tests/unit/data/record_dataset_test.cc.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/byte_source.h"

namespace downpour {

// What is not packed stays as it is. Other bytes go into a file without a name in TMPDIR (/tmp), gone with the source
// that is returned, which has the name of the packed one.
// Cost: packed, one pass, and as much disk as the bytes need; memory of a piece.
// Errors: those of ByteStream; RESOURCE_EXHAUSTED for a disk that is full, UNAVAILABLE for another failure of it, both
//   with the remedy.
absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> source);

// What can be read of `fd` until its end, such as a pipe, in such a file. `name`: the source's. Errors: as above.
absl::StatusOr<std::unique_ptr<ByteSource>> Spooled(const std::string& name, int fd);

}  // namespace downpour
