#include "chief/known/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <type_traits>

#include "tests/schema/fields.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

constexpr PeerId kPeer{uint64_t{1} << 32};
constexpr uint64_t kRun = 99;

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() : members({.scale_tier = "CUSTOM", .worker_count = 2, .parameter_server_count = 1}, Timing{}) {
    members.Begin(now, 3, kRun);
  }
  static Join JoinOf(TaskRole role, int32_t index, uint64_t nonce) {
    Join join;
    join.role = role;
    join.index = index;
    join.nonce = nonce;
    join.host = "h1";
    join.pid = 42;
    if (role == TaskRole::kPs) join.endpoint = "h1:1";
    return join;
  }
  Membership::Verdict Worker(int32_t index, uint64_t nonce) {
    return members.Admit(now, kPeer, JoinOf(TaskRole::kWorker, index, nonce));
  }
  absl::Status Beat(Task& task, const TaskStats& stats) {
    return members.Receive(now, kPeer, {.from = task.incarnation, .stats = stats, .log_lines = {}}, task);
  }
  // At a tick, as the role does.
  std::vector<Task*> Look() {
    members.DiscountOwnPause(now);
    return members.TakeSilent(now);
  }
  // How many are held dead once the chief has listened for as long as that takes.
  size_t ListenInVain() {
    size_t lost = 0;
    for (const Time begin = now; now <= begin + Timing{}.dead_after; now += 20ms) lost += Look().size();
    return lost;
  }
  Membership members;
  Time now{100s};
};

TEST_F(MembershipTest, IncarnationsAreOfTheTermAndNeverRepeat) {
  const Incarnation first = Worker(0, 1).task->incarnation;
  EXPECT_EQ(ToNumber(first) >> 32, 3u);
  members.FindAlive(first)->state = TaskState::kLost;
  const Incarnation second = Worker(0, 2).task->incarnation;
  EXPECT_NE(first, second);
  EXPECT_EQ(members.Find(first), nullptr);
  EXPECT_TRUE(members.Issued(first));
  EXPECT_FALSE(members.Issued(Incarnation{ToNumber(second) + 1}));
  EXPECT_TRUE(members.Issued(Incarnation{uint64_t{2} << 32 | 1})) << "an earlier chief knew";
  EXPECT_FALSE(members.Issued(Incarnation{uint64_t{4} << 32 | 1}));
  EXPECT_FALSE(members.Issued(Incarnation::kNone));
}

TEST_F(MembershipTest, TheSameProcessIsWelcomedAgainAsTheSame) {
  const Membership::Verdict first = Worker(-1, 7);
  const Membership::Verdict again = Worker(-1, 7);
  EXPECT_TRUE(first.is_new);
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(again.task->incarnation, first.task->incarnation);
  EXPECT_EQ(members.Alive(TaskRole::kWorker).size(), 1u);
}

TEST_F(MembershipTest, AnyIndexIsTheLowestFreeOne) {
  EXPECT_EQ(Worker(-1, 1).task->name, "worker-0");
  EXPECT_EQ(Worker(-1, 2).task->name, "worker-1");
  const Membership::Verdict third = Worker(-1, 3);
  ASSERT_EQ(third.task, nullptr);
  EXPECT_EQ(third.refusal.code, RefusalCode::kNameTaken);
  EXPECT_FALSE(third.refusal.for_good) << "one of them may be dead already";
}

TEST_F(MembershipTest, ATakenNameIsRefusedUntilItsHolderIsDead) {
  Worker(0, 1);
  const Membership::Verdict second = Worker(0, 2);
  ASSERT_EQ(second.task, nullptr);
  EXPECT_EQ(second.refusal.code, RefusalCode::kNameTaken);
  EXPECT_FALSE(second.refusal.for_good);
  EXPECT_THAT(second.refusal.why, HasSubstr("worker-0 is held by process 42 on h1"));
  EXPECT_EQ(ListenInVain(), 1u);
  EXPECT_EQ(Worker(0, 2).task->name, "worker-0");
}

