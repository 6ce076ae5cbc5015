#include "service/trial_metrics.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/job_folder.h"
#include "cluster/status_view.h"
#include "schema/text.h"

namespace downpour {
namespace {

using nlohmann::json;

MetricValueList MetricsOf(const SummaryReport& summary) {
  MetricValueList metrics = summary.eval_metrics;
  if (summary.eval_loss) metrics.emplace_back("loss", *summary.eval_loss);
  if (summary.eval_accuracy) metrics.emplace_back("accuracy", *summary.eval_accuracy);
  return metrics;
}

std::optional<double> MetricOf(const json& line, const std::string& metric) {
  const json& metrics = line.contains("metrics") && line["metrics"].is_object() ? line["metrics"] : line;
  // An accuracy of the user's own stands among the metrics.
  const bool is_plain = (metric == "loss" || metric == "accuracy") && line.contains(metric);
  const json& holder = is_plain ? line : metrics;
  const auto found = holder.find(metric);
  if (found == holder.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace

Curve ReadCurve(const std::string& job_dir, const std::string& metric) { return GrowingCurve(job_dir, metric).Read(); }

const Curve& GrowingCurve::Read() {
  struct stat at {};
  if (stat(path_.c_str(), &at) != 0) return curve_;
  if (at.st_ino != inode_ || at.st_size < read_bytes_) {  // another file
    curve_.clear();
    run_.clear();
    read_bytes_ = 0;
    inode_ = at.st_ino;
  }
  if (at.st_size == read_bytes_) return curve_;
  std::ifstream file(path_);
  file.seekg(read_bytes_);
  for (std::string text; std::getline(file, text) && !file.eof();) {
    read_bytes_ += static_cast<int64_t>(text.size()) + 1;
    Take(text);
  }
  return curve_;
}

void GrowingCurve::Take(const std::string& text) {
  const bool may_count = text.find("\"eval\"") != std::string::npos || text.find("\"job\"") != std::string::npos;
  const json line = may_count ? json::parse(text, nullptr, /*allow_exceptions=*/false) : json();
  if (!line.is_object() || !line.contains("kind")) return;
  if (line["kind"] == "job") {
    const std::string said = line.contains("run") && line["run"].is_string() ? line["run"].get<std::string>() : "";
    if (said != run_) curve_.clear();
    run_ = said;
  }
  if (line["kind"] != "eval" || !line.contains("step") || !line["step"].is_number()) return;
  if (const std::optional<double> value = MetricOf(line, metric_)) {
    curve_.push_back({line["step"].get<int64_t>(), *value});
  }
}

std::optional<JobSpec> DescribedJob(const std::string& job_dir) {
  const absl::StatusOr<std::string> text = ReadTextFile(job_dir + "/python/job.json");  // tools/cli/staged_code.h
  absl::StatusOr<JobSpec> job = text.ok() ? ParseCanonicalJob(*text) : text.status();
  return job.ok() ? std::optional(*std::move(job)) : std::nullopt;
}

void ReadObjective(const std::string& job_dir, const std::string& metric, RunSeen* seen) {
  const absl::StatusOr<std::string> text = ReadTextFile(job_dir + "/summary.json");
  const absl::StatusOr<SummaryReport> summary = text.ok() ? ParseSummary(*text) : text.status();
  const MetricValueList metrics = summary.ok() ? MetricsOf(*summary) : MetricValueList();
  const Curve curve = ReadCurve(job_dir, metric);
  std::vector<std::string> names;
  if (!curve.empty()) {
    seen->objective = curve.back().value;
    seen->step = curve.back().step;
  }
  for (const auto& [name, value] : metrics) {
    names.push_back(name);
    if (name == metric && std::isfinite(value)) seen->objective = value;
  }
  if (seen->objective || seen->exit_code != 0) return;
  std::sort(names.begin(), names.end());
  seen->error =
      absl::StrCat("its evaluation has no ", OneLine(metric, 100), " that is a number, but ",
                   names.empty() ? "nothing: does the job have data for evaluation?" : absl::StrJoin(names, ", "));
}

bool IsHopeless(bool maximize, const Curve& curve, const std::vector<Curve>& finished) {
  if (curve.empty()) return false;
  const auto is_better = [maximize](double a, double b) { return maximize ? a > b : a < b; };
  double best = curve.front().value;
  for (const CurvePoint& point : curve) best = is_better(point.value, best) ? point.value : best;
  std::vector<double> means;
  for (const Curve& other : finished) {
    double sum = 0;
    int count = 0;
    for (const CurvePoint& point : other) {
      if (point.step > curve.back().step) continue;
      sum += point.value;
      ++count;
    }
    if (count > 0) means.push_back(sum / count);
  }
  if (means.size() < kLeastFinished) return false;
  std::sort(means.begin(), means.end());
  const double median = (means[(means.size() - 1) / 2] + means[means.size() / 2]) / 2;
  return is_better(median, best);
}

void SortBestFirst(bool maximize, std::vector<Job>* trials) {
  std::stable_sort(trials->begin(), trials->end(), [maximize](const Job& a, const Job& b) {
    const std::optional<double> left = a.trial->objective, right = b.trial->objective;
    if (!left || !right) return left.has_value() && !right.has_value();
    return maximize ? *left > *right : *left < *right;
  });
}

json SearchProgress(const TuningSpec& spec, std::vector<Job> trials) {
  const auto count = [&](auto is) { return std::count_if(trials.begin(), trials.end(), is); };
  json progress = {{"over", count([](const Job& trial) { return IsOver(trial.state); })},
                   {"wanted", spec.TrialCount()},
                   {"running", count([](const Job& trial) { return trial.state == JobState::kRunning; })},
                   {"failed", count([](const Job& trial) { return trial.state == JobState::kFailed; })},
                   {"metric", spec.metric}};
  SortBestFirst(spec.maximize, &trials);
  if (!trials.empty() && trials.front().trial->objective) progress["best"] = *trials.front().trial->objective;
  return progress;
}

json OutputOf(const TuningSpec& spec, std::vector<Job> trials, const std::string& job_dir) {
  SortBestFirst(spec.maximize, &trials);
  int completed = 0;
  json shown = json::array();
  for (const Job& trial : trials) {
    completed += trial.state == JobState::kSucceeded ? 1 : 0;
    json output = {{"trialId", absl::StrCat(TrialNumber(trial.name))},
                   {"hyperparameters", trial.trial->values},
                   {"state", NameOf(trial.state)},
                   {"isTrialStoppedEarly", trial.trial->stopped_early}};
    if (trial.started_ms != 0) output["startTime"] = TimeText(trial.started_ms);
    if (trial.ended_ms != 0) output["endTime"] = TimeText(trial.ended_ms);
    if (!trial.error.empty()) output["errorMessage"] = trial.error;
    if (trial.trial->objective) {
      output["finalMetric"] = {{"trainingStep", absl::StrCat(trial.trial->step)},
                               {"objectiveValue", *trial.trial->objective}};
    }
    shown.push_back(std::move(output));
  }
  json output = {{"isHyperparameterTuningJob", true},
                 {"hyperparameterMetricTag", spec.metric},
                 {"completedTrialCount", absl::StrCat(completed)},
                 {"trials", std::move(shown)}};
  if (!trials.empty() && trials.front().trial->objective) {
    output["bestTrialFolder"] = absl::StrCat(job_dir, "/trials/", TrialNumber(trials.front().name));
  }
  return output;
}

}  // namespace downpour
