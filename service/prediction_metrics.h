// The models' numbers as Prometheus reads them, by model and version.
//
//   AddPredictionMetrics(models.All(), &text);
//
// Shapes: counters begin at 0 when the service starts, as Prometheus expects it.
// Tests: tests/process/test_predictions.py (promtool).
#pragma once

#include <vector>

#include "runtime/prometheus_text.h"
#include "service/model_service.h"

namespace downpour {

void AddPredictionMetrics(const std::vector<ModelStatus>& models, PrometheusText* text);

}  // namespace downpour
