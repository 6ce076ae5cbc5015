// Tuner: proposes the trials of tuning jobs, stops those that are not worth their time, and ends the job.
//
//   Tuner tuner(root, &store, &mutex);
//   tuner.Work("wd1");   // one round
//
// Shapes: a trial is a job of the store, wd1/3, whose folder is ROOT/jobs/wd1/trials/3. ROOT/jobs/wd1/service/verdict
//   says why no trial can be judged, where that is known.
// Order: a trial is on the disk, with its values, before it can start. Its number is the count of those before it. So a
//   service that was killed proposes none twice. The verdict is there before a trial is cancelled by it.
// Errors: those of JobStore.
// Threads: one at a time. `mutex` is held where the store is used, and not while Optuna is asked.
// Tests: tests/unit/service/tuner_test.cc, tests/process/test_tuning.py.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/job_store.h"
#include "service/trial_metrics.h"

namespace downpour {

TuningSpec SpecOf(const Job& tuning);

class Tuner {
 public:
  Tuner(std::string root, JobStore* store, std::mutex* mutex) : root_(std::move(root)), store_(store), mutex_(mutex) {}
  absl::Status Work(const std::string& name);
  // Of jobs that go on, what went wrong so far. Of the thread that works.
  const std::map<std::string, std::string>& troubles() const { return troubles_; }

 private:
  // Errors: what is found is not on the disk yet, so nothing may follow from it.
  absl::StatusOr<std::string> WhyNoJudgement(const Job& job, const TuningSpec& spec, const std::vector<Job>& trials);
  absl::Status Keep(const Job& job);
  absl::Status Begin(const Job& job, const TuningSpec& spec, const std::vector<Job>& trials);
  std::vector<double> Propose(const Job& job, const TuningSpec& spec, const std::vector<Job>& trials);
  absl::Status StopHopeless(const TuningSpec& spec, const std::vector<Job>& trials);
  GrowingCurve& CurveOf(const std::string& trial, const TuningSpec& spec);
  void SayTheBest(const Job& job, const TuningSpec& spec, std::vector<Job> trials);

  const std::string root_;
  JobStore* const store_;
  std::mutex* const mutex_;
  std::map<std::string, std::string> without_optuna_;  // why jobs are searched at random, as their logs say
  std::map<std::string, std::string> verdicts_;        // what WhyNoJudgement has found of a job
  std::map<std::string, std::string> troubles_;
  std::map<std::string, GrowingCurve> curves_;  // of trials
  std::set<std::string> finished_;              // of these, whose curve is whole: it is read no more
};

}  // namespace downpour
