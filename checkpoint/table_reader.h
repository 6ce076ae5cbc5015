// The rows of tables as a checkpoint holds them.
//
//   absl::Status status = ReadTableParts(checkpoint, bucket, [&](const TableSpec& table, const TablePart& part) {
//     rows += part.header.rows;                         // part.Row(i).key, part.Content(i)
//     return absl::OkStatus();
//   });
//
// Order: of a bucket the parts of the first table, then those of the next. Rows that had expired are none, and absent.
// Cost: ReadTableParts holds one part of at most 1 MiB; LoadBuckets all rows, with their slots.
// Errors: DATA_LOSS and INVALID_ARGUMENT with the file, for what is damaged and for what no ps writes. Parts may have
//   been given before; nothing is to be believed of them then.
// Tests: tests/unit/checkpoint/table_reader_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_reader.h"
#include "ps/table/bucket_rows.h"
#include "ps/table/table_part.h"

namespace downpour {

using TakeTablePart = std::function<absl::Status(const TableSpec& table, const TablePart& part)>;

absl::Status ReadTableParts(const Checkpoint& checkpoint, uint32_t bucket, const TakeTablePart& take);

// Of every bucket, by its number.
absl::StatusOr<std::vector<BucketRows>> LoadBuckets(const Checkpoint& checkpoint);

}  // namespace downpour
