#include "runtime/prometheus_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace downpour {
namespace {

TEST(PrometheusTextTest, AMetricHasItsHelpOnceAndThenItsSamples) {
  PrometheusText text;
  text.Begin("jobs", "gauge", "Jobs, by their state.");
  text.Add(1, {{"state", "QUEUED"}});
  text.Add(2.5, {{"state", "RUNNING"}, {"at", "h0"}});
  text.Begin("none", "gauge", "Nothing is known of it.");
  text.Begin("pushes_total", "counter", "Pushes.");
  text.Add(9007199254740);
  EXPECT_EQ(text.text(),
            "# HELP jobs Jobs, by their state.\n# TYPE jobs gauge\n"
            "jobs{state=\"QUEUED\"} 1\njobs{state=\"RUNNING\",at=\"h0\"} 2.5\n"
            "# HELP pushes_total Pushes.\n# TYPE pushes_total counter\npushes_total 9007199254740\n");
}

TEST(PrometheusTextTest, LabelsAreEscaped) {
  PrometheusText text;
  text.Begin("a", "gauge", "A.");
  text.Add(0, {{"said", "\"a\\b\"\nc"}});
  EXPECT_NE(text.text().find("a{said=\"\\\"a\\\\b\\\"\\nc\"} 0\n"), std::string::npos) << text.text();
}

TEST(PrometheusTextTest, WhatIsNotFiniteHasItsWords) {
  PrometheusText text;
  text.Begin("a", "gauge", "A.");
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) text.Add(value);
  EXPECT_NE(text.text().find("a NaN\na +Inf\na -Inf\n"), std::string::npos) << text.text();
}

}  // namespace
}  // namespace downpour
