#include "chief/known/data_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chief/known/step_context.h"
#include "job/job_file.h"
#include "runtime/prng.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

DataReport ReportOf(uint64_t train, uint64_t eval, uint64_t fingerprint, std::string error = "") {
  return {Incarnation{1}, train, eval, fingerprint, std::move(error)};
}

TEST(DataPlanTest, TheFirstGoodReportFixesThePlan) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  EXPECT_FALSE(data.Validate("worker-1", ReportOf(0, 10, 7)).ok());
  EXPECT_FALSE(data.fixed());
  ASSERT_TRUE(data.Validate("worker-0", ReportOf(12, 10, 7)).ok());
  ASSERT_TRUE(data.Validate("worker-1", ReportOf(12, 10, 7)).ok());
  EXPECT_EQ(data.plan().total_leases(), 6u);
  EXPECT_EQ(data.shape().eval_examples, 10u);
}

// A row says which push to its bucket was its last, in 32 bits.
TEST(DataPlanTest, MoreStepsThanTablesCountAreRefused) {
  JobSpec job = SmallJob();
  job.training.batch_size = job.training.push_every = job.training.epochs = 1;
  EXPECT_TRUE(DataPlan(job).Validate("worker-0", ReportOf(uint64_t{1} << 32, 10, 7)).ok());
  job.model.tables = {{.name = "words", .width = 4}};
  const absl::Status status = DataPlan(job).Validate("worker-0", ReportOf(uint64_t{1} << 32, 10, 7));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tables count at most"));
  EXPECT_TRUE(DataPlan(job).Validate("worker-0", ReportOf(1 << 20, 10, 7)).ok());
}

TEST(DataPlanTest, TheFirstGoodReportThatKnowsAGuessSaysIt) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  const Guess train = {0.6, 0.7}, eval = {0.5, 0.8};
  DataReport report = ReportOf(12, 10, 7);
  ASSERT_TRUE(data.Validate("worker-0", report).ok());
  EXPECT_FALSE(data.guesses().train.known());
  report.guesses = {train, eval};
  ASSERT_TRUE(data.Validate("worker-1", report).ok());
  report.guesses = {{0.1, 0.9}, {0.1, 0.9}};
  ASSERT_TRUE(data.Validate("worker-2", report).ok());
  EXPECT_EQ(data.guesses(), (Guesses{train, eval}));
}

TEST(DataPlanTest, WhatARefusedReportSaysOfLabelsIsForgotten) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  ASSERT_TRUE(data.Validate("worker-0", ReportOf(12, 10, 7)).ok());
  DataReport other = ReportOf(12, 10, 8);
  other.guesses = {{0.6, 0.7}, {0.5, 0.8}};
  EXPECT_FALSE(data.Validate("worker-1", other).ok());
  EXPECT_EQ(data.guesses(), Guesses());
}

// As after a restart of the chief, which knows the plan from its journal or a checkpoint.
TEST(DataPlanTest, APlanThatIsRecalledLearnsOfLabelsFromItsWorkers) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  data.Recall({12, 10, 7}, "the job was begun with");
  DataReport report = ReportOf(12, 10, 7);
  report.guesses = {{0.6, 0.7}, {0.5, 0.8}};
  ASSERT_TRUE(data.Validate("worker-0", report).ok());
  EXPECT_EQ(data.guesses(), report.guesses);
}

TEST(DataPlanTest, GuessesThatNoLabelsHaveAreRefused) {
  const JobSpec job = SmallJob();
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  for (const Guess& bad : {Guess{-1, 0.5}, {1e39, 0.5}, {nan, 0.5}, {infinite, 0.5}, {1, -0.1}, {1, 1.1}, {1, nan}}) {
    DataPlan data(job);
    DataReport report = ReportOf(12, 10, 7);
    report.guesses.train = bad;
    EXPECT_TRUE(absl::IsInvalidArgument(data.Validate("worker-0", report))) << bad.loss << " " << bad.accuracy;
    std::swap(report.guesses.train, report.guesses.eval);
    EXPECT_TRUE(absl::IsInvalidArgument(data.Validate("worker-0", report))) << bad.loss << " " << bad.accuracy;
    EXPECT_FALSE(data.fixed());
  }
}

