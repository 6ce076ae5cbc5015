// A chief and a ps of 2,000 slices, each of which has finished 300 leases out of order: what they say to each other
// outgrows a message unless it is cut. Both are real; what they send goes through the codec.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "chief/chief_role.h"
#include "ps/ps_role.h"
#include "ps/shard.h"
#include "schema/checkpoint_format.h"
#include "schema/codec.h"
#include "tests/sim/disk.h"

namespace downpour {
namespace {

constexpr size_t kSlices = 2000;
constexpr uint64_t kIntervals = 300;
constexpr uint64_t kExamples = 1000;  // leases of one batch of one

constexpr PeerId kControl{uint64_t{1} << 32};  // of the ps, as the chief sees it; as is the next
constexpr PeerId kBulk{(uint64_t{1} << 32) + 1};
constexpr PeerId kWorker{(uint64_t{1} << 32) + 2};  // as both see it

JobSpec JobOf(CheckpointVia via) {
  JobSpec job;
  job.name = "many";
  job.model.inputs = {{"x", {1}}};
  std::string from = "x";
  for (size_t i = 0; i < kSlices / 2; ++i) {  // a kernel and a bias each
    const std::string name = absl::StrCat("dense_", i);
    job.model.layers.push_back({name, {from}, DenseSpec{.units = 1}});
    from = name;
  }
  job.model.loss = Loss::kMeanSquaredError;
  job.training.batch_size = job.training.lease_batches = 1;
  job.data.train = {"train-images", "train-labels"};
  job.checkpoint.via = via;
  job.checkpoint.every = 1s;
  return job;
}

class ManyIntervalsTest : public ::testing::Test {
 protected:
  void Start(CheckpointVia via) {
    job_ = JobOf(via);
    StartChief();
    PsOptions options;
    options.has_job_dir = true;
    options.member.join.endpoint = "ps-host:1";
    options.member.join.nonce = 1;
    ps_ = std::make_unique<PsRole>(std::move(options));
    ToPs(Started{0, "ps-host:1"});
    Run();
  }
  void StartChief() {
    ChiefOptions options;
    options.job = job_;
    options.nonce = ++nonce_;
    chief_ = std::make_unique<ChiefRole>(std::move(options));
    worker_ = Incarnation::kNone;
    ToChief(Started{0, "chief-host:1"});
    Settle();
    Join join;
    join.nonce = 2;
    ToChief(Received{kWorker, join});
  }
  // Until the job runs and everything has been said.
  void Run() {
    for (int tick = 0; tick < 1000 && chief_->state() != JobState::kRunning; ++tick) Wait(20ms);
    ASSERT_EQ(chief_->state(), JobState::kRunning);
    ASSERT_TRUE(chief_->all_reported());
  }
  void Wait(Duration duration) {
    for (const Time end = now_ + duration; now_ < end;) {
      now_ += 20ms;
      ToChief(Tick{});
      ToPs(Tick{});
      if (worker_ != Incarnation::kNone) {
        Heartbeat beat;
        beat.from = worker_;
        ToChief(Received{kWorker, beat, chief_->run()});
        ToChief(Received{kWorker, DataReport{worker_, kExamples, 0, 3, ""}, chief_->run()});
      }
      Settle();
    }
  }
  // Every other lease, by a worker that pushes nothing but counts: 300 intervals in each slice.
  void FinishEveryOtherLease() {
    const std::vector<SliceEpoch> epochs = chief_->epochs();
    for (uint64_t lease = 0; lease < 2 * kIntervals; lease += 2) {
      for (size_t first = 0; first < kSlices; first += 1000) {
        Push push{.from = worker_, .lease = LeaseId{lease}, .step = 1, .slices = {}};
        for (size_t i = first; i < first + 1000; ++i) {
          push.slices.push_back({SliceId{static_cast<uint32_t>(i)}, epochs[i], {}, {}});
        }
        ToPs(Received{kWorker, std::move(push), chief_->run()});
      }
    }
    Settle();
    ASSERT_EQ(ps_->Find(SliceId{kSlices - 1})->counters.finished().IntervalCount(), kIntervals);
  }