TEST_F(MembershipTest, ASupervisorsNextAttemptReplacesAtOnce) {
  Join first = JoinOf(TaskRole::kWorker, 1, 1);
  first.launcher = "run-1";
  const Incarnation old = members.Admit(now, kPeer, first).task->incarnation;
  Join other = first;
  other.nonce = 2;
  EXPECT_EQ(members.Admit(now, kPeer, other).task, nullptr) << "the same attempt";
  other.attempt = 1;
  other.launcher = "run-2";
  EXPECT_EQ(members.Admit(now, kPeer, other).task, nullptr) << "another launcher";
  other.launcher = "run-1";
  const Membership::Verdict verdict = members.Admit(now, kPeer, other);
  ASSERT_NE(verdict.task, nullptr);
  ASSERT_TRUE(verdict.replaced.has_value());
  EXPECT_EQ(verdict.replaced->incarnation, old);
}

TEST_F(MembershipTest, WhoKeptWhatItHadUnderAnEarlierChiefOfThisRunIsKnownToHoldIt) {
  const auto holds = [this](uint64_t nonce, uint64_t run, uint64_t term) {
    Join join = JoinOf(TaskRole::kPs, 0, nonce);
    join.run = run;
    join.was = Incarnation{term << 32 | 5};
    Task* task = members.Admit(now, kPeer, join).task;
    task->state = TaskState::kLost;
    return task->holds;
  };
  EXPECT_TRUE(holds(1, kRun, 2));
  EXPECT_FALSE(holds(2, kRun, 0));
  EXPECT_FALSE(holds(3, kRun + 1, 2)) << "of another job folder";
  Join own = JoinOf(TaskRole::kPs, 0, 4);
  own.run = kRun;
  own.was = Incarnation{uint64_t{3} << 32 | 1};
  EXPECT_FALSE(members.Admit(now, kPeer, own).task->holds) << "this chief gave its place to another";
  own.was = Incarnation{uint64_t{3} << 32 | 9};
  EXPECT_TRUE(members.IsAhead(own)) << "which it gave to nobody";
  EXPECT_TRUE(members.Admit(now, kPeer, own).refusal.for_good);
  own.was = Incarnation{uint64_t{4} << 32 | 1};
  EXPECT_TRUE(members.IsAhead(own));
  own.run = kRun + 1;
  EXPECT_FALSE(members.IsAhead(own)) << "other runs have other terms";
}

// One that stood still while another was in its place holds less, whoever asks the next chief first.
TEST_F(MembershipTest, OfTwoThatHeldOnePlaceWhoGotItLaterHasIt) {
  const auto join = [this](uint64_t nonce, uint64_t was) {
    Join again = JoinOf(TaskRole::kPs, 0, nonce);
    again.run = kRun;
    again.was = Incarnation{was};
    return members.Admit(now, kPeer, again);
  };
  constexpr uint64_t kTerm1 = uint64_t{1} << 32, kTerm2 = uint64_t{2} << 32;
  const Incarnation first = join(1, kTerm2 | 1).task->incarnation;
  EXPECT_EQ(join(2, kTerm1 | 9).refusal.code, RefusalCode::kNameTaken) << "it had the place before";
  const Membership::Verdict later = join(3, kTerm2 | 4);
  ASSERT_NE(later.task, nullptr);
  ASSERT_TRUE(later.replaced.has_value());
  EXPECT_EQ(later.replaced->incarnation, first);
  EXPECT_EQ(join(4, 0).refusal.code, RefusalCode::kNameTaken) << "it never had it";
}

TEST_F(MembershipTest, APsThatWasHeldForDeadComesBackUnlessItsPlaceIsTaken) {
  Task* ps = members.Admit(now, kPeer, JoinOf(TaskRole::kPs, 0, 1)).task;
  Task* worker = Worker(0, 2).task;
  EXPECT_FALSE(members.Revive(*ps)) << "it was never away";
  EXPECT_EQ(ListenInVain(), 2u);
  EXPECT_FALSE(members.Revive(*worker)) << "its leases are others' by now";
  EXPECT_TRUE(members.Revive(*ps));
  EXPECT_TRUE(ps->alive());
}