TEST(DataPlanTest, ADifferingCopyIsRefusedByName) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  ASSERT_TRUE(data.Validate("worker-0", ReportOf(12, 10, 7)).ok());
  for (const DataReport& other : {ReportOf(11, 10, 7), ReportOf(12, 9, 7), ReportOf(12, 10, 8)}) {
    const absl::Status status = data.Validate("worker-1", other);
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(MessageOf(status), HasSubstr("worker-1 has other data than worker-0"));
  }
  EXPECT_EQ(data.plan().train_examples(), 12u);
  EXPECT_EQ(data.refused().count("worker-1"), 1u);
  ASSERT_TRUE(data.Validate("worker-1", ReportOf(12, 10, 7)).ok());
  EXPECT_TRUE(data.refused().empty());
}

TEST(DataPlanTest, WhatDiffersIsNamedByItsFilesAndWithBothSides) {
  const JobSpec job = SmallJob({"data.train={images: a, labels: b}", "data.eval={images: c, labels: d}"});
  DataPlan data(job);
  ASSERT_TRUE(data.Validate("worker-0", ReportOf(12, 10, 7)).ok());
  const auto why = [&](const DataReport& report) { return MessageOf(data.Validate("worker-1", report)); };
  EXPECT_THAT(why(ReportOf(11, 10, 8)), EndsWith("worker-0: data.train (a, b) has 11 examples instead of 12"));
  EXPECT_THAT(why(ReportOf(12, 9, 8)), EndsWith("worker-0: data.eval (c, d) has 9 examples instead of 10"));
  EXPECT_THAT(why(ReportOf(12, 10, 8)),
              EndsWith("worker-0: the bytes of data.train (a, b) or data.eval (c, d) are others, with fingerprint "
                       "0000000000000008 instead of 0000000000000007"));
}

// A process in the place of the one whose data were the first.
TEST(DataPlanTest, ATaskIsNotComparedWithItself) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  ASSERT_TRUE(data.Validate("worker-0", ReportOf(12, 10, 7)).ok());
  EXPECT_THAT(MessageOf(data.Validate("worker-0", ReportOf(12, 10, 8))),
              HasSubstr("worker-0 has other data than it had when the job began: "));
}

TEST(DataPlanTest, UnreadableOrImpossibleDataIsRefused) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  const absl::Status unreadable = data.Validate("worker-0", ReportOf(0, 0, 0, "a: truncated at byte 16"));
  EXPECT_TRUE(absl::IsUnavailable(unreadable));
  EXPECT_THAT(MessageOf(unreadable), HasSubstr("a: truncated at byte 16"));
  EXPECT_FALSE(data.Validate("worker-0", ReportOf(12, 0, 7)).ok()) << "the job names evaluation data";
  EXPECT_FALSE(data.Validate("worker-0", ReportOf(UINT64_MAX, 10, 7)).ok());
  EXPECT_FALSE(data.Validate("worker-0", ReportOf(12, UINT64_MAX, 7)).ok());
  EXPECT_FALSE(data.fixed());
}

TEST(DataPlanTest, ACheckpointFixesThePlanBeforeAnyWorker) {
  const JobSpec job = SmallJob();
  DataPlan data(job);
  Manifest manifest;
  manifest.round = {2, 5};
  manifest.train_examples = 12;
  manifest.eval_examples = 10;
  manifest.data_fingerprint = 7;
  data.Recall(DataOf(manifest), absl::StrCat("checkpoint ", ToString(manifest.round)));
  EXPECT_TRUE(data.fixed());
  EXPECT_THAT(MessageOf(data.Validate("worker-0", ReportOf(12, 10, 8))), HasSubstr("other data than checkpoint 2-5"));
  EXPECT_TRUE(data.Validate("worker-0", ReportOf(12, 10, 7)).ok());
}

// ---- More data ------------------------------------------------------------------------------------------------------

constexpr uint64_t kEval = 99;  // fingerprint of the evaluation set

