// A file's index on disk, beside it: FILE.downpour-index (kIndexSuffix).
//
//   auto index = ReadIndex(path + kIndexSuffix);
//   auto fits = CheckIndex(*index, CuttingOf(kCsvFormat, **file), *source, (*file)->begin());
//
// Shapes: little-endian. "DPINDEX1"; uint64 size and version of the source; uint32 length and bytes of the cutting;
//   uint64 offset and line of the first piece; uint64 count of pieces, and for each uint64 checksum, uint32 bytes,
//   records and lines; uint64 what decided the records left out, their count, and each; uint64 XXH3 of all before.
// Errors: NOT_FOUND; DATA_LOSS for one that is damaged or claims what cannot be; FAILED_PRECONDITION for one that does
//   not fit, each with the reason.
// Tests: tests/unit/data/index_file_test.cc, tests/fuzz/data_index.cc.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/record_index.h"

namespace downpour {

std::string EncodeIndex(const RecordIndex& index);
// Cost: memory grows with `bytes`, not with what they claim.
absl::StatusOr<RecordIndex> DecodeIndex(std::string_view bytes);

absl::StatusOr<RecordIndex> ReadIndex(const std::string& path);
// Writes beside and renames, so that one that stands is whole; whoever may read `of` may read it.
absl::Status WriteIndex(const std::string& path, const RecordIndex& index, const std::string& of);

// Whether the index is of this file as it is now: by size, time of change, and the checksums of some pieces, but these
// not of a packed file. `source` is the file as it lies there; `begin`: where its first piece has to begin.
absl::Status CheckIndex(const RecordIndex& index, const std::string& cutting, const ByteSource& source, uint64_t begin);

}  // namespace downpour
