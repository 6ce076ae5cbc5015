#include "checkpoint/table_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ps/lease_counters.h"
#include "runtime/plan.h"

namespace downpour {
namespace {

absl::Status InBucket(const Checkpoint& checkpoint, uint32_t bucket, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(checkpoint.path, ": bucket ", bucket, ": ", status.message()));
}

// Pushes that the bucket consumed, as its counters have it.
absl::StatusOr<uint64_t> ConsumedBy(const Checkpoint& checkpoint, SliceState state) {
  const Plan plan(checkpoint.job, checkpoint.manifest.train_examples);
  const auto counters = LeaseCounters::Restore(std::move(state.finished), std::move(state.counters), plan);
  if (!counters.ok()) return counters.status();
  return counters->Sum(plan);
}

absl::StatusOr<BucketRows> LoadBucket(const Checkpoint& checkpoint, uint32_t bucket) {
  BucketInstaller installer(TablesOf(checkpoint.job), bucket, /*copy=*/0);
  absl::StatusOr<SliceState> state =
      ReadBucketRecord(checkpoint, bucket, [&](absl::Span<const std::byte> part) { return installer.Add(part); });
  if (!state.ok()) return state.status();
  const absl::StatusOr<uint64_t> consumed = ConsumedBy(checkpoint, *std::move(state));
  if (!consumed.ok()) return InBucket(checkpoint, bucket, consumed.status());
  absl::StatusOr<BucketRows> rows = std::move(installer).Finish(*consumed);
  return rows.ok() ? std::move(rows) : InBucket(checkpoint, bucket, rows.status());
}

}  // namespace

absl::Status ReadTableParts(const Checkpoint& checkpoint, uint32_t bucket, const TakeTablePart& take) {
  const std::vector<TableSpec> tables = TablesOf(checkpoint.job);
  size_t table = 0;
  const auto take_part = [&](absl::Span<const std::byte> bytes) -> absl::Status {
    if (table == tables.size()) return absl::InvalidArgumentError("a part behind the last one");
    const absl::StatusOr<TablePart> part = ReadTablePart(bytes, tables[table]);
    if (!part.ok()) return part.status();
    const TablePartHeader& header = part->header;
    if (header.bucket != bucket || header.buckets != tables[table].buckets || header.base != 0) {
      return absl::InvalidArgumentError(absl::StrCat("a part of bucket ", header.bucket, " of ", header.buckets,
                                                     " with base ", header.base, ", where bucket ", bucket, " of ",
                                                     tables[table].buckets, " should be whole"));
    }
    if (absl::Status status = take(tables[table], *part); !status.ok()) return status;
    table += header.is_last;
    return absl::OkStatus();
  };
  const absl::StatusOr<SliceState> state = ReadBucketRecord(checkpoint, bucket, take_part);
  if (!state.ok()) return state.status();
  if (table == tables.size()) return absl::OkStatus();
  return InBucket(checkpoint, bucket,
                  absl::InvalidArgumentError(absl::StrCat("a record that ends within table ", table)));
}

absl::StatusOr<std::vector<BucketRows>> LoadBuckets(const Checkpoint& checkpoint) {
  std::vector<BucketRows> buckets;
  for (uint32_t bucket = 0; bucket < checkpoint.grid.buckets; ++bucket) {
    absl::StatusOr<BucketRows> rows = LoadBucket(checkpoint, bucket);
    if (!rows.ok()) return rows.status();
    buckets.push_back(*std::move(rows));
  }
  return buckets;
}

}  // namespace downpour