// Of files with so many examples each, in this order. A fingerprint follows from the name and from what precedes it.
DataReport ReportOfFiles(const std::vector<std::pair<std::string, uint64_t>>& files) {
  DataReport report = ReportOf(0, 10, 0);
  uint64_t fingerprint = 0;
  for (const auto& [name, examples] : files) {
    report.train_examples += examples;
    fingerprint = MixAll(fingerprint, examples, std::hash<std::string>()(name));
    report.files.push_back({"/data/" + name.substr(0, name.find(' ')), report.train_examples, fingerprint});
  }
  report.eval_fingerprint = kEval;
  report.fingerprint = MixAll(fingerprint, kEval);
  return report;
}

class MoreDataTest : public ::testing::Test {
 protected:
  // As a chief recalls what another one fixed, whose job had 2 epochs.
  std::string Validate(const DataReport& report, bool grows = true) {
    job_ = SmallJob();
    job_.training.epochs = 3;
    DataPlan before(job_);
    EXPECT_TRUE(before.Validate("worker-0", ReportOfFiles({{"a", 8}, {"b", 4}})).ok());
    job_.training.earlier = {{2, 12, before.shape().fingerprint}};
    data_ = std::make_unique<DataPlan>(job_);
    data_->Recall(before.shape(), "the job was begun with", grows);
    EXPECT_EQ(data_->fixed(), !grows);
    return MessageOf(data_->Validate("worker-0", report));
  }
  JobSpec job_;
  std::unique_ptr<DataPlan> data_;
};

TEST_F(MoreDataTest, FurtherFilesAreTrainedOnInFurtherEpochs) {
  EXPECT_EQ(Validate(ReportOfFiles({{"a", 8}, {"b", 4}, {"c", 5}})), "");
  ASSERT_TRUE(data_->fixed());
  EXPECT_EQ(data_->plan().ExamplesOfEpoch(1), 12u);
  EXPECT_EQ(data_->plan().ExamplesOfEpoch(2), 17u);
  EXPECT_THAT(MessageOf(data_->Validate("worker-1", ReportOfFiles({{"a", 8}, {"b", 4}}))),
              HasSubstr("has 12 examples instead of 17, /data/c is missing"))
      << "a host that lacks the new file";
  EXPECT_TRUE(data_->Validate("worker-2", ReportOfFiles({{"a", 8}, {"b", 4}, {"c", 5}})).ok());
}

TEST_F(MoreDataTest, TheSameFilesAreWelcomeToo) {
  EXPECT_EQ(Validate(ReportOfFiles({{"a", 8}, {"b", 4}})), "");
  EXPECT_EQ(data_->plan().ExamplesOfEpoch(2), 12u);
  EXPECT_THAT(MessageOf(data_->Validate("worker-1", ReportOfFiles({{"a", 8}, {"b", 4}, {"c", 5}}))),
              HasSubstr("raise training.epochs and add --resume"))
      << "the first report has fixed it";
}

TEST_F(MoreDataTest, WithoutFurtherEpochsFurtherFilesAreRefusedByName) {
  EXPECT_THAT(
      Validate(ReportOfFiles({{"a", 8}, {"b", 4}, {"c", 5}, {"d", 1}}), /*grows=*/false),
      EndsWith("has 18 examples instead of 12, by /data/c, /data/d. The job's 3 epochs keep the data that it was "
               "begun with. To train on all in further epochs, raise training.epochs and add --resume"));
}

TEST_F(MoreDataTest, FurtherFilesWithoutRecordsAreNamedAsSuch) {
  EXPECT_THAT(Validate(ReportOfFiles({{"a", 8}, {"b", 4}, {"c", 0}}), /*grows=*/false),
              EndsWith("has further files without records, /data/c. The job's 3 epochs keep the data that it was begun "
                       "with. To train on all in further epochs, raise training.epochs and add --resume"));
  EXPECT_EQ(Validate(ReportOfFiles({{"a", 8}, {"b", 4}, {"c", 0}})), "") << "its further epochs may have them";
}

