#include "ps/ps_role.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "job/job_file.h"
#include "job/slice_grid.h"
#include "ps/shard.h"
#include "schema/codec.h"
#include "tensor/apply_kernels.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

constexpr PeerId kChief{1};
constexpr Incarnation kMe{10};
constexpr uint64_t kRun = 77;

// What a ps does when it is welcomed to that job.
std::vector<Effect> WelcomeTo(const JobSpec& job, PsRole& role) {
  Effects effects;
  role.Step(Time(), Started{0, "ps-0"}, effects);
  effects.Take();
  role.Step(Time(), Received{kChief, Welcome{kMe, 1, "ps-0", CanonicalJob(job), kRun}}, effects);
  return effects.Take();
}

std::optional<Exit> ExitOf(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    if (const auto* exit = std::get_if<Exit>(&effect)) return *exit;
  }
  return std::nullopt;
}

std::vector<Send> SentOf(std::vector<Effect> effects) {
  std::vector<Send> sent;
  for (Effect& effect : effects) {
    if (auto* send = std::get_if<Send>(&effect)) sent.push_back(std::move(*send));
  }
  return sent;
}

std::optional<Exit> ExitWhenWelcome(CheckpointVia via, bool has_job_dir) {
  JobSpec job = TinyJob();
  job.checkpoint.via = via;
  PsOptions options;
  options.has_job_dir = has_job_dir;
  PsRole role(options);
  return ExitOf(WelcomeTo(job, role));
}

TEST(PsRoleTest, WithoutTheFolderThatItIsToWriteToItEndsAtOnce) {
  const std::optional<Exit> exit = ExitWhenWelcome(CheckpointVia::kShared, false);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 1);
  EXPECT_NE(exit->why.find("give it --job_dir=DIR"), std::string::npos) << exit->why;
  EXPECT_FALSE(ExitWhenWelcome(CheckpointVia::kShared, true).has_value());
  EXPECT_FALSE(ExitWhenWelcome(CheckpointVia::kChief, false).has_value());
}

// Slices that are reported as installed in one step.
size_t Installed(PsRole& role, Input input) {
  Effects effects;
  role.Step(Time(), std::move(input), effects);
  size_t slices = 0;
  for (const Effect& effect : effects.Take()) {
    const auto* send = std::get_if<Send>(&effect);
    const auto* report = send == nullptr ? nullptr : std::get_if<SliceReport>(&send->message);
    if (report != nullptr) slices += report->slices.size();
  }
  return slices;
}

TEST(PsRoleTest, MakesManyInitialValuesInAStepButNotAllOfALargeModel) {
  JobSpec job = TinyJob();
  job.model.inputs = {{"x", {4096}}};
  job.model.layers = {{"y", {"x"}, DenseSpec{.units = 24 * 64, .bias = false}}};  // 24 MiB
  const SliceGrid grid = *GridOf(job.model);
  ASSERT_EQ(grid.size(), 24u);
  PsRole role{PsOptions()};
  WelcomeTo(job, role);
  Assign assign{.to = kMe, .train_examples = kTinyExamples, .slices = {}};
  for (const Slice& slice : grid.slices) assign.slices.push_back({slice.id, {1, 1}, SliceSource::kInitialValues});
  EXPECT_EQ(Installed(role, Received{kChief, assign, kRun}), 16u);
  EXPECT_EQ(Installed(role, Tick{}), 8u);
}

// Leases would be other examples: what one of them has finished says nothing of those.
TEST(PsRoleTest, WithAnotherPlanThanItsFirstItIsAssignedNothing) {
  PsRole role{PsOptions()};
  WelcomeTo(TinyJob(), role);
  const Assign::Item kernel{kKernel, {1, 1}, SliceSource::kInitialValues},
      bias{kBias, {1, 1}, SliceSource::kInitialValues};
  EXPECT_EQ(Installed(role, Received{kChief, Assign{kMe, kTinyExamples, {kernel}}, kRun}), 1u);
  EXPECT_EQ(Installed(role, Received{kChief, Assign{kMe, kTinyExamples + 1, {bias}}, kRun}), 0u);
  EXPECT_EQ(role.stats().messages_rejected, 1u);
  EXPECT_EQ(role.Find(kBias), nullptr);
  EXPECT_EQ(Installed(role, Received{kChief, Assign{kMe, kTinyExamples, {bias}}, kRun}), 1u);
}

