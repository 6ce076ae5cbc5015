#include "job/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"
#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

JobSpec ChangedJob(const std::vector<std::string>& overrides) { return ParseJob(kJob, "j.yaml", overrides).job; }

TEST(PlanCheckTest, SaysWhatDiffersAndWhoseItIs) {
  const JobSpec job = ChangedJob({});
  EXPECT_TRUE(CheckSamePlan(job, CanonicalJob(ChangedJob({"training.optimizer.learningRate=0.5"})), "it").ok());
  const absl::Status other = CheckSamePlan(job, CanonicalJob(ChangedJob({"seed=9"})), "checkpoint 1-2");
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), AllOf(HasSubstr("checkpoint 1-2 belongs to another plan; it differs in "),
                                                  HasSubstr("seed (9 there, 1 here): set these back, or name ")));
}

TEST(PlanCheckTest, OfAModelItNamesTheFirstVariableThatDiffers) {
  const auto difference = [](const std::vector<std::string>& before) {
    return std::string(CheckSamePlan(ChangedJob({}), CanonicalJob(ChangedJob(before)), "it").message());
  };
  EXPECT_THAT(difference({"model.layers.0.dense.units=5"}),
              HasSubstr("model (dense_0/kernel [784, 5] there, dense_0/kernel [784, 256] here): set"));
  EXPECT_THAT(difference({"model.layers.0.name=first"}),
              HasSubstr("model (first/kernel [784, 256] there, dense_0/kernel [784, 256] here): set"));
  EXPECT_THAT(difference({"model.layers.0.dense.activation=tanh"}), HasSubstr("differs in model: set"));
}

TEST(PlanCheckTest, NamesTheJobOfAnotherName) {
  const std::string other = CanonicalJob(ChangedJob({"name=other", "training.batchSize=32"}));
  EXPECT_THAT(std::string(CheckSamePlan(ChangedJob({}), other, "it").message()),
              HasSubstr("it belongs to another plan, of the job other; it differs in training.batchSize (32 there, "));
}

TEST(PlanCheckTest, ATextThatIsNoJobIsNamed) {
  EXPECT_THAT(std::string(CheckSamePlan(ChangedJob({}), "{", "it").message()),
              AllOf(HasSubstr("it is one that this release does not understand: "), Not(HasSubstr("differs"))));
}

}  // namespace
}  // namespace downpour
