#include "runtime/driver/compute_thread.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/runtime/driver/zmq_test_peer.h"

namespace downpour {
namespace {

// Answers a TrainStep with two parts, and an EvalStep with an error once it is let go on.
class TwoPartComputer final : public Computer {
 public:
  TwoPartComputer(std::shared_future<void> go_on, std::thread::id* ran_on)
      : go_on_(std::move(go_on)), ran_on_(ran_on) {}
  void Run(const ComputeRequest& request, const Done& done) override {
    *ran_on_ = std::this_thread::get_id();
    if (const auto* train = std::get_if<TrainStep>(&request)) {
      Gradients part;
      part.examples = train->step;
      done(absl::OkStatus(), part);
      part.last = true;
      done(absl::OkStatus(), part);
    } else {
      go_on_.wait();
      done(absl::InternalError("device lost"), std::monostate());
    }
  }

 private:
  std::shared_future<void> go_on_;
  std::thread::id* ran_on_;
};

class ComputeThreadTest : public testing::Test {
 protected:
  std::vector<ComputeDone> WaitForDone(size_t count) {
    std::vector<ComputeDone> all;
    pollfd mail{mailbox_.fd(), POLLIN, 0};
    while (all.size() < count && poll(&mail, 1, kPatienceMs) == 1) {
      for (Input& input : mailbox_.Take()) all.push_back(std::get<ComputeDone>(std::move(input)));
    }
    return all;
  }
  static Compute Train(uint64_t ticket, Step step) { return {Ticket{ticket}, TrainStep{LeaseId{}, step, {}}}; }

  std::promise<void> go_on_;
  std::thread::id ran_on_;
  Mailbox mailbox_;
  std::unique_ptr<ComputeThread> thread_ = std::make_unique<ComputeThread>(
      std::make_unique<TwoPartComputer>(go_on_.get_future().share(), &ran_on_), &mailbox_);
};

TEST_F(ComputeThreadTest, CompletionsComeInOrderUnderTheirTickets) {
  for (uint64_t i = 1; i <= 50; ++i) thread_->Submit(Train(i, static_cast<Step>(i)));
  const std::vector<ComputeDone> done = WaitForDone(100);
  ASSERT_EQ(done.size(), 100u);
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].ticket, Ticket{i / 2 + 1});
    EXPECT_EQ(std::get<Gradients>(done[i].result).examples, i / 2 + 1);
    EXPECT_EQ(std::get<Gradients>(done[i].result).last, i % 2 == 1);
  }
  EXPECT_NE(ran_on_, std::this_thread::get_id());
}

TEST_F(ComputeThreadTest, AnErrorIsACompletionAndTheNextRequestRuns) {
  thread_->Submit({Ticket{1}, EvalStep{}});
  thread_->Submit(Train(2, 1));
  go_on_.set_value();
  const std::vector<ComputeDone> done = WaitForDone(3);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status.message(), "device lost");
  EXPECT_TRUE(done[2].status.ok());
}

// Takes what is loaded ahead while it is at a request, and ends the request once it has got it.
class LoadingComputer final : public Computer {
 public:
  explicit LoadingComputer(bool loads_ahead) : loads_ahead_(loads_ahead) {}
  bool loads_ahead() const override { return loads_ahead_; }
  void LoadAhead(const SliceValues& values) override { loaded_.set_value(values); }
  void Run(const ComputeRequest&, const Done& done) override {
    Gradients gradients;
    if (loads_ahead_) gradients.slices = loaded_.get_future().get();
    gradients.last = true;
    done(absl::OkStatus(), std::move(gradients));
  }

 private:
  const bool loads_ahead_;
  std::promise<SliceValues> loaded_;
};

TEST_F(ComputeThreadTest, WhatIsLoadedAheadComesBesideARequest) {
  thread_ = std::make_unique<ComputeThread>(std::make_unique<LoadingComputer>(true), &mailbox_);
  thread_->Submit(Train(1, 1));
  const Payload values = Payload::Zeros(4);
  thread_->LoadAhead({{SliceId{3}, values}});
  const std::vector<ComputeDone> done = WaitForDone(1);
  ASSERT_EQ(done.size(), 1u);
  const SliceValues& loaded = std::get<Gradients>(done[0].result).slices;
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded[0].first, SliceId{3});
  EXPECT_EQ(loaded[0].second.bytes().data(), values.bytes().data()) << "the very payload";
}

TEST_F(ComputeThreadTest, NothingIsLoadedAheadForWhomItGainsNothing) {
  thread_ = std::make_unique<ComputeThread>(std::make_unique<LoadingComputer>(false), &mailbox_);
  for (int i = 0; i < 2; ++i) thread_->LoadAhead({{SliceId{3}, Payload::Zeros(4)}});  // the second would throw
  thread_->Submit(Train(1, 1));
  EXPECT_EQ(WaitForDone(1).size(), 1u);
}

}  // namespace
}  // namespace downpour
