#include "runtime/process/compute_thread.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/runtime/zmq/test_peer.h"

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

// Says what is loaded ahead, and on which thread; its requests end when they are let go on.
class LoadingComputer final : public Computer {
 public:
  struct Loaded {
    std::mutex mutex;
    std::vector<std::pair<SliceValues, std::thread::id>> calls;
    std::promise<void> first;
    std::promise<void> go_on;
  };
  LoadingComputer(bool loads_ahead, std::shared_ptr<Loaded> loaded)
      : loads_ahead_(loads_ahead), loaded_(std::move(loaded)) {}
  bool loads_ahead() const override { return loads_ahead_; }
  void PrefetchParameters(const SliceValues& values) override {
    const std::lock_guard lock(loaded_->mutex);
    loaded_->calls.emplace_back(values, std::this_thread::get_id());
    if (loaded_->calls.size() > 1) return;
    loaded_->first.set_value();
    loaded_->go_on.get_future().wait();
  }
  void Run(const ComputeRequest&, const Done& done) override {
    Gradients gradients;
    gradients.last = true;
    done(absl::OkStatus(), std::move(gradients));
  }

 private:
  const bool loads_ahead_;
  const std::shared_ptr<Loaded> loaded_;
};

TEST_F(ComputeThreadTest, WhatIsLoadedAheadComesBesideRequestsOrNotAtAll) {
  auto loaded = std::make_shared<LoadingComputer::Loaded>();
  thread_ = std::make_unique<ComputeThread>(std::make_unique<LoadingComputer>(true, loaded), &mailbox_);
  const Payload values = Payload::Zeros(4);
  thread_->PrefetchParameters({{SliceId{3}, values}});
  loaded->first.get_future().wait();
  thread_->PrefetchParameters({{SliceId{4}, values}});  // waits, until a request was submitted that brings it
  thread_->Submit(Train(1, 1));
  thread_->PrefetchParameters({{SliceId{5}, values}});
  EXPECT_EQ(WaitForDone(1).size(), 1u) << "a request does not wait for what is loaded";
  loaded->go_on.set_value();
  const auto calls = [&] {
    const std::lock_guard lock(loaded->mutex);
    return loaded->calls;
  };
  while (calls().size() < 2) std::this_thread::yield();
  EXPECT_EQ(calls()[0].first[0].second.bytes().data(), values.bytes().data()) << "the very payload";
  EXPECT_EQ(calls()[1].first[0].first, SliceId{5});
  EXPECT_EQ(calls()[0].second, calls()[1].second);
  EXPECT_NE(calls()[0].second, std::this_thread::get_id());
}

TEST_F(ComputeThreadTest, NothingIsLoadedAheadForWhomItGainsNothing) {
  auto loaded = std::make_shared<LoadingComputer::Loaded>();
  thread_ = std::make_unique<ComputeThread>(std::make_unique<LoadingComputer>(false, loaded), &mailbox_);
  thread_->PrefetchParameters({{SliceId{3}, Payload::Zeros(4)}});
  thread_->Submit(Train(1, 1));
  EXPECT_EQ(WaitForDone(1).size(), 1u);
  thread_.reset();
  EXPECT_TRUE(loaded->calls.empty());
}

}  // namespace
}  // namespace downpour
