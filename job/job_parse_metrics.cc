#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "job/job_names.h"
#include "job/job_parse.h"
#include "job/nearest_name.h"
#include "job/variables.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr int64_t kMostGuesses = 1'000'000;

// Python code may compute one of this name in place of the job's, which it has of classes.
constexpr const char* kAccuracy = "accuracy";

constexpr const char* kKnownMetrics =
    "top and a number, such as top5, logLoss, rmse, auc, calibration, calibrationError";

std::string DidYouMeanMetric(const std::string& word) {
  std::vector<std::string> names;
  for (const auto& named : kMetrics) names.push_back(named.name);
  const std::string meant = WhatWasMeant(word, names);
  return meant.empty() ? "" : meant + "; ";
}

bool ParseMetric(const std::string& word, MetricSpec* metric) {
  for (const auto& named : kMetrics) {
    if (word != named.name) continue;
    *metric = {.kind = named.value};
    return true;
  }
  int64_t k = 0;
  absl::string_view number = word;
  if (!absl::ConsumePrefix(&number, kTop) || !absl::SimpleAtoi(number, &k)) return false;
  *metric = {.kind = MetricKind::kTopK, .k = k};
  return k >= 2 && k <= kMostGuesses && NameOf(*metric) == word;  // no +5, no 05
}

// Why the model's outputs say nothing of a metric; empty: they do.
std::string Misfit(const MetricSpec& metric, Loss loss, int64_t outputs) {
  const bool classes = loss == Loss::kSoftmaxCrossEntropy;
  const bool binary = classes ? outputs == 2 : outputs == 1;
  switch (metric.kind) {
    case MetricKind::kTopK:
      if (!classes) return "needs classes, which only the loss softmaxCrossEntropy has";
      return metric.k < outputs ? "" : absl::StrCat("is always 1, since the model has ", outputs, " classes");
    case MetricKind::kLogLoss:
      return classes || outputs == 1 ? "" : "needs classes or a single output";
    case MetricKind::kRmse:
      return loss == Loss::kMeanSquaredError && outputs == 1 ? ""
                                                             : "needs the loss meanSquaredError and a single output";
    case MetricKind::kAuc:
    case MetricKind::kCalibration:
      return binary ? "" : "needs two classes, or a single output";
    case MetricKind::kCalibrationError:
      return classes ? "" : "needs classes, which only the loss softmaxCrossEntropy has";
    case MetricKind::kMean:
    case MetricKind::kRatio:
      return "";
  }
  return "";
}

// Of a model whose Python code computes them: any names. Those that it says nothing of are means.
void ReadOwnMetrics(const YamlNode* node, const std::string& path, const std::vector<MetricSpec>& known,
                    JobErrors& errors, std::vector<MetricSpec>* metrics) {
  for (const YamlNode& item : ItemsOf(node, path, kMostMetrics, errors)) {
    const std::string at = absl::StrCat(path, ".", &item - node->items.data());
    MetricSpec metric = {.kind = MetricKind::kMean};
    if (!ReadName(item, at, errors, &metric.name)) continue;
    const auto own = std::ranges::find(known, metric.name, &MetricSpec::name);
    if (own != known.end()) metric = *own;
    if (metric.name == "loss") {
      errors.Add(item, at, "the loss is always told", "leave it out");
    } else if (std::find(metrics->begin(), metrics->end(), metric) != metrics->end()) {
      errors.Add(item, at, absl::StrCat(metric.name, " stands there twice"), "leave one out");
    } else {
      metrics->push_back(metric);
    }
  }
}

}  // namespace

void ReadMetrics(const YamlNode* node, const std::string& path, const JobSpec& job, JobErrors& errors,
                 std::vector<MetricSpec>* metrics) {
  const ModelSpec& model = job.model;
  if (model.is_own()) return ReadOwnMetrics(node, path, job.python.metrics, errors, metrics);
  const absl::StatusOr<int64_t> outputs = InferOutputWidth(model);
  const int64_t of_each = job.data.label.is_set() ? 1 : outputs.value_or(0);  // of a set each output is judged alone
  for (const YamlNode& item : ItemsOf(node, path, kMostMetrics, errors)) {
    const std::string at = absl::StrCat(path, ".", &item - node->items.data());
    std::string word;
    if (!ReadText(item, at, errors, &word)) continue;
    MetricSpec metric;
    if (word == kAccuracy || word == "loss" || word == "top1") {
      errors.Add(item, at, absl::StrCat("loss and accuracy, which is top1, are always told"), "leave it out");
    } else if (!ParseMetric(word, &metric)) {
      errors.Add(item, at, absl::StrCat("'", CleanText(word, 64), "' is no metric"),
                 absl::StrCat(DidYouMeanMetric(word), "use ", kKnownMetrics));
    } else if (std::find(metrics->begin(), metrics->end(), metric) != metrics->end()) {
      errors.Add(item, at, absl::StrCat(word, " stands there twice"), "leave one out");
    } else if (const std::string why = outputs.ok() ? Misfit(metric, model.loss, of_each) : ""; !why.empty()) {
      errors.Add(item, at, absl::StrCat(word, " ", why), "leave it out, or change the model");
    } else {
      metrics->push_back(metric);
    }
  }
}

std::vector<std::string> ComparableMetrics(const JobSpec& job) {
  std::vector<std::string> names = {"loss"};
  if (job.model.has_accuracy()) names.push_back(kAccuracy);
  for (const MetricSpec& metric : job.training.metrics) {
    const bool is_plain = metric.kind == MetricKind::kMean || metric.kind == MetricKind::kRatio;
    const bool is_known = metric.better != Better::kUnknown || (!job.model.has_accuracy() && metric.name == kAccuracy);
    if (is_known || !is_plain) names.push_back(NameOf(metric));
  }
  return names;
}

void ReadStopEarly(const YamlNode& node, const JobSpec& job, JobErrors& errors, std::optional<StopEarlySpec>* stop) {
  StopEarlySpec spec;
  MapReader reader(node, "training.stopEarly", errors);
  const std::vector<std::string> names = ComparableMetrics(job);
  if (const int chosen = reader.Choose("metric", names); chosen >= 0) spec.metric = names[chosen];
  reader.Integer("patience", 1, 1'000'000, &spec.patience);
  reader.Number(
      "minDelta", [](double value) { return value >= 0 && value <= 1e30; }, "0 to 1e30", &spec.min_delta);
  reader.Finish();
  if (job.training.evaluate_every_epochs == 0) {
    reader.Fail(node, "", "counts evaluations, but training.evaluateEveryEpochs is 0", "evaluate every epoch or so");
  }
  if (!job.data.has_eval()) {
    reader.Fail(node, "", "counts evaluations, but there is no data.eval", "name data.eval, or give fit() eval=");
  }
  *stop = spec;
}

}  // namespace downpour
