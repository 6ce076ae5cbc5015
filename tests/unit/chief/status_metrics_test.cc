#include "chief/status_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/source_tree.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The sample of docs/STATUS.md, which has every field.
nlohmann::json SampleStatus() {
  std::ifstream file(SourcePath("docs/STATUS.md"));
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const size_t begin = page.find("```json\n") + 8;
  return nlohmann::json::parse(page.substr(begin, page.find("```", begin) - begin));
}

TEST(StatusMetricsTest, EveryNumberHasItsName) {
  StatusMetrics metrics;
  const std::string text = metrics.TextOf(SampleStatus().dump());
  for (const char* line : {
           "downpour_job_info{job=\"mnist-mlp\",run=\"8d3f0a1c55e2b976\"} 1\n",
           "downpour_job_state{state=\"RUNNING\"} 1\n",
           "downpour_job_state{state=\"FAILED\"} 0\n",
           "downpour_examples_total 194560\n",
           "downpour_loss 0.0912\n",
           "downpour_evaluation_accuracy_ratio 0.969\n",
           "downpour_evaluation_metric{metric=\"top5\"} 0.9991\n",
           "downpour_pushes_total{result=\"duplicate\"} 0\n",
           "downpour_workers_lost_total 1\n",
           "downpour_table_rows 1234567\n",
           "downpour_task_table_bytes{task=\"ps-0\",role=\"ps\"} 188743680\n",
           "downpour_stalled 0\n",
           "downpour_tasks_pending 1\n",
           "downpour_task_up{task=\"worker-0\",role=\"worker\"} 1\n",
           "downpour_task_cpu_ratio{task=\"worker-0\",role=\"worker\"} 0.93\n",
           "downpour_task_gpu_utilization_ratio{task=\"worker-0\",role=\"worker\"} 0.87\n",
           "# TYPE downpour_task_cpu_seconds_total counter\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(StatusMetricsTest, EveryPlaceIsOneOfAStatus) {
  StatusMetrics metrics;
  const std::string text = metrics.TextOf(SampleStatus().dump());
  EXPECT_EQ(std::count(text.begin(), text.end(), '#'), 2 * 58) << "a metric that the sample lacks is left out:\n"
                                                               << text;
}

TEST(StatusMetricsTest, CountersOnlyRise) {
  StatusMetrics metrics;
  nlohmann::json status = SampleStatus();
  std::vector<std::string> seen;
  for (const int committed : {100, 250, 50, 90}) {
    status["progress"]["examplesCommitted"] = committed;
    const std::string text = metrics.TextOf(status.dump());
    const size_t at = text.find("\ndownpour_examples_total ") + 25;
    seen.push_back(text.substr(at, text.find('\n', at) - at));
  }
  EXPECT_THAT(seen, ::testing::ElementsAre("100", "250", "250", "290"));
}

TEST(StatusMetricsTest, WhatIsNotKnownHasNoSample) {
  StatusMetrics metrics;
  nlohmann::json status = SampleStatus();
  status["progress"].erase("loss");
  status["stalled"] = "no worker has finished a step";
  status["tasks"] = {{{"name", "ps-\"0"}, {"role", "ps"}, {"state", "PENDING"}}};
  const std::string text = metrics.TextOf(status.dump());
  EXPECT_THAT(text, Not(HasSubstr("downpour_loss")));
  EXPECT_THAT(text, Not(HasSubstr("downpour_task_cpu_ratio")));
  EXPECT_THAT(text, HasSubstr("downpour_task_up{task=\"ps-\\\"0\",role=\"ps\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("downpour_stalled 1\n"));
  EXPECT_EQ(metrics.TextOf("no status"), "");
}

}  // namespace
}  // namespace downpour
