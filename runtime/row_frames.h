// Rows of tables on their way between workers and buckets.
//
//   Payload frame = PackKeys(keys);                                   // what a Pull asks a bucket for
//   absl::StatusOr<RowKeys> wanted = UnpackKeys(frame.bytes(), widths);
//   Payload rows = Payload::Allocate(RowBytes(*wanted, widths));        // what the PullReply brings, in that order
//   Payload push = PackGradients(keys, gradients);                      // what a Push brings
//
// Shapes: a frame of keys is a count for each table (4 bytes, and 4 bytes of 0 behind an odd number of them), then the
//   keys (8 bytes each), table by table; of one table they ascend, so that each is there once. Rows are float32, width
//   of its table each, in the order of the keys. A frame of gradients is a frame of keys, then rows. Little-endian.
//   `widths` is SliceGrid::row_widths.
// Limits: a frame has at most kMaxFrameBytes, so 14,500 rows of 16 numbers with their keys; and at least one key.
// Errors: INVALID_ARGUMENT with one sentence for a frame that is no such. Nothing is allocated on the word of a count
//   before the frame is as long as it says.
// Tests: tests/unit/runtime/row_frames_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schema/payload.h"

namespace downpour {

struct RowKeys {
  std::vector<uint32_t> counts;  // of each table
  std::vector<uint64_t> keys;    // of the first table, then of the next; of one table ascending
};
struct RowGradients {
  RowKeys rows;
  std::vector<float> numbers;
};

// A key's bucket among so many. Buckets are ranges of a hash: of twice as many, two stand where one stood.
// `table`: its place in the job.
uint32_t BucketOf(uint64_t table, uint64_t key, uint32_t buckets);

size_t RowBytes(const RowKeys& rows, absl::Span<const uint32_t> widths);

Payload PackKeys(const RowKeys& rows);
Payload PackGradients(const RowKeys& rows, absl::Span<const float> numbers);

absl::StatusOr<RowKeys> UnpackKeys(const Payload& frame, absl::Span<const uint32_t> widths);
absl::StatusOr<RowGradients> UnpackGradients(const Payload& frame, absl::Span<const uint32_t> widths);

// Whether it is such a frame; without taking memory for it.
absl::Status CheckKeys(const Payload& frame, absl::Span<const uint32_t> widths);
absl::Status CheckGradients(const Payload& frame, absl::Span<const uint32_t> widths);

// Whether every key of a frame, which was checked, is in that bucket.
bool AreInBucket(const Payload& frame, size_t tables, uint32_t bucket, uint32_t buckets);

// What a step needs of one bucket, keys and rows. CANCELLED with the remedy where that is too much, since it would be
// so at any worker.
absl::Status CheckRowsOfBucket(size_t bytes);

// Of a frame of keys, from its counts alone: of the rows that answer it. 0 for one that is none.
size_t AnswerBytes(const Payload& keys, absl::Span<const uint32_t> widths);

}  // namespace downpour