TEST_F(MembershipTest, APsIsWhereItsNewestJoinSays) {
  Join join = JoinOf(TaskRole::kPs, 0, 1);
  const Incarnation ps = members.Admit(now, kPeer, join).task->incarnation;
  Join moved = join;
  moved.number = 2;
  moved.endpoint = "h2:1";
  EXPECT_FALSE(members.Admit(now, kPeer, moved).is_new);
  EXPECT_EQ(members.Find(ps)->process.endpoint, "h2:1");
  join.number = 1;
  EXPECT_EQ(members.Admit(now, kPeer, join).task->incarnation, ps);
  EXPECT_EQ(members.Find(ps)->process.endpoint, "h2:1") << "an older one, late";
}

// It may have been silent for as long as that while its host got another address.
TEST_F(MembershipTest, APsThatWasHeldForDeadComesBackByAJoinOfTheSameIncarnation) {
  Join join = JoinOf(TaskRole::kPs, 0, 1);
  const Incarnation ps = members.Admit(now, kPeer, join).task->incarnation;
  EXPECT_EQ(ListenInVain(), 1u);
  join.number = 1;
  join.was = ps;
  join.run = kRun;
  const Membership::Verdict verdict = members.Admit(now, kPeer, join);
  EXPECT_TRUE(verdict.is_back && !verdict.is_new);
  EXPECT_EQ(verdict.task->incarnation, ps) << "it holds what it held";
  EXPECT_TRUE(verdict.task->alive());
  EXPECT_EQ(ListenInVain(), 1u);
  join.run = kRun + 1;
  EXPECT_TRUE(members.Admit(now, kPeer, join).is_new) << "it comes from another run";
}

TEST_F(MembershipTest, RefusesForGoodWhatCannotBe) {
  EXPECT_EQ(Worker(2, 1).refusal.code, RefusalCode::kNoSuchTask);
  EXPECT_TRUE(Worker(2, 1).refusal.for_good);
  EXPECT_EQ(members.Admit(now, kPeer, JoinOf(TaskRole::kChief, 0, 5)).refusal.code, RefusalCode::kNoSuchTask);

  Join other = JoinOf(TaskRole::kWorker, 0, 1);
  other.protocol = other.oldest_protocol = kProtocolVersion + 1;
  EXPECT_EQ(members.Admit(now, kPeer, other).refusal.code, RefusalCode::kProtocolVersion);
  EXPECT_TRUE(members.Admit(now, kPeer, other).refusal.for_good);
  other.oldest_protocol = kProtocolVersion;
  EXPECT_NE(members.Admit(now, kPeer, other).task, nullptr) << "a newer one that speaks ours too";

  Join mute = JoinOf(TaskRole::kPs, 0, 9);
  for (const char* endpoint : {"", "h1", "h1:0", "tcp://h1:1", "h1;h2:1", "ipc://relative", "\nh1:1"}) {
    mute.endpoint = endpoint;
    const Membership::Verdict verdict = members.Admit(now, kPeer, mute);
    EXPECT_EQ(verdict.task, nullptr) << endpoint;
    EXPECT_TRUE(verdict.refusal.for_good) << endpoint;
    EXPECT_THAT(verdict.refusal.why, HasSubstr("a ps must listen on HOST:PORT or ipc:///PATH"));
    EXPECT_EQ(verdict.refusal.why.find('\n'), std::string::npos);
  }
  mute.endpoint = "ipc:///" + std::string(300, 'x');
  EXPECT_EQ(members.Admit(now, kPeer, mute).task, nullptr);
  mute.endpoint = "ipc:///run/ps-0";
  EXPECT_NE(members.Admit(now, kPeer, mute).task, nullptr);
}

