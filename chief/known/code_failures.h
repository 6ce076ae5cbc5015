// CodeFailures: how often the job's own code raised in a lease, in evaluations or at a task; when that ends the job.
//
//   failures.Note(lease, "worker-2", leave.why, /*alone=*/false);  // of a lease that it held, beside other workers
//   failures.Committed(lease);
//   failures.NoteInEvaluation("worker-2", leave.why, /*alone=*/false);
//   failures.Evaluated();
//   failures.NoteAt(now, 2, "worker-2", leave.why, workers);       // each of them, and what has no lease
//   if (!failures.failure().ok()) ...the job has failed...
//
// Order: a lease's count outlives its workers, and commits of other leases: code that raises at one example alone would
//   restart workers for as long as the others last. Only a commit of the lease itself ends it. A chief begins at 0.
//   One task that fails alone, beside others, says more of its host than of the code. All evaluations have one count,
//   since the next one fails likewise; one that is in ends it.
//   What is tied to no example, such as a leak or a limit that each process reaches after some steps, raises in another
//   lease each time. Of that the rate tells: kMost within kWithin, at more than half of the workers that the job wants
//   now. Those that were scaled away count no more.
// Cost: one entry for each lease that failed and is not committed; kMost times for each task.
// Tests: tests/unit/chief/code_failures_test.cc.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/world_time.h"
#include "schema/ids.h"

namespace downpour {

class CodeFailures {
 public:
  // What is raised by chance, such as a disk or a server that code reads from, is seldom raised as often in a row.
  static constexpr int kMost = 6;
  // A life of ten minutes is worth its start, however it ends.
  static constexpr Duration kWithin = std::chrono::hours(1);

  void Note(LeaseId lease, const std::string& task, const std::string& why, bool alone) {
    Count(failed_[lease], absl::StrCat("in lease ", ToNumber(lease)), task, why, alone);
  }
  void NoteInEvaluation(const std::string& task, const std::string& why, bool alone) {
    Count(in_evaluation_, "in evaluations", task, why, alone);
  }
  // Of the worker with that index, where the job wants `workers`.
  void NoteAt(Time now, int64_t index, const std::string& task, const std::string& why, int64_t workers) {
    std::deque<Time>& times = at_[index];
    times.push_back(now);
    if (times.size() > kMost) times.pop_front();
    at_.erase(at_.lower_bound(workers), at_.end());
    const auto tasks = std::count_if(at_.begin(), at_.end(), [now](const auto& of) {
      return of.second.size() == kMost && now - of.second.front() <= kWithin;
    });
    if (2 * tasks <= workers) return;
    Fail(absl::StrCat(kMost, " times within an hour at ", tasks, " of ", workers, " workers"), task, why);
  }
  // Its code ended in good order, or broke a rule of its loop, or it asks for more than a step can have: it does that
  // again wherever it is started.
  void NoteEnd(const std::string& task, const std::string& why) {
    if (failure_.ok()) failure_ = absl::AbortedError(absl::StrCat("the job ended at ", task, ": ", why));
  }
  void Committed(LeaseId lease) { failed_.erase(lease); }
  void Evaluated() { in_evaluation_ = {}; }

  // ABORTED once one of these counts was reached, or once the code ended.
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
    if (count < kMost || (failures.tasks.size() < 2 && !alone)) return;
    Fail(absl::StrCat(count, " times ", where), task, why);
  }
  void Fail(const std::string& how_often, const std::string& task, const std::string& why) {
    if (!failure_.ok()) return;
    failure_ = absl::AbortedError(
        absl::StrCat("the job's own code failed ", how_often, ", the last time at ", task, ": ", why));
  }

  std::map<LeaseId, Failures> failed_;
  Failures in_evaluation_;
  std::map<int64_t, std::deque<Time>> at_;  // the newest kMost failures of each worker, by its index
  absl::Status failure_;
};

}  // namespace downpour
