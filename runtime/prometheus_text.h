// PrometheusText: numbers in the format that Prometheus scrapes.
//
//   PrometheusText text;
//   text.Begin("downpour_task_cpu_ratio", "gauge", "Cores that the task keeps busy.");
//   text.Add(0.93, {{"task", "worker-0"}});
//   response.set_content(text.text(), PrometheusText::kType);
//
// Order: the samples of a metric follow its Begin. A metric without samples is left out.
// Source: Prometheus, "Exposition formats", text format 0.0.4; "Metric and label naming".
// Tests: tests/unit/runtime/prometheus_text_test.cc, tests/process/test_metrics.py (promtool).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace downpour {

class PrometheusText {
 public:
  static constexpr const char* kType = "text/plain; version=0.0.4; charset=utf-8";
  using Labels = std::vector<std::pair<const char*, std::string>>;

  // `type`: gauge, counter or histogram.
  void Begin(const std::string& name, const char* type, const std::string& help);
  // `suffix`: of a histogram's samples, _bucket, _sum and _count.
  void Add(double value, const Labels& labels = {}, const char* suffix = "");
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string head_;  // not written yet
  std::string text_;
};

}  // namespace downpour
