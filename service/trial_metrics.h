// Trial metrics: what a trial's run has reached, from summary.json and metrics.jsonl in its job folder, which trial is
// the best, and which is not worth its time.
//
//   const std::vector<CurvePoint> curve = ReadCurve(job_dir, "accuracy");
//   if (IsHopeless(/*maximize=*/true, curve, finished)) ...stop it...
//
// Shapes: a curve is in the order of its evaluations. Lines that are no JSON, as a kill leaves them, are ignored. So is
//   what stands before the last begin of a run.
// Source: the median rule of Golovin et al., Google Vizier (KDD 2017), 3.2.
// Tests: tests/unit/service/trial_metrics_test.cc.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "service/lifecycle.h"

namespace downpour {

struct CurvePoint {
  int64_t step = 0;
  double value = 0;
};
using Curve = std::vector<CurvePoint>;

Curve ReadCurve(const std::string& job_dir, const std::string& metric);

// The same of a run that goes on.
// Cost: of a call, what the file has grown by since the last one.
class GrowingCurve {
 public:
  GrowingCurve(const std::string& job_dir, std::string metric)
      : path_(job_dir + "/metrics.jsonl"), metric_(std::move(metric)) {}
  // A line that is not whole yet is read by a later call.
  const Curve& Read();
  const Curve& curve() const { return curve_; }  // as the last call has read it

 private:
  void Take(const std::string& text);

  const std::string path_, metric_;
  int64_t read_bytes_ = 0;
  uint64_t inode_ = 0;  // of the file that they are of
  std::string run_;     // that the last lines are of
  Curve curve_;
};

// The job of a run of Python code, once that has said what it computes and the run's folder has it.
std::optional<JobSpec> DescribedJob(const std::string& job_dir);

// The objective of a run that is over; where it has none, the names that it has as `seen->error`, if it went well.
void ReadObjective(const std::string& job_dir, const std::string& metric, RunSeen* seen);

// Its best value is worse than the median of what others had on the mean by the same step. Until kLeastFinished others
// are known that far, no trial is.
inline constexpr size_t kLeastFinished = 3;
bool IsHopeless(bool maximize, const Curve& curve, const std::vector<Curve>& finished);

// Those with an objective first, the best at the front.
void SortBestFirst(bool maximize, std::vector<Job>* trials);

// How far a search is: {"over": 3, "wanted": 20, "running": 2, "failed": 0, "metric": "accuracy", "best": 0.93}. `best`
// is absent until a trial has one.
nlohmann::json SearchProgress(const TuningSpec& spec, std::vector<Job> trials);

// trainingOutput of a tuning job.
nlohmann::json OutputOf(const TuningSpec& spec, std::vector<Job> trials, const std::string& job_dir);

}  // namespace downpour
