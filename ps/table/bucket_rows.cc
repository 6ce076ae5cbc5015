#include "ps/table/bucket_rows.h"

#include <glog/logging.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

// Calls each(table, its keys, where its rows begin).
template <typename Each>
void ForEachTable(absl::Span<const TableBucket> tables, const RowKeys& rows, const Each& each) {
  CHECK_EQ(rows.counts.size(), tables.size());
  size_t key = 0, number = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    each(i, absl::MakeConstSpan(rows.keys).subspan(key, rows.counts[i]), number);
    key += rows.counts[i];
    number += size_t{rows.counts[i]} * tables[i].spec().width;
  }
}

std::vector<TableSpec> InBucket(std::vector<TableSpec> tables, uint32_t bucket) {
  for (TableSpec& table : tables) table.bucket = bucket;
  return tables;
}

uint64_t CopyOf(uint64_t copy, uint64_t table) { return MixAll(copy, table); }

}  // namespace

std::vector<TableSpec> TablesOf(const JobSpec& job) {
  std::vector<TableSpec> specs;
  const auto buckets = static_cast<uint32_t>(job.model.table_buckets);
  for (const ModelTable& table : job.model.tables) {
    specs.push_back({.id = specs.size(),
                     .width = static_cast<uint32_t>(table.width),
                     .optimizer = table.optimizer.kind,
                     .row_wise = table.row_wise,
                     .halves = table.halves,
                     .seed = job.seed,
                     .initial = static_cast<float>(table.initial),
                     .admit_after = static_cast<uint32_t>(table.admit_after),
                     .evict_after = static_cast<uint32_t>(table.evict_after),
                     .max_rows = (static_cast<uint64_t>(table.max_rows) + buckets - 1) / buckets,
                     .buckets = buckets});
  }
  return specs;
}

BucketRows::BucketRows(const std::vector<TableSpec>& tables, uint32_t bucket, uint64_t copy) {
  for (const TableSpec& spec : InBucket(tables, bucket)) tables_.emplace_back(spec, CopyOf(copy, spec.id));
}

Payload BucketRows::Gather(const RowKeys& wanted) const {
  std::vector<uint32_t> widths;
  for (const TableBucket& table : tables_) widths.push_back(table.spec().width);
  Payload values = Payload::Allocate(RowBytes(wanted, widths));
  float* const to = values.mutable_floats().data();
  ForEachTable(tables_, wanted, [&](size_t table, absl::Span<const uint64_t> keys, size_t begin) {
    tables_[table].Gather(keys, to + begin);
  });
  return values;
}

bool BucketRows::Apply(const RowGradients& push, absl::Span<const Update> updates) {
  const auto push_to = [&](size_t table, absl::Span<const uint64_t> keys, size_t begin) {
    const size_t numbers = keys.size() * tables_[table].spec().width;
    return RowPush{
        .keys = keys, .gradients = absl::MakeConstSpan(push.numbers).subspan(begin, numbers), .fresh = updates[table]};
  };
  bool all_safe = true;
  ForEachTable(tables_, push.rows, [&](size_t table, absl::Span<const uint64_t> keys, size_t begin) {
    all_safe = all_safe && (keys.empty() || tables_[table].IsSafe(push_to(table, keys, begin)));
  });
  if (!all_safe) {
    ConsumeEmpty();
    return false;
  }
  ForEachTable(tables_, push.rows, [&](size_t table, absl::Span<const uint64_t> keys, size_t begin) {
    const absl::StatusOr<PushEffect> effect = tables_[table].Apply(push_to(table, keys, begin));
    CHECK(effect.ok()) << effect.status();
  });
  return true;
}

void BucketRows::ConsumeEmpty() {
  for (TableBucket& table : tables_) {
    const absl::StatusOr<PushEffect> effect =
        table.Apply({.keys = {}, .gradients = absl::Span<const float>(), .fresh = {}});
    CHECK(effect.ok()) << effect.status();
  }
}

uint64_t BucketRows::rows() const {
  uint64_t rows = 0;
  for (const TableBucket& table : tables_) rows += table.rows();
  return rows;
}

uint64_t BucketRows::unborn() const {
  uint64_t unborn = 0;
  for (const TableBucket& table : tables_) unborn += table.unborn();
  return unborn;
}

size_t BucketRows::bytes() const {
  size_t bytes = 0;
  for (const TableBucket& table : tables_) bytes += table.bytes();
  return bytes;
}

void BucketRows::BeginRecord() {
  for (TableBucket& table : tables_) table.BeginRecord(std::nullopt);
  recorded_ = 0;
}

Payload BucketRows::NextPart(size_t max_bytes) {
  CHECK(recording());
  Payload part = tables_[recorded_].NextPart(max_bytes);
  if (!tables_[recorded_].recording()) ++recorded_;
  return part;
}

void BucketRows::DropRecord() {
  for (TableBucket& table : tables_) table.DropRecord();
  recorded_ = SIZE_MAX;
}

BucketInstaller::BucketInstaller(const std::vector<TableSpec>& tables, uint32_t bucket, uint64_t copy)
    : specs_(InBucket(tables, bucket)), copy_(copy) {
  next_.emplace(specs_[0], CopyOf(copy_, specs_[0].id));
}

absl::Status BucketInstaller::Add(absl::Span<const std::byte> part) {
  if (!next_) return absl::InvalidArgumentError("a part behind the last one");
  if (absl::Status status = next_->Add(part); !status.ok() || !next_->whole()) return status;
  absl::StatusOr<TableBucket> table = std::move(*next_).Finish();
  if (!table.ok()) return table.status();
  done_.push_back(*std::move(table));
  next_.reset();
  if (done_.size() < specs_.size()) next_.emplace(specs_[done_.size()], CopyOf(copy_, specs_[done_.size()].id));
  return absl::OkStatus();
}

absl::StatusOr<BucketRows> BucketInstaller::Finish(uint64_t consumed) && {
  if (next_) return absl::InvalidArgumentError(absl::StrCat("a record that ends within table ", done_.size()));
  for (const TableBucket& table : done_) {
    if (table.clock() == consumed) continue;
    return absl::InvalidArgumentError(absl::StrCat("rows of table ", table.spec().id, " that have had ", table.clock(),
                                                   " pushes, where the counters make ", consumed));
  }
  return BucketRows(std::move(done_));
}

}  // namespace downpour
