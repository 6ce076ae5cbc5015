// A slice's record as the chief reads it out of a shard file, to send it on.
//
//   storage.Run({ReadFile(ShardPath(manifest.round, file.name), record.offset, record.bytes)}, [&](const auto& done) {
//     if (CheckRecord(record, done).ok()) ...RestoreSlice{.blocks = CutIntoFrames(done.data)}...
//   });
//
// Errors: NOT_FOUND and DATA_LOSS for what no other try mends, UNAVAILABLE for what the disk may get over.
// Tests: tests/unit/chief/assignment_test.cc, epilogue_test.cc.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "runtime/role.h"
#include "schema/checkpoint_format.h"
#include "schema/payload.h"

namespace downpour {

absl::Status CheckRecord(const Manifest::Record& record, const StorageDone& read);

// Of at most kMaxFrameBytes each; the memory is shared.
std::vector<Payload> CutIntoFrames(const Payload& bytes);

}  // namespace downpour
