#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kOneOutput = {"model.layers.1.dense.units=1", "model.loss=meanSquaredError"};
const std::vector<std::string> kTwoClasses = {"model.layers.1.dense.units=2"};

std::vector<std::string> ErrorsWithMetrics(const std::string& metrics, std::vector<std::string> overrides = {}) {
  overrides.push_back("training.metrics=" + metrics);
  return ErrorsOf(kJob, overrides);
}

TEST(JobMetrics, AreReadInTheirOrderAndWrittenAsTheyWere) {
  const JobFileResult result = ParseJob(kJob, "j.yaml", {"training.metrics=[top5, logLoss, calibrationError]"});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result.job.training.metrics,
              ElementsAre(MetricSpec{MetricKind::kTopK, 5}, MetricSpec{MetricKind::kLogLoss},
                          MetricSpec{MetricKind::kCalibrationError}));
  EXPECT_EQ(ParseJob(CanonicalJob(result.job), "again").job, result.job);
}

TEST(JobMetrics, EachFitsSomeModel) {
  EXPECT_THAT(ErrorsWithMetrics("[top2, logLoss, calibrationError]"), IsEmpty());
  EXPECT_THAT(ErrorsWithMetrics("[auc, calibration, logLoss, calibrationError]", kTwoClasses), IsEmpty());
  EXPECT_THAT(ErrorsWithMetrics("[rmse, auc, calibration, logLoss]", kOneOutput), IsEmpty());
}

TEST(JobMetrics, WhatDoesNotFitTheModelIsRefused) {
  EXPECT_THAT(ErrorsWithMetrics("[auc]"), ElementsAre(HasSubstr("auc needs two classes")));
  EXPECT_THAT(ErrorsWithMetrics("[calibration]"), ElementsAre(HasSubstr("calibration needs two classes")));
  EXPECT_THAT(ErrorsWithMetrics("[rmse]"), ElementsAre(HasSubstr("rmse needs the loss meanSquaredError")));
  EXPECT_THAT(ErrorsWithMetrics("[top10]"), ElementsAre(HasSubstr("is always 1, since the model has 10 classes")));
  EXPECT_THAT(ErrorsWithMetrics("[top2]", kOneOutput), ElementsAre(HasSubstr("top2 needs classes")));
  EXPECT_THAT(ErrorsWithMetrics("[calibrationError]", kOneOutput),
              ElementsAre(HasSubstr("calibrationError needs classes")));
  EXPECT_THAT(ErrorsWithMetrics("[logLoss]", {"model.loss=meanSquaredError"}),
              ElementsAre(HasSubstr("logLoss needs classes or a single output")));
}

TEST(JobMetrics, WhatIsNoMetricIsRefusedWithWhatIs) {
  for (const char* word : {"top", "top0", "top05", "top+5", "top-1", "top99999999999999999999", "TOP5", "recall"}) {
    EXPECT_THAT(ErrorsWithMetrics("[" + std::string(word) + "]"),
                ElementsAre(AllOf(HasSubstr("is no metric"), HasSubstr("top and a number"))))
        << word;
  }
  EXPECT_THAT(ErrorsWithMetrics("[AUC]"), ElementsAre(HasSubstr("did you mean auc?")));
  EXPECT_THAT(ErrorsWithMetrics("[top1]"), ElementsAre(HasSubstr("always told")));
  EXPECT_THAT(ErrorsWithMetrics("[accuracy]"), ElementsAre(HasSubstr("always told")));
  EXPECT_THAT(ErrorsWithMetrics("[top5, top5]"), ElementsAre(HasSubstr("top5 stands there twice")));
  EXPECT_THAT(ErrorsWithMetrics("top5"), ElementsAre(HasSubstr("training.metrics")));
  EXPECT_THAT(ErrorsWithMetrics("[[top5]]"), ElementsAre(HasSubstr("training.metrics.0")));
}

}  // namespace
}  // namespace downpour
