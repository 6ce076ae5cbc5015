#include "worker/exchange.h"

#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/worker/three_slices.h"

namespace downpour {
namespace {

constexpr PeerId kFirstPeer{2};
constexpr LeaseId kLease{0};
constexpr Step kSteps = 4;

class ExchangeTest : public testing::Test {
 protected:
  ExchangeTest() {
    session_.Receive(now_, Welcome{.you = kMe, .term = 1, .name = "worker-0", .job = ""}, effects_);
    EXPECT_TRUE(exchange_.Place(PlacedAt(1, {1, 1}), now_, effects_).ok());
    exchange_.Hold(kLease, kSteps, now_, effects_);
    Answer({0, 1, 2}, 0);
    effects_.Take();
  }

  // All at one ps, slice 0 in that epoch.
  static Placement PlacedAt(uint64_t number, SliceEpoch epoch) {
    return {Incarnation{1},
            number,
            1,
            100,
            {{kPs, "ps-0", "h:1"}},
            {{SliceId{0}, epoch, 0}, {SliceId{1}, {1, 1}, 0}, {SliceId{2}, {1, 1}, 0}}};
  }
  // The ps answers for these slices.
  void Answer(const std::vector<uint32_t>& slices, Step consumed) {
    PushReply reply{kPs, kLease, {}, window_};
    for (const uint32_t slice : slices) {
      reply.slices.push_back({SliceId{slice}, {1, 1}, SliceRefusal::kNone, consumed, consumed, 0});
    }
    EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  }
  void AnswerPull(uint64_t request, uint32_t slice) {
    const Payload values = Payload::Zeros(static_cast<size_t>(grid_.at(SliceId{slice}).bytes()));
    const PullReply reply{kPs, request, {{SliceId{slice}, SliceRefusal::kNone, {{1, 1}, 7}, values}}, window_};
    EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  }
  void Retain(Step step) {
    for (const Slice& slice : grid_.slices) {
      exchange_.Retain(*exchange_.Find(kLease), step, slice.id, Payload::Zeros(static_cast<size_t>(slice.bytes())), {});
    }
    exchange_.Flush(now_, effects_);
  }
  void Pass(Duration time) {
    now_ += time;
    exchange_.Tick(now_, effects_);
  }
  struct Sent {
    char kind = ' ';  // P(ush), (pu)L(l)
    Step step = 0;
    std::vector<uint32_t> slices;
    bool operator==(const Sent&) const = default;
  };
  std::vector<Sent> Take() {
    std::vector<Sent> sent;
    for (const Effect& effect : effects_.Take()) {
      const auto* send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      Sent message;
      if (const auto* push = std::get_if<Push>(&send->message)) {
        message = {'P', push->step, {}};
        for (const Push::Item& item : push->slices) message.slices.push_back(ToNumber(item.slice));
      } else if (const auto* pull = std::get_if<Pull>(&send->message)) {
        message = {'L', 0, {}};
        for (const Pull::Item& item : pull->slices) message.slices.push_back(ToNumber(item.slice));
      }
      sent.push_back(message);
    }
    return sent;
  }

  Time now_{};
  Effects effects_;
  uint64_t window_ = 8 * kMiB;
  SliceGrid grid_ = ThreeSlices();
  MemberSession session_{TaskRole::kWorker, MemberOptions()};
  Exchange exchange_{&session_, &grid_, kFirstPeer, /*settles=*/true};
};

TEST_F(ExchangeTest, BundlesAMegabyteAndPullsBehindThePushes) {
  Retain(1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}, {'P', 1, {1}}, {'P', 1, {2}}}));
  exchange_.BeginPull(now_, effects_);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'L', 0, {0}}, {'L', 0, {1}}, {'L', 0, {2}}}));
}

TEST_F(ExchangeTest, StaysWithinTheWindowWhichPushesEnterFirst) {
  window_ = kMiB + 100;
  Answer({0}, 0);
  exchange_.BeginPull(now_, effects_);  // takes the window
  EXPECT_EQ(Take(), (std::vector<Sent>{{'L', 0, {0}}}));
  Retain(1);
  EXPECT_EQ(Take(), std::vector<Sent>{});
  AnswerPull(1, 0);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}})) << "before the other pulls";
  Answer({0}, 1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {1}}, {'P', 1, {2}}}));
  Answer({1, 2}, 1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'L', 0, {1}}, {'L', 0, {2}}}));
}

