// Checkpoints as tools read them: every byte checked, with no chief running.
//
//   auto checkpoint = LoadCheckpoint("runs/first", "", &passed_over);
//   for (const absl::Status& damage : FindDamage(*OpenCheckpoint("runs/first", {1, 4}))) ...
//
// Order: the newest valid one is found by reading, never remembered: a damaged one is passed over, and said so.
// Cost: to load, all values in memory and one slice's optimizer slots at a time; else one slice at a time.
// Errors: NOT_FOUND where there is none, DATA_LOSS naming file and bytes for what is damaged, INVALID_ARGUMENT for what
//   no writer of ours makes.
// Tests: tests/unit/checkpoint/checkpoint_reader_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chief/folder/journal.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "ps/bucket_parts.h"
#include "schema/checkpoint_format.h"

namespace downpour {

// What a manifest says, and what follows from it. The files are yet to be read.
struct Checkpoint {
  std::string path;  // JOB_DIR/checkpoints/TERM-N
  Manifest manifest;
  JobSpec job;
  SliceGrid grid;
};
absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& job_dir, Round round);

// The newest one whose files are there, each as long as its manifest has it.
absl::StatusOr<Checkpoint> OpenNewestCheckpoint(const std::string& job_dir);

// Whether its files are there, each as long as the manifest has it.
absl::Status CheckFiles(const Checkpoint& checkpoint);

// Everything that is wrong with its files, each of whose bytes is read.
std::vector<absl::Status> FindDamage(const Checkpoint& checkpoint);

struct LoadedCheckpoint : Checkpoint {
  // By slice, without their slots. Since slices are numbered by variable, then by offset, a variable's values are a run
  // of these.
  std::vector<SliceState> slices;
};

// Of a slice of a variable, its slots too.
absl::StatusOr<SliceState> ReadSliceRecord(const Checkpoint& checkpoint, const Slice& slice);

// How many updates a bucket's rows have had. Reads the beginning of its record, without its checksum.
absl::StatusOr<uint64_t> ReadBucketVersion(const Checkpoint& checkpoint, uint32_t bucket);

// The state of a bucket, and its parts to `take`, which may see some before damage is found.
absl::StatusOr<SliceState> ReadBucketRecord(const Checkpoint& checkpoint, uint32_t bucket,
                                            const BucketParts::Take& take);

// Of the chiefs' journal; number 0 where no copy is whole.
JournalEntry NewestJournalEntry(const std::string& job_dir);

// Whether `job` may go on with what the folder holds, as its chief will judge: of its journal and its newest checkpoint
// that is whole, and of the examples of a Python job. OK where there is neither. Errors: INVALID_ARGUMENT, with what
// differs (job/plan_check.h).
absl::Status CheckPlanIn(const std::string& job_dir, const JobSpec& job);

// The newest one, as the journal has it, if its manifest and those of all newer ones are gone and nobody gave it up.
std::optional<Round> LostCheckpoint(const std::string& job_dir);

// The word for the best one, as the journal names it (chief/best_checkpoint.h), where a round's name may stand.
inline constexpr char kBestCheckpoint[] = "best";

// Without its values: `round` is TERM-N or kBestCheckpoint, or empty for OpenNewestCheckpoint.
absl::StatusOr<Checkpoint> OpenNamedCheckpoint(const std::string& job_dir, const std::string& round);

// `round` is TERM-N or kBestCheckpoint. If it is empty, the newest valid one is taken and `passed_over` gets a sentence
// for each newer one.
absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& job_dir, const std::string& round,
                                                std::vector<std::string>* passed_over);

}  // namespace downpour