TEST(PsRoleTest, WhatItHoldsOfManySlicesIsReportedInParts) {
  PsOptions options;
  options.report_part_bytes = 1;
  PsRole role(std::move(options));
  WelcomeTo(TinyJob(), role);
  Assign assign{.to = kMe, .train_examples = kTinyExamples, .slices = {}};
  for (const SliceId slice : {kKernel, kBias}) assign.slices.push_back({slice, {1, 1}, SliceSource::kInitialValues});
  Effects effects;
  role.Step(Time(), Received{kChief, assign, kRun}, effects);
  std::vector<SliceId> reported;
  for (const Effect& effect : effects.Take()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr || !std::holds_alternative<SliceReport>(send->message)) continue;
    const SliceReport& report = std::get<SliceReport>(send->message);
    EXPECT_EQ(report.from, kMe);
    ASSERT_EQ(report.slices.size(), 1u);
    reported.push_back(report.slices[0].slice);
  }
  EXPECT_EQ(reported, (std::vector<SliceId>{kKernel, kBias}));
}

TEST(PsRoleTest, ToldToStopItTellsItsChiefAndWhatItWaitsForAndGoesInTheEnd) {
  const StopRequested stop{SIGTERM};
  PsRole role{PsOptions()};
  WelcomeTo(TinyJob(), role);
  const Assign assign{kMe, kTinyExamples, {{kKernel, {1, 1}, SliceSource::kInitialValues}}};
  Installed(role, Received{kChief, assign, kRun});
  Effects effects;
  role.Step(Time(1s), stop, effects);
  role.Step(Time(1s), Tick{}, effects);
  std::optional<Heartbeat> beat;
  for (const Effect& effect : effects.Take()) {
    const auto* send = std::get_if<Send>(&effect);
    if (send != nullptr && std::holds_alternative<Heartbeat>(send->message)) beat = std::get<Heartbeat>(send->message);
  }
  ASSERT_TRUE(beat.has_value());
  EXPECT_EQ(beat->leaving, "SIGTERM");
  EXPECT_EQ(beat->stats.waiting_for, "a checkpoint of what it holds, to leave");
  role.Step(Time(1s) + kPsLeavesWithin - 1ms, Tick{}, effects);
  EXPECT_FALSE(ExitOf(effects.Take()).has_value());
  role.Step(Time(1s) + kPsLeavesWithin, Tick{}, effects);
  const std::optional<Exit> exit = ExitOf(effects.Take());
  ASSERT_TRUE(exit.has_value()) << "nobody let it go";
  EXPECT_EQ(exit->code, 143);
}

TEST(PsRoleTest, WithNothingToKeepItLeavesAsSoonAsItIsTold) {
  PsRole stranger{PsOptions()}, idle{PsOptions()};
  Effects effects;
  stranger.Step(Time(), Started{0, "ps-0"}, effects);
  WelcomeTo(TinyJob(), idle);
  for (PsRole* role : {&stranger, &idle}) {
    role->Step(Time(1s), StopRequested{SIGINT}, effects);
    const std::optional<Exit> exit = ExitOf(effects.Take());
    ASSERT_TRUE(exit.has_value());
    EXPECT_EQ(exit->code, 130);
  }
}

class ServingTest : public testing::Test {
 protected:
  static constexpr PeerId kWorker = PeerId::kFirstAccepted;
  static constexpr SliceEpoch kEpoch{1, 1};

  void Serve(WireFormat wire, std::vector<PushName> crashes = {}) {
    role_ = std::make_unique<PsRole>(PsOptions{.member = {}, .window = {}, .crashes = std::move(crashes)});
    JobSpec job = TinyJob();
    job.training.wire = wire;
    WelcomeTo(job, *role_);
    Assign assign{.to = kMe, .train_examples = kTinyExamples, .slices = {}};
    for (const SliceId slice : {kKernel, kBias}) {
      assign.slices.push_back({slice, kEpoch, SliceSource::kInitialValues});
    }
    Installed(*role_, Received{kChief, assign, kRun});
  }