// What was on its way to the address before is lost, and so is what came from there.
TEST_F(ExchangeTest, WhatIsOwedIsAskedOfThePsAgainWhereItIsNow) {
  Retain(1);
  exchange_.BeginPull(now_, effects_);
  const std::vector<Sent> owed = Take();
  Placement moved = PlacedAt(2, {1, 1});
  moved.servers[0].endpoint = "elsewhere:1";
  EXPECT_TRUE(exchange_.Place(moved, now_, effects_).ok());
  EXPECT_EQ(Take(), owed);
  AnswerPull(1, 0);
  EXPECT_EQ(session_.stats().messages_rejected, 1u) << "over the connection before";
}

TEST_F(ExchangeTest, SaysWhoOwesAnAnswer) {
  EXPECT_EQ(exchange_.Owing(), "");
  Retain(1);
  EXPECT_EQ(exchange_.Owing(), "ps-0");
  Answer({0, 1, 2}, 1);
  EXPECT_EQ(exchange_.Owing(), "");
  exchange_.BeginPull(now_, effects_);
  EXPECT_EQ(exchange_.Owing(), "ps-0");
}

TEST_F(ExchangeTest, NewValuesAreLoadedAhead) {
  exchange_.BeginPull(now_, effects_);
  effects_.Take();
  const auto loaded = [this] {
    std::vector<std::pair<SliceId, const std::byte*>> all;
    for (const Effect& effect : effects_.Take()) {
      const auto* load = std::get_if<PrefetchParameters>(&effect);
      if (load == nullptr) continue;
      for (const auto& [slice, values] : load->values) all.emplace_back(slice, values.bytes().data());
    }
    return all;
  };
  AnswerPull(1, 0);
  const auto first = loaded();
  ASSERT_EQ(first.size(), 1u);
  AnswerPull(1, 0);
  EXPECT_TRUE(loaded().empty()) << "doubled";
  AnswerPull(2, 1);
  EXPECT_EQ(loaded().size(), 1u);
  AnswerPull(3, 2);
  ASSERT_TRUE(exchange_.fresh());
  const ParameterSet& used = exchange_.TakePulled();
  EXPECT_EQ(first[0], std::pair(SliceId{0}, used.values[0].bytes().data())) << "what a request will bring";
  effects_.Take();
  exchange_.BeginPull(now_, effects_);
  AnswerPull(4, 0);
  EXPECT_TRUE(loaded().empty()) << "the device has that version";
}

// What is answered, lost, refused or dropped gives its share of the window
// back: with room for one slice, steps flow on.
TEST_F(ExchangeTest, NoByteOfTheWindowIsLost) {
  window_ = kMiB;
  Answer({0, 1, 2}, 0);
  Retain(1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}}));
  Pass(session_.timing().data_retry);  // lost
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}}));
  PushReply refusal{kPs, kLease, {{SliceId{0}, {}, SliceRefusal::kNotHere, 0, 0, 0}}, window_};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, refusal, now_, effects_).ok());
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {1}}})) << "not the one that was just refused";
  Answer({1}, 1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {2}}}));
  Answer({0, 2}, 1);
  Retain(2);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 2, {0}}}));
  exchange_.Release(kLease);
  exchange_.BeginPull(now_, effects_);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'L', 0, {0}}}));
}

// What goes again may still stand in a queue: it makes no room for anything else.
TEST_F(ExchangeTest, WhatGoesAgainKeepsItsShareOfTheWindow) {
  window_ = 2 * kMiB;
  Answer({0, 1, 2}, 0);
  Retain(1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}, {'P', 1, {1}}}));
  EXPECT_EQ(session_.stats().pushes_resent, 0u);
  Pass(session_.timing().data_retry);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}, {'P', 1, {1}}}));
  EXPECT_EQ(session_.stats().pushes_resent, 2u);
  Answer({0}, 1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {2}}}));
}

TEST_F(ExchangeTest, ASilentPsIsAskedEverMoreRarely) {
  const Duration retry = session_.timing().data_retry;
  const std::vector<Sent> push = {{'P', 1, {2}}};
  exchange_.Retain(*exchange_.Find(kLease), 1, SliceId{2}, Payload::Zeros(32), {});
  exchange_.Flush(now_, effects_);
  EXPECT_EQ(Take(), push);
  for (const int pause : {1, 2, 4, 8, 8}) {
    Pass(pause * retry - 1ms);
    EXPECT_EQ(Take(), std::vector<Sent>{});
    Pass(1ms);
    EXPECT_EQ(Take(), push);
  }
  Answer({0}, 0);  // it lives; what it did not answer may stand in a queue behind that
  Pass(retry - 1ms);
  EXPECT_EQ(Take(), std::vector<Sent>{});
  Pass(1ms);
  EXPECT_EQ(Take(), push);
}