TEST_F(MembershipTest, OneThatWasRefusedOrLeftDoesNotComeBackByALateJoin) {
  Task* task = Worker(0, 1).task;
  task->state = TaskState::kRefused;
  task->refusal = {RefusalCode::kDataDiffers, true, "other data"};
  EXPECT_EQ(Worker(0, 1).refusal.code, RefusalCode::kDataDiffers);
  EXPECT_EQ(Worker(-1, 1).refusal.code, RefusalCode::kDataDiffers);
  EXPECT_NE(Worker(0, 2).task, nullptr) << "another process may";
  members.FindAlive(task->incarnation)->state = TaskState::kLeft;
  EXPECT_EQ(Worker(0, 2).task, nullptr);
}

TEST_F(MembershipTest, OneThatWasHeldForDeadGetsItsOwnNameBack) {
  Worker(-1, 1);
  const Incarnation before = Worker(-1, 2).task->incarnation;
  for (Task* task : members.Alive(TaskRole::kWorker)) task->state = TaskState::kLost;
  const Membership::Verdict verdict = Worker(-1, 2);
  ASSERT_NE(verdict.task, nullptr);
  EXPECT_EQ(verdict.task->name, "worker-1");
  EXPECT_TRUE(verdict.is_new);
  EXPECT_NE(verdict.task->incarnation, before);
}

TEST_F(MembershipTest, SilenceIsDeath) {
  Task* a = Worker(0, 1).task;
  Task* b = Worker(1, 2).task;
  std::vector<std::string> lost;
  for (int i = 0; i < 300; ++i) {
    now += 20ms;
    if (i % 20 == 0) {
      ASSERT_TRUE(Beat(*a, {}).ok());
    }
    for (const Task* task : Look()) lost.push_back(task->name);
  }
  EXPECT_THAT(lost, ::testing::ElementsAre("worker-1"));
  EXPECT_EQ(b->state, TaskState::kLost);
  EXPECT_TRUE(a->alive());
}

// A chief that was stopped for a minute has heard nobody, and must not conclude that all are dead.
TEST_F(MembershipTest, TheChiefsOwnSilenceIsNotCounted) {
  Worker(0, 1);
  now += 60s;
  EXPECT_TRUE(Look().empty()) << "it was stopped before it looked for the first time";
  now += 60s;
  EXPECT_TRUE(Look().empty());
  for (int i = 0; i < 249; ++i) {
    now += 20ms;
    ASSERT_TRUE(Look().empty());
  }
  now += 20ms;
  EXPECT_EQ(Look().size(), 1u);
}

TEST_F(MembershipTest, ImpossibleStatsAreRefusedAndTheBeatCounts) {
  Task* task = Worker(0, 1).task;
  TaskStats good;
  good.steps = 5;
  ASSERT_TRUE(Beat(*task, good).ok());
  now += 1s;
  std::vector<TaskStats> absurd(6, good);
  absurd[0].cpu_seconds = std::nan("");
  absurd[1].cpu_seconds = -1;
  absurd[2].steps = UINT64_MAX;
  absurd[3].staleness.histogram.resize(kStalenessBuckets + 2);
  absurd[4].staleness.pushes = 2;
  absurd[4].staleness.histogram = {1, 2};
  absurd[5].staleness.histogram = {UINT64_MAX, 2};
  for (const TaskStats& stats : absurd) EXPECT_TRUE(absl::IsInvalidArgument(Beat(*task, stats)));
  EXPECT_EQ(task->stats.steps, 5u);
  EXPECT_EQ(task->heard, now);
}