  void ToChief(Input input) { inputs_.push_back({chief_.get(), std::move(input)}); }
  void ToPs(Input input) { inputs_.push_back({ps_.get(), std::move(input)}); }
  void Settle() {
    while (!inputs_.empty()) {
      auto [role, input] = std::move(inputs_.front());
      inputs_.pop_front();
      Effects effects;
      role->Step(now_, std::move(input), effects);
      for (Effect& effect : effects.Take()) Carry(role, effect);
    }
  }
  void Carry(Role* role, Effect& effect) {
    if (const auto* op = std::get_if<StorageOp>(&effect)) inputs_.push_back({role, disk_.Carry(*op)});
    if (auto* send = std::get_if<Send>(&effect)) Deliver(role, *send);
    if (const auto* exit = std::get_if<Exit>(&effect)) ADD_FAILURE() << exit->why;
  }
  void Deliver(Role* role, Send& send) {
    const auto frames = EncodeWithinLimits(send.message, send.run);
    ASSERT_TRUE(frames.ok()) << frames.status();
    uint64_t run = 0;
    absl::StatusOr<Message> message = Decode(*frames, &run);
    ASSERT_TRUE(message.ok()) << message.status();
    largest_ = std::max(largest_, (*frames)[0].size());
    if (role == ps_.get()) {
      if (send.to == kWorker) return;
      ToChief(Received{send.to == PeerId{1} ? kControl : kBulk, *std::move(message), run});
    } else if (send.to == kWorker) {
      if (const auto* welcome = std::get_if<Welcome>(&*message)) worker_ = welcome->you;
    } else {
      ToPs(Received{send.to == kControl ? PeerId{1} : PeerId{2}, *std::move(message), run});
    }
  }
  std::vector<std::string> Manifests() const {
    std::vector<std::string> manifests;
    for (const std::string& file : disk_.Files("checkpoints/")) {
      if (file.ends_with(kManifestName)) manifests.push_back(file);
    }
    return manifests;
  }

  JobSpec job_;
  Disk disk_{1};
  Time now_{};
  uint64_t nonce_ = 100;
  std::unique_ptr<ChiefRole> chief_;
  std::unique_ptr<PsRole> ps_;
  Incarnation worker_ = Incarnation::kNone;
  std::deque<std::pair<Role*, Input>> inputs_;
  size_t largest_ = 0;  // header of a message
};

TEST_F(ManyIntervalsTest, AChiefThatCameBackLearnsWhatTheSlicesHold) {
  Start(CheckpointVia::kChief);
  FinishEveryOtherLease();
  largest_ = 0;
  inputs_.clear();
  StartChief();
  Run();
  EXPECT_EQ(chief_->term(), 2u);
  EXPECT_EQ(chief_->committed().Count(), kIntervals);
  EXPECT_EQ(chief_->committed().IntervalCount(), kIntervals);
  EXPECT_LT(largest_, size_t{1} << 20) << "heartbeats share the link";
}

TEST_F(ManyIntervalsTest, ARoundWhoseFilesTheServersWriteEnds) {
  Start(CheckpointVia::kShared);
  FinishEveryOtherLease();
  inputs_.clear();
  StartChief();
  Run();
  for (int tick = 0; tick < 1000 && Manifests().empty(); ++tick) Wait(20ms);
  ASSERT_FALSE(Manifests().empty()) << chief_->StatusJson(now_);
  const absl::StatusOr<Manifest> manifest = DecodeManifest(*disk_.ReadSeen(Manifests().back()));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->records.size(), kSlices);
  EXPECT_EQ(manifest->committed.IntervalCount(), kIntervals);
}

}  // namespace
}  // namespace downpour
