// CodeFailures: how often the job's own code raised in a lease, or in evaluations, whichever workers computed them, and
// when that ends the job.
//
//   failures.Note(lease, "worker-2", leave.why, /*alone=*/false);  // of a lease that it held, beside other workers
//   failures.Committed(lease);
//   failures.NoteInEvaluation("worker-2", leave.why, /*alone=*/false);
//   failures.Evaluated();
//   if (!failures.failure().ok()) ...the job has failed...
//
// Order: a lease's count outlives its workers, and commits of other leases: code that raises at one example alone would
//   restart workers for as long as the others last. Only a commit of the lease itself ends it. A chief begins at 0.
//   One task that fails alone, beside others, says more of its host than of the code. All evaluations have one count,
//   since the next one fails likewise; one that is in ends it.
// Cost: one entry for each lease that failed and is not committed.
// Tests: tests/unit/chief/code_failures_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schema/ids.h"

namespace downpour {

class CodeFailures {
 public:
  // What is raised by chance, such as a disk or a server that code reads from, is seldom raised as often in a row.
  static constexpr int kMost = 6;

  void Note(LeaseId lease, const std::string& task, const std::string& why, bool alone) {
    Count(failed_[lease], absl::StrCat("in lease ", ToNumber(lease)), task, why, alone);
  }
  void NoteInEvaluation(const std::string& task, const std::string& why, bool alone) {
    Count(in_evaluation_, "in evaluations", task, why, alone);
  }
  // It ended in good order, so it does that again wherever it is started.
  void NoteEnd(const std::string& task, const std::string& why) {
    if (failure_.ok()) failure_ = absl::AbortedError(absl::StrCat("the job's own code ended at ", task, ": ", why));
  }
  void Committed(LeaseId lease) { failed_.erase(lease); }
  void Evaluated() { in_evaluation_ = {}; }

  // ABORTED once some lease, or evaluations, failed kMost times, on two tasks or on the only one; or once it ended.
  const absl::Status& failure() const { return failure_; }

 private:
  struct Failures {
    int count = 0;
    std::set<std::string> tasks;
  };
  void Count(Failures& failures, const std::string& where, const std::string& task, const std::string& why,
             bool alone) {
    failures.tasks.insert(task);
    const int count = ++failures.count;
    if (count < kMost || (failures.tasks.size() < 2 && !alone) || !failure_.ok()) return;
    failure_ = absl::AbortedError(
        absl::StrCat("the job's own code failed ", count, " times ", where, ", the last time at ", task, ": ", why));
  }

  std::map<LeaseId, Failures> failed_;
  Failures in_evaluation_;
  absl::Status failure_;
};

}  // namespace downpour