TEST_F(ExchangeTest, APushLostAmongAnswersGoesAgainAtLast) {
  const Duration retry = session_.timing().data_retry;
  Retain(1);
  Take();
  for (int i = 0; i < 15; ++i) {
    Pass(retry / 2);
    Answer({0}, 1);
    EXPECT_EQ(Take(), std::vector<Sent>{});
  }
  Pass(retry / 2);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {1}}, {'P', 1, {2}}}));
}

// The chief says that the lease is not committed, late and in the midst of it:
// all slices are asked, nothing counts twice.
TEST_F(ExchangeTest, AskingAgainLeavesWhatWasSentOnItsWay) {
  window_ = kMiB;
  Answer({0, 1, 2}, 0);
  Retain(1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}}));
  exchange_.Find(kLease)->progress.ForgetAnswers();
  Answer({0, 1, 2}, 0);
  EXPECT_EQ(Take(), std::vector<Sent>{});
  Answer({0}, 1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {1}}}));
}

TEST_F(ExchangeTest, AMovedSliceGivesItsShareOfTheWindowBack) {
  window_ = kMiB;
  Answer({0, 1, 2}, 0);
  Retain(1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}}));
  EXPECT_TRUE(exchange_.Place(PlacedAt(2, {1, 2}), now_, effects_).ok());
  EXPECT_EQ(Take(), (std::vector<Sent>{{' ', 0, {}}, {'P', 1, {1}}})) << "probed; then there is room for the next one";
  const PushReply reply{kPs, kLease, {{SliceId{0}, {1, 2}, SliceRefusal::kNone, 0, 0, 0}}, 8 * kMiB};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}, {'P', 1, {2}}}));
  EXPECT_EQ(session_.stats().pushes_resent, 1u) << "to its new epoch";
}

// An answer to a push that was withheld, but sent only once, can be to no other copy.
TEST_F(ExchangeTest, WhatWasWithheldBeforeItWasSentHasItsStalenessCounted) {
  window_ = kMiB;
  Answer({0, 1, 2}, 0);
  Retain(1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {0}}}));
  PushReply refusal{kPs, kLease, {{SliceId{1}, {}, SliceRefusal::kNotHere, 0, 0, 0}}, window_};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, refusal, now_, effects_).ok());
  Answer({0}, 1);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {2}}}));
  Answer({2}, 1);
  Pass(session_.timing().control_retry);
  EXPECT_EQ(Take(), (std::vector<Sent>{{'P', 1, {1}}}));
  Answer({1}, 1);
  EXPECT_EQ(session_.stats().staleness.pushes, 3u);
  EXPECT_EQ(session_.stats().pushes_resent, 0u);
}

TEST_F(ExchangeTest, ValuesOfAnotherSizeOrEpochAreNotTaken) {
  exchange_.BeginPull(now_, effects_);
  PullReply reply{kPs, 3, {{SliceId{2}, SliceRefusal::kNone, {{1, 1}, 7}, Payload::Zeros(4)}}, window_};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  EXPECT_EQ(session_.stats().messages_rejected, 1u);
  reply.slices[0] = {SliceId{2}, SliceRefusal::kNone, {{1, 2}, 7}, Payload::Zeros(32)};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  for (uint32_t i = 0; i < 2; ++i) AnswerPull(i + 1, i);
  EXPECT_FALSE(exchange_.fresh());
  AnswerPull(3, 2);
  EXPECT_TRUE(exchange_.fresh());
  EXPECT_EQ(exchange_.TakePulled().versions[2], (Version{{1, 1}, 7}));
}

TEST_F(ExchangeTest, OnlyThePsThatHoldsTheSliceIsHeard) {
  PushReply reply{Incarnation{99}, kLease, {{SliceId{0}, {1, 1}, SliceRefusal::kNone, 4, 4, 0}}, window_};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  EXPECT_TRUE(exchange_.Receive(PeerId{77}, reply, now_, effects_).ok());
  EXPECT_EQ(session_.stats().messages_rejected, 2u);
  EXPECT_EQ(exchange_.Find(kLease)->progress.Next(), 1u);
}

TEST_F(ExchangeTest, NoPsSpeaksForAnotherOnesSlice) {
  Placement moved = PlacedAt(2, {1, 2});
  moved.servers.push_back({Incarnation{8}, "ps-1", "h:2"});
  moved.slices[0].server = 1;
  EXPECT_TRUE(exchange_.Place(moved, now_, effects_).ok());
  const PushReply reply{kPs, kLease, {{SliceId{0}, {1, 2}, SliceRefusal::kNone, 4, 4, 0}}, window_};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  EXPECT_EQ(session_.stats().messages_rejected, 1u);
  EXPECT_FALSE(exchange_.Find(kLease)->progress.AllKnown());
}

