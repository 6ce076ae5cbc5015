// DataPlan: the job file's plan and the data that workers found. Fixed once, by the first report or by the checkpoint
// that is resumed. A worker whose data differ is refused.
//
//   if (absl::Status status = data.Validate("worker-2", report); !status.ok()) ...refuse worker-2...
//
// Errors: Validate gives one sentence that names the task: FAILED_PRECONDITION for other data than was fixed, with the
//   files and both sides; UNAVAILABLE where a worker cannot prepare; INVALID_ARGUMENT for data that no job can have.
// Tests: tests/unit/chief/data_plan_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "job/job.h"
#include "runtime/plan.h"
#include "schema/checkpoint_format.h"
#include "schema/message.h"

namespace downpour {

struct DataShape {
  uint64_t train_examples = 0;
  uint64_t eval_examples = 0;
  uint64_t fingerprint = 0;
  std::vector<DataFile> files = {};  // for people: what else is other where they differ
  bool operator==(const DataShape& other) const {
    return train_examples == other.train_examples && eval_examples == other.eval_examples &&
           fingerprint == other.fingerprint;
  }
};
DataShape DataOf(const Manifest& manifest);
// How `found` differs from what the job was begun with, in words.
std::string DataDifference(const DataSpec& data, const DataShape& found, const DataShape& begun);

class DataPlan {
 public:
  explicit DataPlan(const JobSpec& job) : job_(job) {}

  // As it was fixed before; `source` says where, for people. `grows`: the first report fixes it, and may have further
  // files behind those of `shape`.
  void Recall(const DataShape& shape, const std::string& source, bool grows = false);
  absl::Status Validate(const std::string& task, const DataReport& report);

  bool fixed() const { return fixed_; }
  const Plan& plan() const { return plan_; }
  const DataShape& shape() const { return shape_; }
  // For each set, the first known guess of a report that was accepted.
  const Guesses& guesses() const { return guesses_; }

  // Tasks whose last report was refused, and why. A restarted process counts as its predecessor until it reports.
  const std::map<std::string, absl::Status>& refused() const { return refused_; }

 private:
  absl::Status Check(const std::string& task, const DataReport& report) const;
  absl::Status CheckSame(const std::string& task, const DataReport& report) const;
  void Fix(const DataShape& shape, std::string source);

  const JobSpec& job_;
  bool fixed_ = false;
  std::string source_;  // whose shape_ is, for people; empty: there is none
  DataShape shape_;
  Plan plan_;
  Guesses guesses_;
  std::map<std::string, absl::Status> refused_;
};

// What a job is resumed with that was begun as `before`, on data of `shape`. The epochs of `before` keep these data,
// whatever was appended since; further epochs, which the job has if its training.epochs was raised, have all data.
struct DataToResume {
  std::vector<EarlierEpochs> earlier;  // of the job from now on
  bool grows = false;                  // further files may stand behind those of `shape`
};
// `grew`: `before` was itself resumed with more epochs, and no worker has reported its data yet.
DataToResume ResumeData(const JobSpec& job, const JobSpec& before, const DataShape& shape, bool grew);

// Those of the checkpoints after `abandoned` that are of this plan, in their order: of its data, or of what its earlier
// epochs have of them.
std::vector<Manifest> OfPlan(const std::vector<Manifest>& checkpoints, const JobSpec& job, const DataShape& data,
                             Round abandoned);

}  // namespace downpour