TEST_F(MoreDataTest, FilesThatAreNotWhatTheyWereAreRefusedByName) {
  EXPECT_THAT(Validate(ReportOfFiles({{"a", 8}, {"b other bytes", 4}, {"c", 5}})), HasSubstr("/data/b has changed"));
  EXPECT_THAT(Validate(ReportOfFiles({{"a", 8}, {"b", 6}, {"c", 5}})), HasSubstr("/data/b has changed"));
  EXPECT_THAT(Validate(ReportOfFiles({{"a", 8}, {"c", 5}})), HasSubstr("/data/b is missing"));
  EXPECT_THAT(Validate(ReportOfFiles({{"b", 4}, {"a", 8}, {"c", 5}})),
              HasSubstr("/data/a was file 1 of them, and is file 2 (further files belong behind"));
  EXPECT_THAT(Validate(ReportOfFiles({{"a", 8}, {"a2", 1}, {"b", 4}})),
              HasSubstr("/data/b was file 2 of them, and is "));
  DataReport other_eval = ReportOfFiles({{"a", 8}, {"b", 4}, {"c", 5}});
  other_eval.eval_fingerprint = kEval + 1;
  EXPECT_NE(Validate(other_eval), "") << "further files, but other evaluation data";
  EXPECT_FALSE(data_->fixed());
}

TEST_F(MoreDataTest, EpochsThatAreAddedKeepTheDataOfThoseBefore) {
  const JobSpec before = SmallJob();  // 2 epochs
  JobSpec job = before;
  const DataShape shape{12, 10, 7}, grown{17, 10, 8};
  EXPECT_FALSE(ResumeData(job, before, shape, false).grows);
  EXPECT_TRUE(ResumeData(job, before, shape, false).earlier.empty());
  job.training.epochs = 3;
  const DataToResume first = ResumeData(job, before, shape, false);
  EXPECT_TRUE(first.grows);
  EXPECT_EQ(first.earlier, (std::vector<EarlierEpochs>{{2, 12, 7}}));
  JobSpec next = job, further = job;
  next.training.earlier = further.training.earlier = first.earlier;
  further.training.epochs = 5;
  EXPECT_EQ(ResumeData(further, next, shape, true).earlier, first.earlier) << "nobody saw the data of epoch 3 yet";
  EXPECT_TRUE(ResumeData(next, next, shape, true).grows) << "killed before a worker was there";
  JobSpec fewer = next;
  fewer.training.epochs = 2;
  EXPECT_FALSE(ResumeData(fewer, next, shape, true).grows) << "no epoch would have further data";
  EXPECT_EQ(ResumeData(further, next, shape, false).earlier, (std::vector<EarlierEpochs>{{3, 12, 7}}));
  EXPECT_EQ(ResumeData(further, next, grown, false).earlier, (std::vector<EarlierEpochs>{{2, 12, 7}, {3, 17, 8}}));
}

// Whatever the job was resumed with before: a folder whose text no release reads cannot be led any more.
TEST_F(MoreDataTest, EarlierEpochsRise) {
  JobSpec before = SmallJob(), job = before;
  before.training.epochs = 5;
  before.training.earlier = {{5, 12, 7}};
  job.training.epochs = 8;
  for (const DataShape& shape : {DataShape{17, 10, 8}, DataShape{12, 10, 7}}) {
    const DataToResume next = ResumeData(job, before, shape, false);
    EXPECT_TRUE(next.grows);
    EXPECT_EQ(next.earlier, before.training.earlier) << "epochs 6 to 8 are the first that have other data";
    job.training.earlier = next.earlier;
    const auto read = ParseCanonicalJob(CanonicalJob(job));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->training.earlier, next.earlier);
  }
}

TEST_F(MoreDataTest, CheckpointsOfEarlierEpochsAreOfThePlan) {
  JobSpec before = SmallJob(), job = before;
  job.training.epochs = 4;
  job.training.earlier = {{2, 12, 7}};
  const DataShape shape{17, 10, 8};
  Manifest manifest;
  manifest.round = {1, 1};
  manifest.job = CanonicalJob(before);
  manifest.train_examples = 12, manifest.eval_examples = 10, manifest.data_fingerprint = 7;
  EXPECT_EQ(OfPlan({manifest}, job, shape, {}).size(), 1u);
  manifest.data_fingerprint = 6;
  EXPECT_TRUE(OfPlan({manifest}, job, shape, {}).empty()) << "of other data";
  manifest.data_fingerprint = 7;
  before.training.epochs = 3;
  manifest.job = CanonicalJob(before);
  EXPECT_TRUE(OfPlan({manifest}, job, shape, {}).empty()) << "its third epoch had other examples";
}

}  // namespace
}  // namespace downpour