class SettledTest : public ExchangeTest {
 protected:
  void AnswerPush(uint32_t slice, Step consumed, bool counted, SliceRefusal refusal = SliceRefusal::kNone) {
    const PushReply reply{kPs, kLease, {{SliceId{slice}, {1, 1}, refusal, consumed, consumed, 0, counted}}, window_};
    EXPECT_TRUE(exchange_.Receive(kFirstPeer, reply, now_, effects_).ok());
  }
  static Settled Of(Step step, uint32_t slice, bool counted) { return {kLease, step, SliceId{slice}, counted}; }
};

TEST_F(SettledTest, AGradientIsSettledByTheAnswerToIt) {
  Retain(1);
  EXPECT_EQ(exchange_.TakeSettled(), std::vector<Settled>{}) << "all are in flight";
  AnswerPush(0, 1, /*counted=*/true);
  AnswerPush(1, 1, /*counted=*/false);  // another worker's came first
  EXPECT_EQ(exchange_.TakeSettled(), (std::vector<Settled>{Of(1, 0, true), Of(1, 1, false)}));
  AnswerPush(0, 1, true);  // said twice
  EXPECT_EQ(exchange_.TakeSettled(), std::vector<Settled>{});
}

TEST_F(SettledTest, OneWhoseOwnAnswerWasLostCountsAsInVain) {
  Retain(1);
  Retain(2);
  AnswerPush(0, 2, /*counted=*/true);
  EXPECT_EQ(exchange_.TakeSettled(), (std::vector<Settled>{Of(1, 0, false), Of(2, 0, true)}));
}

TEST_F(SettledTest, WhatIsTooStaleOrCameTooLateOrIsHeldNoMoreIsInVain) {
  Retain(1);
  AnswerPush(0, 0, false, SliceRefusal::kTooStale);
  EXPECT_EQ(exchange_.TakeSettled(), (std::vector<Settled>{Of(1, 0, false)}));
  AnswerPush(1, 2, false);  // far ahead
  EXPECT_EQ(exchange_.TakeSettled(), (std::vector<Settled>{Of(1, 1, false)}));
  exchange_.Retain(*exchange_.Find(kLease), 2, SliceId{1}, Payload::Zeros(8), {});
  EXPECT_EQ(exchange_.TakeSettled(), (std::vector<Settled>{Of(2, 1, false)}));
  exchange_.Clear(effects_);
  EXPECT_EQ(exchange_.TakeSettled(), (std::vector<Settled>{Of(1, 2, false)}));
}

// It answers a push to the place before: what is on its way to the new one is not computed again for that.
TEST_F(SettledTest, ARefusalOfAnEpochThatIsOverGivesNothingUp) {
  Retain(1);
  EXPECT_TRUE(exchange_.Place(PlacedAt(2, {1, 2}), now_, effects_).ok());
  const PushReply known{kPs, kLease, {{SliceId{0}, {1, 2}, SliceRefusal::kNone, 0, 0, 0}}, window_};
  EXPECT_TRUE(exchange_.Receive(kFirstPeer, known, now_, effects_).ok());
  AnswerPush(0, 0, false, SliceRefusal::kTooStale);
  EXPECT_EQ(exchange_.TakeSettled(), std::vector<Settled>{});
  EXPECT_EQ(exchange_.Find(kLease)->progress.Next(), 2u);
}

TEST_F(SettledTest, AnEmptyPushNeedsNone) {
  exchange_.Retain(*exchange_.Find(kLease), 1, SliceId{0}, Payload(), {});
  AnswerPush(0, 1, true);
  EXPECT_EQ(exchange_.TakeSettled(), std::vector<Settled>{});
}

TEST_F(SettledTest, NoneIsNeededWhereTheDeviceKeepsNothing) {
  Exchange plain(&session_, &grid_, PeerId{9}, /*settles=*/false);
  EXPECT_TRUE(plain.Place(PlacedAt(1, {1, 1}), now_, effects_).ok());
  plain.Hold(kLease, kSteps, now_, effects_);
  plain.Retain(*plain.Find(kLease), 1, SliceId{1}, Payload::Zeros(8), {});
  plain.Forgo(kLease, 1, SliceId{2});
  plain.Release(kLease);
  EXPECT_EQ(plain.TakeSettled(), std::vector<Settled>{});
}

}  // namespace
}  // namespace downpour