TEST_F(MembershipTest, EveryCountIsCheckedAndAddedUp) {
  Task* task = Worker(0, 1).task;
  TaskStats stats;
  const auto for_each_count = [](TaskStats& of, const auto& visit) {
    const auto if_count = [&](auto& field) {
      if constexpr (std::is_same_v<decltype(field), uint64_t&>) visit(field);
    };
    std::apply([&](auto&... fields) { (if_count(fields), ...); }, Fields(of));
  };
  for_each_count(stats, [&](uint64_t& count) {
    count = UINT64_MAX;
    EXPECT_TRUE(absl::IsInvalidArgument(Beat(*task, stats)));
    count = 1;
  });
  TaskStats sum = stats;
  AddStats(stats, sum);
  for_each_count(sum, [](uint64_t count) { EXPECT_EQ(count, 2u); });
}

TEST_F(MembershipTest, AnOvertakenHeartbeatChangesNoCounts) {
  Task* task = Worker(0, 1).task;
  TaskStats newer;
  newer.steps = 5;
  ASSERT_TRUE(Beat(*task, newer).ok());
  TaskStats older;
  older.steps = 4;
  ASSERT_TRUE(Beat(*task, older).ok());
  EXPECT_EQ(task->stats.steps, 5u);
}

TEST_F(MembershipTest, RatesComeFromSuccessiveHeartbeats) {
  Task* task = Worker(0, 1).task;
  for (int i = 0; i <= 10; ++i, now += 500ms) {
    TaskStats stats;
    stats.steps = static_cast<uint64_t>(i);
    stats.examples = static_cast<uint64_t>(i) * 50;
    stats.cpu_seconds = i * 0.4;
    ASSERT_TRUE(Beat(*task, stats).ok());
  }
  now -= 500ms;
  EXPECT_DOUBLE_EQ(task->steps.PerSecond(now), 2);
  EXPECT_DOUBLE_EQ(task->examples.PerSecond(now), 100);
  EXPECT_DOUBLE_EQ(task->cpu_seconds.PerSecond(now), 0.8);
}

TEST_F(MembershipTest, TotalsKeepWhatTheDepartedDid) {
  Task* task = Worker(0, 1).task;
  TaskStats stats;
  stats.pushes_acknowledged = 10;
  stats.staleness = {.pushes = 3, .unknown = 1, .sum = 4, .max = 3, .histogram = {0, 1, 0, 1}};
  ASSERT_TRUE(Beat(*task, stats).ok());
  task->state = TaskState::kLost;
  task = Worker(0, 2).task;
  stats.pushes_acknowledged = 5;
  stats.staleness = {.pushes = 2, .unknown = 0, .sum = 9, .max = 5, .histogram = {0, 0, 0, 0, 1, 1}};
  ASSERT_TRUE(Beat(*task, stats).ok());
  const TaskStats totals = members.Totals(TaskRole::kWorker);
  EXPECT_EQ(totals.pushes_acknowledged, 15u);
  EXPECT_EQ(totals.staleness.sum, 13u);
  EXPECT_EQ(totals.staleness.max, 5u);
  EXPECT_EQ(totals.staleness.histogram, (std::vector<uint64_t>{0, 1, 0, 1, 1, 1}));
}

TEST_F(MembershipTest, WhatAProcessSaysOfItselfIsCleanedAndShort) {
  Join join = JoinOf(TaskRole::kWorker, 0, 1);
  join.host = "h\x1b[31m1";
  join.device = std::string(5000, 'x');
  const Task* task = members.Admit(now, kPeer, join).task;
  EXPECT_EQ(task->process.host, "h?[31m1");
  EXPECT_LE(task->process.device.size(), 256u);
}

TEST_F(MembershipTest, WhatAGpuCannotBeIsBroughtBackToWhatItCan) {
  Task* task = Worker(0, 1).task;
  for (const auto& [told, busy, hot] : {std::tuple{INT32_MAX, 100, 200}, {INT32_MIN, -1, -1}, {40, 40, 40}}) {
    TaskStats stats;
    stats.gpu.utilisation = stats.gpu.celsius = told;
    ASSERT_TRUE(Beat(*task, stats).ok());
    EXPECT_EQ(task->stats.gpu.utilisation, busy);
    EXPECT_EQ(task->stats.gpu.celsius, hot);
  }
}

}  // namespace
}  // namespace downpour
