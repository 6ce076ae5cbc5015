// `downpour data job`: what it writes is a job whose columns are those of the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DataJobTest : public testing::Test {
 protected:
  void SetUp() override { dir_ = FreshFolder("data_job"); }
  ToolOutcome Write(const std::string& text, const std::string& label, std::vector<std::string> more = {}) {
    PutFile(dir_ + "/odd file.csv", text);
    std::vector<std::string> args = {"data", "job", dir_ + "/odd file.csv", "--label", label};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }
  JobSpec JobOn(const std::string& text, const std::string& label) {
    const ToolOutcome said = Write(text, label);
    EXPECT_EQ(said.code, kExitDone) << said.err;
    const JobFileResult read = ParseJob(said.out, "written");
    for (const JobError& error : read.errors) ADD_FAILURE() << ToString(error) << "\n" << said.out;
    return read.job;
  }
  std::string dir_;
};

TEST_F(DataJobTest, EachColumnIsAsItsValuesSuggest) {
  const JobSpec job = JobOn(
      "age,\"odd \"\"name\"\", x\",same,pay,label\n1,a,7,1.5,no\n3,,7,,yes\n1,\"b: [c]\",7,-1.5,no\n3,a,7,0,yes\n",
      "label");
  EXPECT_EQ(job.name, "odd_file");
  EXPECT_THAT(job.data.train.files, ElementsAre(dir_ + "/odd file.csv"));
  ASSERT_EQ(job.data.columns.size(), 3u) << "what is the same in all records is left out";
  EXPECT_EQ(job.data.columns[0].name, "age");
  EXPECT_EQ(job.data.columns[0].mean, 2);
  EXPECT_EQ(job.data.columns[0].deviation, 1);
  EXPECT_FALSE(job.data.columns[0].fill);
  EXPECT_THAT(job.data.columns[1].from, ElementsAre("odd \"name\", x"));
  EXPECT_THAT(job.data.columns[1].vocabulary, ElementsAre("a", "b: [c]"));
  EXPECT_EQ(job.data.columns[2].fill, 0) << "a missing number is the mean";
  EXPECT_THAT(job.data.label.classes, ElementsAre(ElementsAre("no"), ElementsAre("yes")));
  EXPECT_EQ(job.model.loss, Loss::kSoftmaxCrossEntropy);
  EXPECT_EQ(job.training.metrics.size(), 1u);
}

TEST_F(DataJobTest, AColumnWithoutValuesIsLeftOut) {
  const JobSpec job = JobOn("x,note,y\n1,,0\n2,,1\n3,,0\n", "y");
  ASSERT_EQ(job.data.columns.size(), 1u);
  EXPECT_EQ(job.data.columns[0].name, "x");
}

TEST_F(DataJobTest, ALabelIsAClassOrANumber) {
  const std::string text = "x,class,words,price,many\n";
  std::string rows;
  for (int i = 0; i < 1500; ++i) absl::StrAppend(&rows, i % 7, ",", i % 3, ",w", i, ",", i, ".5,", i, "\n");
  const JobSpec classes = JobOn(text + rows, "class");
  EXPECT_TRUE(classes.data.label.classes.empty()) << "0, 1 and 2 are themselves";
  EXPECT_EQ(std::get<DenseSpec>(classes.model.layers.back().op).units, 3);
  EXPECT_EQ(classes.data.columns[1].hash, 1024) << "words that nobody counts";
  for (const char* number : {"price", "many"}) {
    const JobSpec job = JobOn(text + rows, number);
    EXPECT_TRUE(job.data.label.is_number) << number;
    EXPECT_EQ(job.model.loss, Loss::kMeanSquaredError);
  }
  EXPECT_THAT(Write(text + rows, "words").err, HasSubstr("more than 1000 different words"));
  EXPECT_THAT(Write(text + rows, "pric").err, HasSubstr("did you mean price?"));
}

TEST_F(DataJobTest, NumbersAreScaledHoweverFarFromZeroOrLargeTheyAre) {
  const JobSpec far = JobOn("x,b\n1234567890,0\n1234567892,1\n", "b");
  EXPECT_EQ(far.data.columns[0].mean, 1234567891) << "a rounded mean would be many deviations off";
  const JobSpec odd = JobOn("x,y,z,b\n1e300,1e-40,1e200,0\n-1e300,3e-40,,1\n", "b");
  EXPECT_TRUE(odd.data.columns[0].log) << "what is beyond floats is told apart by its logarithm";
  ASSERT_EQ(odd.data.columns.size(), 1u) << "what floats cannot tell apart is the same in all records";
}

TEST_F(DataJobTest, NumbersMayHaveCommasAndLabelsAnySize) {
  std::string csv = "size;price\n";
  for (int i = 0; i < 1200; ++i) absl::StrAppend(&csv, i % 50, ",5;", 300000 + 1000 * (i % 1100), ",25\n");
  const JobSpec job = JobOn(csv, "price");
  EXPECT_EQ(job.data.decimal, ',');
  EXPECT_EQ(job.data.columns[0].kind, ColumnKind::kNumber);
  EXPECT_NEAR(job.data.columns[0].mean, 25, 0.5);
  EXPECT_TRUE(job.data.label.is_number);
  EXPECT_GT(job.data.label.mean, 300000);
  EXPECT_GT(job.data.label.deviation, 100000);
}

TEST_F(DataJobTest, WhatWasLeftOutMayBeLeftOutAgain) {
  EXPECT_EQ(JobOn("a,b\n1,0\n2,?\n3,1\n4,\n", "b").data.skip, 2) << "nothing is learned without a label";
  EXPECT_EQ(JobOn("a;b\n1;0\n2;1\nodd\n4;1\n", "b").data.skip, 1);
  EXPECT_THAT(Write("a,b\n1,0\n1,1\n", "b").err, HasSubstr("has nothing to learn from"));
  EXPECT_THAT(Write("a,b\n1,0\n2,0\n", "b").err, HasSubstr("is the same in all records"));
  EXPECT_THAT(Write("a,b\n1,0\n2,1\n", "b", {"--eval", "e.csv"}).out, HasSubstr("/e.csv\"\n"));
}

}  // namespace
}  // namespace downpour