  template <typename Reply>
  Reply Answer(Message message) {
    Effects effects;
    role_->Step(Time(), Received{kWorker, std::move(message), kRun}, effects);
    for (const Effect& effect : effects.Take()) {
      const auto* send = std::get_if<Send>(&effect);
      if (send != nullptr && send->to == kWorker) return std::get<Reply>(send->message);
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  Payload PulledKernel() {
    const Pull pull{.from = Incarnation{5}, .request = 1, .slices = {{kKernel, kEpoch, {}}}};
    return Answer<PullReply>(pull).slices.at(0).values;
  }
  PushReply::Item Pushed(Step step, Payload gradient) {
    Push push{.from = Incarnation{5}, .lease = LeaseId{0}, .step = step, .slices = {}};
    push.slices.push_back({kKernel, kEpoch, {kEpoch, 0}, std::move(gradient)});
    return Answer<PushReply>(push).slices.at(0);
  }
  std::vector<float> Held() const {
    const SliceState held = StateOf(kKernel, *role_->Find(kKernel));
    return {held.values.floats().begin(), held.values.floats().end()};
  }

  std::unique_ptr<PsRole> role_;
};

// What a worker alone has moves on with such pushes only.
TEST_F(ServingTest, SaysOfEachSliceWhetherItCountedThisVeryPushNow) {
  Serve(WireFormat::kFp32);
  const std::vector<float> ones(4, 1), bad(4, std::numeric_limits<float>::quiet_NaN());
  const auto floats = [](const std::vector<float>& numbers) { return Payload::CopyOf(numbers.data(), 16); };
  EXPECT_TRUE(Pushed(1, floats(ones)).counted);
  EXPECT_FALSE(Pushed(1, floats(ones)).counted) << "it had it already";
  EXPECT_FALSE(Pushed(3, floats(ones)).counted) << "it lacks the one before";
  EXPECT_TRUE(Pushed(2, Payload()).counted) << "there was nothing to take";
  EXPECT_FALSE(Pushed(3, floats(bad)).counted) << "it skipped it";
  const Probe probe{Incarnation{5}, LeaseId{0}, {{kKernel, kEpoch}}};
  EXPECT_FALSE(Answer<PushReply>(probe).slices.at(0).counted);
  Push push{.from = Incarnation{5}, .lease = LeaseId{1}, .step = 1, .slices = {}};
  push.slices.push_back({kKernel, kEpoch, {kEpoch, 0}, floats(ones)});
  EXPECT_TRUE(Answer<PushReply>(push).slices.at(0).counted);
  push.slices.push_back({kBias, kEpoch, {kEpoch, 0}, Payload::Zeros(8)});
  const PushReply mixed = Answer<PushReply>(push);
  EXPECT_FALSE(mixed.slices.at(0).counted) << "a duplicate";
  EXPECT_TRUE(mixed.slices.at(1).counted);
}

// A person has changed the job file while no chief was there: the next one's text counts, for what is held too.
class RejoiningTest : public ServingTest {
 protected:
  static constexpr SliceEpoch kNext{2, 1};
  static constexpr Incarnation kSuccessor{uint64_t{2} << 32 | 1};

  void Rejoin(const JobSpec& job, uint64_t train_examples = kTinyExamples) {
    Effects effects;
    role_->Step(Time(),
                Received{kChief, Refused{.code = RefusalCode::kUnknown, .why = {}, .member = kMe, .run = kRun}, kRun},
                effects);
    role_->Step(Time(), Received{kChief, Welcome{kSuccessor, 2, "ps-0", CanonicalJob(job), kRun, 0, 1}, kRun}, effects);
    const Assign assign{kSuccessor, train_examples, {{kKernel, kNext, SliceSource::kHeld}}};
    role_->Step(Time(), Received{kChief, assign, kRun}, effects);
  }
  PushReply::Item PushedOf(LeaseId lease) {
    const std::vector<float> ones(4, 1);
    Push push{.from = Incarnation{5}, .lease = lease, .step = 1, .slices = {}};
    push.slices.push_back({kKernel, kNext, {kNext, 0}, Payload::CopyOf(ones.data(), 16)});
    return Answer<PushReply>(push).slices.at(0);
  }
};

// Data were appended, and the job has an epoch more, which has them.
TEST_F(RejoiningTest, WhatItHoldsIsOfAJobWhoseDataGrew) {
  JobSpec job = TinyJob();
  job.training.earlier = {{job.training.epochs, kTinyExamples, 7}};
  ++job.training.epochs;
  for (const uint64_t examples : {kTinyExamples - 1, kTinyExamples + 100}) {
    Serve(WireFormat::kFp32);
    JobSpec other = job;
    if (examples > kTinyExamples) other.training.earlier.front().examples = kTinyExamples + 1;
    Rejoin(other, examples);
    EXPECT_EQ(role_->Find(kKernel), nullptr) << "not the data that it knows, with others behind them";
  }
  Serve(WireFormat::kFp32);
  Rejoin(job, kTinyExamples + 100);
  EXPECT_EQ(role_->Find(kKernel)->epoch, kNext);
  EXPECT_TRUE(PushedOf(LeaseId{Plan(job, kTinyExamples + 100).total_leases() - 1}).counted);
}

// A chief between the two found further data, and was killed before the ps heard of them.
TEST_F(RejoiningTest, WhatItHoldsMayHaveGrownTwice) {
  Serve(WireFormat::kFp32);
  JobSpec job = TinyJob();
  job.training.earlier = {{job.training.epochs, kTinyExamples, 7}, {job.training.epochs + 1, kTinyExamples + 50, 8}};
  job.training.epochs += 2;
  Rejoin(job, kTinyExamples + 100);
  ASSERT_NE(role_->Find(kKernel), nullptr);
  EXPECT_EQ(role_->Find(kKernel)->epoch, kNext);
  EXPECT_TRUE(PushedOf(LeaseId{Plan(job, kTinyExamples + 100).total_leases() - 1}).counted);
}

TEST_F(RejoiningTest, LeasesOfEpochsThatWereAddedCount) {
  Serve(WireFormat::kFp32);
  JobSpec job = TinyJob();
  const LeaseId beyond{TinyPlan().total_leases()};
  ++job.training.epochs;
  Rejoin(job);
  EXPECT_EQ(PushedOf(beyond).refusal, SliceRefusal::kNone);
  EXPECT_EQ(role_->Find(kKernel)->counters.open().size(), 1u);
}

TEST_F(RejoiningTest, PushesAreAppliedByTheRateThatIsSaidNow) {
  Serve(WireFormat::kFp32);
  const float before = Held()[0];
  JobSpec job = TinyJob();
  job.training.optimizer.learning_rate = 0.5;
  Rejoin(job);
  EXPECT_TRUE(PushedOf(LeaseId{0}).counted);
  EXPECT_FLOAT_EQ(Held()[0], before - 0.5f);
}

// Another run of the same job gives out the same numbers: incarnations, slice epochs, leases.
TEST_F(ServingTest, WhatAnotherRunSaysChangesNothingAndIsNotAnswered) {
  Serve(WireFormat::kFp32);
  const std::vector<float> before = Held();
  const float ones[] = {1, 1, 1, 1};
  const Incarnation worker{5};
  const Message foreign[] = {
      Push{worker, LeaseId{0}, 1, {{kKernel, kEpoch, {kEpoch, 0}, Payload::CopyOf(ones, sizeof ones)}}},
      Probe{worker, LeaseId{0}, {{kKernel, kEpoch}}}, Pull{worker, 1, {{kKernel, kEpoch, {}}}}};
  uint64_t rejected = 0;
  for (const uint64_t run : {uint64_t{0}, kRun + 1}) {
    for (const Message& message : foreign) {
      Effects effects;
      role_->Step(Time(), Received{kWorker, message, run}, effects);
      EXPECT_TRUE(SentOf(effects.Take()).empty()) << downpour::NameOf(message);
      EXPECT_EQ(role_->stats().messages_rejected, ++rejected);
    }
  }
  Effects effects;
  role_->Step(Time(), Received{kChief, Assign{kMe, kTinyExamples, {{kKernel, {1, 2}, SliceSource::kInitialValues}}}, 1},
              effects);
  EXPECT_EQ(role_->Find(kKernel)->epoch, kEpoch) << "of another chief";
  EXPECT_EQ(Held(), before);
}

TEST_F(ServingTest, AllThatItSaysIsSaidInItsRun) {
  Serve(WireFormat::kFp32);
  Effects effects;
  role_->Step(Time(), Received{kWorker, Probe{Incarnation{5}, LeaseId{0}, {{kKernel, kEpoch}}}, kRun}, effects);
  role_->Step(Time(1s), Tick{}, effects);
  const std::vector<Send> sent = SentOf(effects.Take());
  EXPECT_GE(sent.size(), 3u) << "an answer, a heartbeat and OpenBulk";
  for (const Send& send : sent) EXPECT_EQ(send.run, kRun) << downpour::NameOf(send.message);
}

// Its folder is that of the run before: what it wrote there the new chief's checkpoints would lack.
TEST(PsRoleTest, InAnotherRunItDoesNotWriteIntoTheFolderOfTheOneBefore) {
  JobSpec job = TinyJob();
  job.checkpoint.via = CheckpointVia::kShared;
  PsOptions options;
  options.has_job_dir = true;
  PsRole role(options);
  EXPECT_FALSE(ExitOf(WelcomeTo(job, role)).has_value());
  Effects effects;
  const Refused refused{.code = RefusalCode::kUnknown, .why = "it leads another run", .member = kMe, .run = kRun};
  role.Step(Time(1s), Received{kChief, refused, kRun + 1}, effects);
  role.Step(Time(1s),
            Received{kChief, Welcome{.you = kMe,
                                     .term = 1,
                                     .name = "ps-0",
                                     .job = CanonicalJob(job),
                                     .run = kRun + 1,
                                     .nonce = 0,
                                     .number = 1}},
            effects);
  const std::optional<Exit> exit = ExitOf(effects.Take());
  ASSERT_TRUE(exit.has_value());
  EXPECT_NE(exit->why.find("the chief is of another run"), std::string::npos) << exit->why;
}

class WireTest : public ServingTest {
 protected:
  WireTest() { Serve(WireFormat::kBf16); }
};

TEST_F(WireTest, ValuesAreRoundedOnceForEachVersion) {
  const Payload first = PulledKernel();
  ASSERT_EQ(first.size(), 8u) << "four numbers";
  EXPECT_EQ(PulledKernel().data(), first.data()) << "the same bytes, not others alike";
  std::vector<Bf16> expected(4);
  RoundToBf16(Held(), expected.data());
  EXPECT_EQ(std::memcmp(first.data(), expected.data(), 8), 0);

  const Bf16 ones[] = {{0x3f80}, {0x3f80}, {0x3f80}, {0x3f80}};
  EXPECT_EQ(Pushed(1, Payload::CopyOf(ones, 8)).consumed, 1u);
  const Payload second = PulledKernel();
  EXPECT_NE(second.data(), first.data());
  RoundToBf16(Held(), expected.data());
  EXPECT_EQ(std::memcmp(second.data(), expected.data(), 8), 0);
}

TEST_F(WireTest, WhatIsKeptIsOfAllItsBits) {
  const std::vector<float> before = Held();
  const Bf16 tiny[] = {{0x3580}, {0x3580}, {0x3580}, {0x3580}};  // 2^-20, with rate 1
  EXPECT_EQ(Pushed(1, Payload::CopyOf(tiny, 8)).consumed, 1u);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(Held()[i], before[i] - 0x1p-20f);
    EXPECT_NE(Held()[i], before[i]);
  }
  const Bf16 nan[] = {{0x3580}, {0x7fc0}, {0x3580}, {0x3580}};
  const std::vector<float> then = Held();
  EXPECT_EQ(Pushed(2, Payload::CopyOf(nan, 8)).consumed, 2u) << "consumed, without effect";
  EXPECT_EQ(Held(), then);
}

TEST_F(WireTest, AGradientOfFloatsHasTheWrongShape) {
  EXPECT_EQ(Pushed(1, Payload::Zeros(16)).refusal, SliceRefusal::kWrongShape);
}

// A push that two processes before crashed at is consumed as one that is not finite: once, and without effect.
TEST_F(ServingTest, WhatCrashedItTwiceIsLeftOut) {
  const float ones[] = {1, 1, 1, 1};
  const PushName name{kRun, LeaseId{0}, 1, kKernel};
  const PushName others[] = {
      {kRun + 1, LeaseId{0}, 1, kKernel}, {kRun, LeaseId{0}, 2, kKernel}, {kRun, LeaseId{0}, 1, kBias}};
  std::vector<PushName> crashes = {name};
  for (const PushName& other : others) crashes.insert(crashes.end(), {other, other});
  for (const bool twice : {false, true}) {
    if (twice) crashes.push_back(name);
    Serve(WireFormat::kFp32, crashes);
    const std::vector<float> before = Held();
    EXPECT_EQ(Pushed(1, Payload::CopyOf(ones, sizeof ones)).consumed, 1u);
    EXPECT_EQ(Held() == before, twice) << "the first crash may have had any cause";
    EXPECT_EQ(role_->stats().pushes_skipped, twice ? 1u : 0u);
    EXPECT_EQ(role_->Find(kKernel)->version, twice ? 0u : 1u);
    EXPECT_FALSE(role_->applying().Now().has_value()) << "it is done with it";
  }
}

}  // namespace
}  // namespace downpour
