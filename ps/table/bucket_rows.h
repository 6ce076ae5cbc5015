// BucketRows: the rows of all tables of a job whose keys fall into one bucket: what a bucket's counters guard.
//
//   BucketRows rows(TablesOf(job), bucket, copy);
//   Payload values = rows.Gather(keys);
//   const bool counted = rows.Apply(gradients, updates);     // or rows.ConsumeEmpty(): each push is one or the other
//
//   rows.BeginRecord();                                      // between two pushes (T3)
//   while (rows.recording()) Send(rows.NextPart(bytes));     // pushes may come in between
//
// Order: a push is consumed by every table of the bucket, or has no effect on any. So all of them have one clock.
// Cost: as of TableBucket. A pull and a push copy their keys once.
// Errors: CHECKs that frames were admitted, and are of these tables (ps/admission.h).
// Tests: tests/unit/ps/table/bucket_rows_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"
#include "ps/table/table_bucket.h"
#include "ps/table/table_installer.h"
#include "ps/table/table_spec.h"
#include "runtime/row_frames.h"

namespace downpour {

// What the buckets of the job's tables are, but for the bucket's number.
std::vector<TableSpec> TablesOf(const JobSpec& job);

class BucketRows {
 public:
  // `copy`: as TableBucket takes it.
  BucketRows(const std::vector<TableSpec>& tables, uint32_t bucket, uint64_t copy);
  explicit BucketRows(std::vector<TableBucket> tables) : tables_(std::move(tables)) {}

  Payload Gather(const RowKeys& wanted) const;
  // `updates`: of each table. False, and nothing has changed but the clock, where the numbers of some table are not
  // finite or would make rows so.
  [[nodiscard]] bool Apply(const RowGradients& push, absl::Span<const Update> updates);
  void ConsumeEmpty();

  uint64_t rows() const;
  uint64_t unborn() const;
  size_t bytes() const;

  // A record is whole. One that is going on is dropped first (T5).
  void BeginRecord();
  bool recording() const { return recorded_ < tables_.size(); }
  Payload NextPart(size_t max_bytes);  // of the first table, then of the next
  void DropRecord();

 private:
  std::vector<TableBucket> tables_;
  size_t recorded_ = SIZE_MAX;  // tables whose parts have all been given; all: there is no record
};

// Makes BucketRows of the parts that NextPart gave, in their order; whole or not at all.
class BucketInstaller {
 public:
  BucketInstaller(const std::vector<TableSpec>& tables, uint32_t bucket, uint64_t copy);

  // Errors: those of TableInstaller; INVALID_ARGUMENT for a part behind the last table's.
  absl::Status Add(absl::Span<const std::byte> part);
  // INVALID_ARGUMENT where parts are missing, or the tables' clocks differ from `consumed`.
  absl::StatusOr<BucketRows> Finish(uint64_t consumed) &&;

 private:
  std::vector<TableSpec> specs_;
  uint64_t copy_;
  std::vector<TableBucket> done_;
  std::optional<TableInstaller> next_;
};

}  // namespace downpour
