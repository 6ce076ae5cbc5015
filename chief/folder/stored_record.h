// A slice's record as the chief reads it out of a shard file, to send it on.
//
//   storage.Run({ReadRecord(manifest, slice)}, [&](const StorageDone& done) {
//     if (CheckRecord(manifest, slice, done).ok()) ...RestoreSlice{.blocks = CutIntoFrames(done.data)}...
//   });
//
// Errors: NOT_FOUND and DATA_LOSS for what no other try mends, UNAVAILABLE for what the disk may get over.
// Tests: tests/unit/chief/slice_restore_test.cc, epilogue_test.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/role.h"
#include "schema/checkpoint_format.h"
#include "schema/payload.h"

namespace downpour {

std::string ShardPathOf(const Manifest& manifest, SliceId slice);
// Not of a bucket. At most kMaxRecordBytes, whatever the manifest says: no record is longer.
StorageOp ReadRecord(const Manifest& manifest, SliceId slice);
absl::Status CheckRecord(const Manifest& manifest, SliceId slice, const StorageDone& read);

// Of a bucket's record, which has PiecesOf() of at most piece_bytes. CheckPiece: with the checksum of the pieces
// before, which it takes further; the last one must make it the record's.
uint32_t PiecesOf(const Manifest& manifest, SliceId slice, uint64_t piece_bytes);
StorageOp ReadPiece(const Manifest& manifest, SliceId slice, uint32_t piece, uint64_t piece_bytes);
absl::Status CheckPiece(const Manifest& manifest, SliceId slice, uint32_t piece, uint64_t piece_bytes,
                        const StorageDone& read, uint32_t* checksum);

// Of at most kMaxFrameBytes each; the memory is shared.
std::vector<Payload> CutIntoFrames(const Payload& bytes);

}  // namespace downpour
