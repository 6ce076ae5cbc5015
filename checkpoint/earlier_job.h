// EarlierJob: what a job folder of yesterday gives a new job to begin with: variables, tables, and their optimizer's
// state.
//
//   absl::StatusOr<EarlierJob> earlier = EarlierJob::Open(job);   // job.model.initializeFrom is a folder
//   const auto own = earlier->OpenOwnValues(job_dir);
//   absl::Status status = earlier->Stage(job_dir, *own);           // the chief's main, which has the folder's lock
//
// Shapes: JOB_DIR/initial/ as runtime/posix/initial_values.h has it, and a record of each bucket in a file of its own.
// Order: variables and tables are taken up by name, from the newest checkpoint whose files are there. A variable of
//   another shape, or one that is not there, begins as without: in a job of Python code as its model has it. With the
//   same optimizer its slots come along, and for a variable the count of its updates, which Adam's correction needs;
//   with another one they begin at zero. A row counts as if the new job's first push had it. Counts of keys that have
//   no row yet begin anew.
// Cost: a pass over the earlier tables where both jobs have the same tables and as many buckets; else one for each
//   table. Memory: a slice, and 64 MiB or 128 KiB for each bucket.
// Errors: INVALID_ARGUMENT naming folder, table and remedy: a table of another width, nothing that both have. DATA_LOSS
//   for what is damaged, NOT_FOUND where there is no checkpoint, or no values of the code's; UNAVAILABLE of the disk.
// Tests: tests/unit/checkpoint/earlier_job_test.cc, tests/process/test_fine_tuning.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_reader.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "ps/bucket_writer.h"
#include "ps/table/table_spec.h"
#include "runtime/posix/initial_values.h"

namespace downpour {

class EarlierJob {
 public:
  // Reads manifests alone.
  static absl::StatusOr<EarlierJob> Open(const JobSpec& job);
  static absl::StatusOr<EarlierJob> Match(const JobSpec& job, Checkpoint from);

  // 3 variables and 2 tables from runs/first/checkpoints/1-9; and what of both has no counterpart.
  std::string Note() const;
  // Of a job of Python code: what its variables that begin anew begin with. Nothing: there are none, or they are drawn.
  using OwnValues = std::optional<InitialValuesFile>;
  absl::StatusOr<OwnValues> OpenOwnValues(const std::string& job_dir) const;
  // What was staged before is replaced.
  absl::Status Stage(const std::string& job_dir, const OwnValues& own) const;

 private:
  void MatchVariables();
  absl::Status MatchTables();
  absl::Status IntoFtrl(const std::string& what, const std::string& key) const;
  absl::StatusOr<SliceState> StateOf(const Slice& slice, const OwnValues& own) const;
  absl::StatusOr<Manifest> Write(const std::string& folder, const OwnValues& own) const;
  absl::Status WriteVariables(const std::string& folder, const OwnValues& own, Manifest* manifest) const;
  absl::Status WriteBuckets(const std::string& folder, Manifest* manifest) const;
  absl::StatusOr<uint64_t> VersionOfRows() const;
  absl::Status CopyBucket(uint32_t bucket, BucketWriter* writer) const;
  absl::Status SpreadRows(std::vector<BucketWriter>* writers) const;
  bool HasSameBuckets() const;
  size_t PartBytes() const;

  JobSpec job_;
  SliceGrid grid_;
  Checkpoint from_;
  bool keeps_slots_ = false;                        // of variables
  std::vector<std::optional<uint32_t>> variables_;  // of the earlier job, by those of this one
  std::vector<std::optional<size_t>> tables_;       // likewise
  std::vector<TableSpec> specs_;                    // of this job's tables
  std::vector<std::string> anew_, unused_;
};

// Whether model.initializeFrom is a folder.
bool BeginsWithEarlierJob(const JobSpec& job);

// Of such a job. Takes the newest checkpoint of which every byte can be read. Returns the note.
absl::StatusOr<std::string> StageFromEarlierJob(const JobSpec& job, const std::string& job_dir);

}  // namespace downpour
