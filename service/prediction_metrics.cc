#include "service/prediction_metrics.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using Add = std::function<void(const VersionStatus&, const PrometheusText::Labels&)>;

void AddOfEach(const std::vector<ModelStatus>& models, const Add& add) {
  for (const ModelStatus& model : models) {
    for (const VersionStatus& one : model.versions)
      add(one, {{"model", model.model.name}, {"version", one.version.name}});
  }
}

template <const auto& kBounds>
void AddTimes(const TimeHistogram<kBounds>& times, const PrometheusText::Labels& labels, PrometheusText* text) {
  uint64_t below = 0;
  for (size_t i = 0; i < times.buckets.size(); ++i) {
    below += times.buckets[i];
    PrometheusText::Labels own = labels;
    own.emplace_back("le", i < kBounds.size() ? absl::StrCat(kBounds[i]) : "+Inf");
    text->Add(static_cast<double>(below), own, "_bucket");
  }
  text->Add(times.seconds, labels, "_sum");
  text->Add(static_cast<double>(times.count), labels, "_count");
}

}  // namespace

void AddPredictionMetrics(const std::vector<ModelStatus>& models, PrometheusText* text) {
  const auto add_counter = [&](const char* name, const char* help, uint64_t PredictionCounts::*count) {
    text->Begin(name, "counter", help);
    AddOfEach(models, [&](const VersionStatus& one, const PrometheusText::Labels& labels) {
      text->Add(static_cast<double>(one.meter->Counts().*count), labels);
    });
  };
  add_counter("downpour_prediction_requests_total", "Requests for predictions, by model and version.",
              &PredictionCounts::requests);
  add_counter("downpour_prediction_errors_total", "Requests for predictions that were answered by an error.",
              &PredictionCounts::errors);
  add_counter("downpour_prediction_rows_total", "Rows that were predicted.", &PredictionCounts::rows);
  text->Begin("downpour_prediction_latency_seconds", "histogram",
              "Time from a request's last byte to its answer, waiting for its turn included.");
  AddOfEach(models, [&](const VersionStatus& one, const PrometheusText::Labels& labels) {
    AddTimes(one.meter->Counts().latency, labels, text);
  });
  text->Begin("downpour_prediction_freshness_seconds", "histogram",
              "Of answers by a model in training: how long a push to its servers may have waited at most.");
  AddOfEach(models, [&](const VersionStatus& one, const PrometheusText::Labels& labels) {
    if (IsLiveOrigin(one.version.origin)) AddTimes(one.meter->Counts().age, labels, text);
  });
}

}  // namespace downpour
