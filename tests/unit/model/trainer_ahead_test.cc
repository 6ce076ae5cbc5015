// Batches that are read and brought up while a device computes the step before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/parity/deferred_backend.h"
#include "tests/unit/model/trainer_fixture.h"

namespace downpour {
namespace {

using testing::HasSubstr;
using Next = std::optional<std::pair<LeaseId, Step>>;

// Notes when a batch comes up: pixels of five examples or more, which labels and seeds are not.
class UploadCountingBackend final : public DeferredBackend {
 public:
  absl::Status Upload(const void* host, size_t bytes, void* to) override {
    if (bytes > 4 * kPixels && ++uploads == failing) return absl::UnavailableError("the link is down");
    return DeferredBackend::Upload(host, bytes, to);
  }

  int uploads = 0;
  int failing = 0;
};

class TrainerAheadTest : public TrainerTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Run(trainer_, Prepare{job_}).status.ok());
    ASSERT_TRUE(Run(device_, Prepare{job_}).status.ok());
    ASSERT_TRUE(Run(trainer_, TrainStep{LeaseId{0}, 1, AllSlices(3)}).status.ok());
    ASSERT_TRUE(Run(device_, TrainStep{LeaseId{0}, 1, AllSlices(3)}).status.ok());
    backend_->uploads = 0;
  }

  // How much came up meanwhile, of a step that is computed as where nothing comes ahead.
  int Uploads(LeaseId lease, Step step, const Next& next) {
    backend_->uploads = 0;
    const Answer got = Run(device_, TrainStep{lease, step, {}, next}), want = Run(trainer_, TrainStep{lease, step, {}});
    EXPECT_TRUE(got.status.ok()) << got.status;
    if (got.status.ok()) ExpectSame(got, want);
    return backend_->uploads;
  }
  static void ExpectSame(const Answer& got, const Answer& want) {
    EXPECT_EQ(got.gradients.back().loss_sum, want.gradients.back().loss_sum);
    std::map<SliceId, Payload> slices = BySlice(got);
    for (const auto& [id, values] : BySlice(want)) EXPECT_EQ(slices[id].floats(), values.floats()) << ToNumber(id);
  }

  UploadCountingBackend* const backend_ = new UploadCountingBackend;
  Trainer device_{std::unique_ptr<Backend>(backend_)};
};

TEST_F(TrainerAheadTest, TheNextStepsBatchIsThereWhenItIsAskedFor) {
  EXPECT_EQ(Uploads(LeaseId{1}, 1, Next({LeaseId{1}, 2})), 2) << "its own and the next";
  EXPECT_EQ(Uploads(LeaseId{1}, 2, Next({LeaseId{4}, 1})), 1) << "the next";
  EXPECT_EQ(Uploads(LeaseId{4}, 1, std::nullopt), 0);
  EXPECT_EQ(Uploads(LeaseId{4}, 1, std::nullopt), 1) << "once computed it is read again";
}

TEST_F(TrainerAheadTest, ItComesBeforeAnythingLeaves) {
  std::vector<int> uploads;
  device_.Run(TrainStep{LeaseId{1}, 1, {}, Next({LeaseId{1}, 2})},
              [&](const absl::Status&, const ComputeResult&) { uploads.push_back(backend_->uploads); });
  EXPECT_EQ(uploads, (std::vector<int>{2, 2}));
}

TEST_F(TrainerAheadTest, AWrongGuessCostsNoMoreThanTime) {
  EXPECT_EQ(Uploads(LeaseId{1}, 1, Next({LeaseId{1}, 2})), 2);
  EXPECT_EQ(Uploads(LeaseId{2}, 3, Next({LeaseId{1}, 2})), 2);
  ASSERT_TRUE(Run(device_, EvalStep{0, 1, {}}).status.ok());
  EXPECT_EQ(Uploads(LeaseId{1}, 2, std::nullopt), 1);
  EXPECT_EQ(Uploads(LeaseId{1}, 3, Next({LeaseId{1}, 4})), 1) << "no such step";
  EXPECT_EQ(Uploads(LeaseId{1}, 3, Next({LeaseId{plan_.total_leases()}, 1})), 1) << "no such lease";
  EXPECT_EQ(Uploads(LeaseId{1}, 3, Next({LeaseId{1}, 0})), 1) << "likewise";
}

TEST_F(TrainerAheadTest, OfAStepOfSeveralBatchesTheFirstComes) {
  JobSpec job = job_;
  job.training.push_every = 2;
  ASSERT_TRUE(Run(trainer_, Prepare{job}).status.ok());
  ASSERT_TRUE(Run(device_, Prepare{job}).status.ok());
  ASSERT_TRUE(Run(trainer_, TrainStep{LeaseId{0}, 1, AllSlices(3)}).status.ok());
  ASSERT_TRUE(Run(device_, TrainStep{LeaseId{0}, 1, AllSlices(3)}).status.ok());
  EXPECT_EQ(Uploads(LeaseId{2}, 1, Next({LeaseId{2}, 2})), 3) << "two of its own, one of the next";
  EXPECT_EQ(Uploads(LeaseId{2}, 2, Next({LeaseId{3}, 1})), 1);
  EXPECT_EQ(Uploads(LeaseId{3}, 1, std::nullopt), 1) << "the second";
}

TEST_F(TrainerAheadTest, WhatFailedAheadIsToldWhenItIsAskedForIfItStillFails) {
  backend_->failing = 2;
  EXPECT_EQ(Uploads(LeaseId{1}, 1, Next({LeaseId{1}, 2})), 2) << "the next one's pixels fail, which is not told";
  EXPECT_EQ(Uploads(LeaseId{1}, 2, std::nullopt), 1);
  EXPECT_EQ(Uploads(LeaseId{1}, 1, Next({LeaseId{1}, 2})), 2);
  backend_->uploads = 0;
  backend_->failing = 1;
  const Answer answer = Run(device_, TrainStep{LeaseId{1}, 2, {}});
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("the link is down"));
  backend_->failing = 0;
  EXPECT_EQ(Uploads(LeaseId{1}, 2, std::nullopt), 1) << "a failed step may be asked for again";
}

TEST_F(TrainerAheadTest, EvaluationReadsItsOwnBatchesAhead) {
  const auto evaluate = [&](Trainer& trainer) {
    const Answer answer = Run(trainer, EvalStep{0, 4, {}});
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return std::get<Evaluated>(answer.last);
  };
  const Evaluated got = evaluate(device_), want = evaluate(trainer_);
  EXPECT_EQ(backend_->uploads, 4);
  EXPECT_EQ(got.loss_sum, want.loss_sum);
  EXPECT_EQ(got.correct, want.correct);
  EXPECT_EQ(got.examples, want.examples);
}

TEST_F(TrainerAheadTest, MetricsAreOfTheBatchThatWasEvaluatedNotOfTheNextOne) {
  JobSpec job = job_;
  job.training.metrics = {{MetricKind::kTopK, 2}, {MetricKind::kLogLoss}};
  std::vector<double> sums[2];
  for (Trainer* trainer : {&device_, &trainer_}) {
    ASSERT_TRUE(Run(*trainer, Prepare{job}).status.ok());
    sums[trainer == &trainer_] = std::get<Evaluated>(Run(*trainer, EvalStep{0, 4, AllSlices(3)}).last).metric_sums;
  }
  EXPECT_EQ(sums[0], sums[1]);
}

}  // namespace
}  // namespace downpour
