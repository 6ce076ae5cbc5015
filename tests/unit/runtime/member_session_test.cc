#include <gtest/gtest.h>

#include "tests/unit/runtime/member_session_fixture.h"

namespace downpour {
namespace {

TEST_F(MemberSessionTest, AsksToJoinUntilItIsWelcome) {
  EXPECT_EQ(Take<Join>()[0].endpoint, "h1:9");
  Pass(2s);
  const std::vector<Join> joins = Take<Join>();
  EXPECT_EQ(joins.size(), 4u);
  EXPECT_EQ(joins[0].nonce, 42u);
  EXPECT_EQ(Welcomed(), News::kJoined);
  EXPECT_EQ(session_.incarnation(), kMe);
  Pass(2s);
  EXPECT_TRUE(Take<Join>().empty());
}

TEST_F(MemberSessionTest, WaitsForAChiefThatIsNotThereAndSaysSoNowAndThen) {
  Pass(60s);
  EXPECT_FALSE(exit_.has_value());
  EXPECT_EQ(logged_.size(), 12u);
  EXPECT_EQ(logged_[0], "waiting for the chief at h0:2222");
}

TEST_F(MemberSessionTest, BeatsWithItsCountsAndPlacement) {
  Welcomed();
  session_.Sample({.cpu_seconds = 1.5,
                   .resident_bytes = 10,
                   .bytes_in = 20,
                   .bytes_out = 30,
                   .refused = 2,
                   .refused_from = "10.0.0.7"});
  session_.stats().steps = 4;
  Pass(2s);
  const std::vector<Heartbeat> beats = Take<Heartbeat>();
  EXPECT_EQ(beats.size(), 4u);
  EXPECT_EQ(beats[0].from, kMe);
  EXPECT_EQ(beats[0].placement, 5u);
  EXPECT_EQ(beats[0].stats.steps, 4u);
  EXPECT_EQ(beats[0].stats.bytes_out, 30u);
  EXPECT_EQ(beats[0].stats.handshakes_refused, 2u);
  EXPECT_EQ(beats[0].stats.refused_from, "10.0.0.7");
}

TEST_F(MemberSessionTest, SaysNowAndThenWhyItRejects) {
  Welcomed();
  for (const char* why : {"no message", "its key is a worker's", "no message", "its key is a worker's"}) {
    session_.Reject({PeerId{7}, why}, effects_);
  }
  Pass(500ms);
  EXPECT_EQ(Take<Heartbeat>()[0].stats.messages_rejected, 4u);
  ASSERT_EQ(logged_.size(), 4u);
  EXPECT_EQ(logged_[1], "rejected from a peer (1 so far): no message");
  EXPECT_EQ(logged_[2], "rejected from a peer (2 so far): its key is a worker's");
  EXPECT_EQ(logged_[3], "rejected from a peer (4 so far): its key is a worker's");
}

TEST_F(MemberSessionTest, GoesOnWithoutItsChiefForLongThenEnds) {
  Welcomed();
  Pass(599s);
  EXPECT_FALSE(exit_.has_value());
  EXPECT_EQ(logged_[1], "the chief at h0:2222 has not answered for 5 s; this task goes on without it meanwhile");
  Receive(HeartbeatReply{.to = kMe});
  Pass(599s);
  EXPECT_FALSE(exit_.has_value());
  Pass(2s);
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 69);
  EXPECT_EQ(exit_->why, "the chief at h0:2222 has not answered for 600 s; if its job goes on, start this task again");
}

TEST_F(MemberSessionTest, HowLongItGoesOnWithoutItsChiefIsTheJobsToSay) {
  Welcomed(kMe, 3, 1, JobText("20s"));
  const std::optional<MemberSession::Job> job = session_.ReadJob(effects_);
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->grid.size(), 2u) << "a kernel and a bias";
  Pass(19s);
  EXPECT_FALSE(exit_.has_value());
  Pass(2s);
  EXPECT_TRUE(exit_.has_value());
}

TEST_F(MemberSessionTest, AJobThatItDoesNotUnderstandEndsIt) {
  Welcomed();
  EXPECT_FALSE(session_.ReadJob(effects_).has_value());
  Collect();
  ASSERT_TRUE(exit_.has_value());
  EXPECT_NE(exit_->why.find("the chief's job is not understood here"), std::string::npos);
}

class FewDescriptorsTest : public MemberSessionTest {
 protected:
  static MemberOptions WithFew() {
    MemberOptions options = Options();
    options.descriptors = 100;
    return options;
  }
  FewDescriptorsTest() : MemberSessionTest(WithFew()) {}
};

TEST_F(FewDescriptorsTest, AJobOfMoreConnectionsThanItMayHaveEndsIt) {
  Welcomed(kMe, 3, 1, JobText("20s"));
  EXPECT_FALSE(session_.ReadJob(effects_).has_value());
  Collect();
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 1);
  EXPECT_NE(exit_->why.find("needs 138 open files, and may have 100"), std::string::npos) << exit_->why;
  EXPECT_EQ(Take<Leave>().size(), 1u) << "its chief hears of it";
}

TEST_F(MemberSessionTest, AChiefIsNotGivenUpBeforeItCountsAsGone) {
  Welcomed(kMe, 3, 1, JobText("0s"));
  ASSERT_TRUE(session_.ReadJob(effects_).has_value());
  Pass(4s);
  EXPECT_FALSE(exit_.has_value());
  Pass(2s);
  EXPECT_TRUE(exit_.has_value());
}

TEST_F(MemberSessionTest, LogLinesCarryTheWallClockOfWhenTheyWereSaid) {
  MemberSession session(TaskRole::kPs, Options());
  session.Start(now_ + 7s, Started{.unix_ms = 1709251199'042, .endpoint = ""}, effects_);
  session.Receive(now_ + 8s, AnswerTo(0, kMe, /*term=*/3, /*run=*/1), effects_);
  session.Tick(now_ + 90s, /*placement=*/0, effects_);
  Collect();
  EXPECT_EQ(Take<Heartbeat>()[0].log_lines, std::vector<std::string>{"I 2024-03-01 00:00:00.042 joined as ps-4"});
}

TEST_F(MemberSessionTest, ItsOwnPauseIsNoSilenceOfTheChief) {
  Welcomed();
  Pass(500s);
  now_ += 1000s;  // in which this process did not run
  Pass(99s);
  EXPECT_FALSE(exit_.has_value());
  Pass(2s);
  EXPECT_TRUE(exit_.has_value()) << "the silences before and after it add up";
}

TEST_F(MemberSessionTest, WhatArrivedDuringItsPauseCountsAsHeardNoLaterThanNow) {
  Welcomed();
  Pass(500s);
  now_ += 1000s;
  Receive(HeartbeatReply{.to = kMe});
  Pass(599s);
  EXPECT_FALSE(exit_.has_value());
  Pass(2s);
  EXPECT_TRUE(exit_.has_value());
}

TEST_F(MemberSessionTest, ItsOwnPauseIsNoLongRefusal) {
  RefusedToJoin(RefusalCode::kNameTaken, false, "ps-0 is alive");
  Pass(4s);
  now_ += 100s;
  for (int i = 0; i < 10; ++i) {
    RefusedToJoin(RefusalCode::kNameTaken, false, "ps-0 is alive");
    Pass(1s);
  }
  EXPECT_FALSE(exit_.has_value());
  RefusedToJoin(RefusalCode::kNameTaken, false, "ps-0 is alive");
  Pass(2s);
  EXPECT_TRUE(exit_.has_value());
}

TEST_F(MemberSessionTest, OneThatIsUnknownJoinsAnew) {
  Welcomed();
  Take<Join>();
  session_.stats().steps = 4;
  EXPECT_EQ(RefusedAs(Incarnation{6}, "said to a life before"), News::kHandled);
  EXPECT_TRUE(session_.member());
  EXPECT_EQ(RefusedAs(kMe, "no heartbeat for 5 s"), News::kHandled);
  EXPECT_FALSE(session_.member());
  EXPECT_EQ(Take<Join>().size(), 1u) << "at once";
  EXPECT_EQ(RefusedAs(kMe, "late"), News::kHandled);
  EXPECT_TRUE(Take<Join>().empty());
  EXPECT_EQ(Welcomed(Incarnation{9}), News::kJoined) << "of the same chief: what it held is others'";
  EXPECT_EQ(session_.incarnation(), Incarnation{9});
  EXPECT_EQ(session_.stats().steps, 0u) << "the chief has added up the life before";
}

TEST_F(MemberSessionTest, BackAtItsChiefItJoinsAsWhatItIsUntilThatHasHeardIt) {
  Welcomed();
  Take<Join>();
  const uint64_t before = last_join_;
  session_.Reintroduce(now_, effects_);
  Pass(1100ms);
  const std::vector<Join> joins = Take<Join>();
  ASSERT_EQ(joins.size(), 3u) << "one of them may be lost";
  EXPECT_EQ(joins[0].was, kMe);
  EXPECT_EQ(Receive(AnswerTo(before, kMe, 3, 1)), News::kHandled) << "said over the connection before";
  Pass(600ms);
  EXPECT_EQ(Take<Join>().size(), 1u);
  EXPECT_EQ(Welcomed(), News::kHandled) << "it is what it was";
  EXPECT_TRUE(session_.member());
  Pass(2s);
  EXPECT_TRUE(Take<Join>().empty());
}

TEST_F(MemberSessionTest, AnotherChiefThatItMeetsAgainTakesItInAtOnce) {
  Welcomed();
  session_.Reintroduce(now_, effects_);
  Collect();
  EXPECT_EQ(Welcomed(Incarnation{9}, /*term=*/4), News::kRejoined);
  EXPECT_EQ(session_.incarnation(), Incarnation{9});
  EXPECT_EQ(Welcomed(Incarnation{8}, /*term=*/4), News::kHandled) << "it is a member";
}

TEST_F(MemberSessionTest, OneThatIsJoiningTellsOfTheAddressThatItHasByThen) {
  Take<Join>();
  const uint64_t before = last_join_;
  session_.Reintroduce(now_, effects_);
  Collect();
  EXPECT_EQ(Take<Join>().size(), 1u);
  EXPECT_EQ(Receive(AnswerTo(before, kMe, 3, 1)), News::kHandled) << "to a Join from the address before";
  EXPECT_FALSE(session_.member());
  EXPECT_EQ(Welcomed(), News::kJoined);
}

TEST_F(MemberSessionTest, WithALaterChiefOfTheSameRunItGoesOn) {
  Welcomed();
  session_.stats().steps = 4;
  RefusedAs(kMe);
  const Join join = Take<Join>().back();
  EXPECT_EQ(join.run, 1u);
  EXPECT_EQ(join.was, kMe);
  EXPECT_EQ(join.index, 4) << "where its slices are expected";
  EXPECT_EQ(Welcomed(Incarnation{9}, /*term=*/4), News::kRejoined);
  EXPECT_EQ(session_.term(), 4u);
  EXPECT_EQ(session_.stats().steps, 4u) << "this chief has added up nothing";
  EXPECT_FALSE(session_.job_changed());
}

TEST_F(MemberSessionTest, WithAChiefOfAnotherFolderItIsNew) {
  Welcomed();
  RefusedAs(kMe);
  EXPECT_EQ(Welcomed(Incarnation{1}, /*term=*/1, /*run=*/2, JobText("20s")), News::kJoined);
  EXPECT_TRUE(session_.job_changed());
}

// The numbers of incarnations decide nothing: a folder that was put back, or another one, gives out lower ones.
TEST_F(MemberSessionTest, TheWelcomeThatAnswersItsJoinIsTheOneThatCounts) {
  EXPECT_EQ(Welcomed(kMe, /*term=*/3, /*run=*/1), News::kJoined);
  RefusedAs(kMe);
  const uint64_t asked = last_join_;
  EXPECT_EQ(Receive(AnswerTo(asked - 1, kMe, 3, 1)), News::kHandled) << "to a Join of before, late or doubled";
  EXPECT_FALSE(session_.member());
  Pass(600ms);
  EXPECT_EQ(last_join_, asked + 1);
  EXPECT_EQ(Receive(AnswerTo(asked, Incarnation{2}, 3, 1)), News::kJoined) << "to the last but one, which is due";
  EXPECT_EQ(session_.incarnation(), Incarnation{2});
  EXPECT_EQ(Receive(AnswerTo(asked + 1, Incarnation{9}, 3, 1)), News::kHandled) << "it is a member";
  RefusedAs(Incarnation{2});
  EXPECT_EQ(Welcomed(Incarnation{2}, /*term=*/3, /*run=*/1), News::kJoined) << "the same numbers, but asked for";
}

TEST_F(MemberSessionTest, AnswersToOthersAreForeign) {
  const auto is_foreign = [this](Message message, uint64_t run) {
    return session_.IsForeign(Received{MemberSession::kChief, std::move(message), run});
  };
  Welcome welcome = AnswerTo(0, kMe, 3, 1);
  EXPECT_FALSE(is_foreign(welcome, 1));
  ++welcome.nonce;
  EXPECT_TRUE(is_foreign(welcome, 1)) << "to another process";
  EXPECT_FALSE(is_foreign(JobEnd{}, 1)) << "it belongs to no run, and asked";
  Welcomed(kMe, 3, /*run=*/1);
  const Message said[] = {Grant{}, HeartbeatReply{.to = kMe}, JobEnd{}, PushReply{}};
  for (const Message& message : said) {
    EXPECT_FALSE(is_foreign(message, 1)) << NameOf(message);
    for (const uint64_t run : {0, 2}) EXPECT_TRUE(is_foreign(message, run)) << NameOf(message);
  }
  RefusedAs(kMe);
  EXPECT_TRUE(is_foreign(JobEnd{}, 2)) << "another job's end says nothing of its own";
  EXPECT_FALSE(is_foreign(JobEnd{}, 1));
}

TEST_F(MemberSessionTest, ARefusalOfTheSameNumberInAnotherRunIsAnothers) {
  Welcomed(kMe, 3, /*run=*/1);
  const Refused other{.code = RefusalCode::kUnknown, .why = "it leads another run", .member = kMe, .run = 2};
  Receive(other);
  EXPECT_TRUE(session_.member());
  Refused for_good = other;
  for_good.for_good = true;
  Receive(for_good);
  EXPECT_FALSE(exit_.has_value());
  Receive(Refused{.code = RefusalCode::kNoSuchTask, .for_good = true, .why = "to a Join of before", .number = 0});
  EXPECT_FALSE(exit_.has_value());
}

// What is of no concern to it is no sign of life of its chief.
TEST_F(MemberSessionTest, OthersWordsDoNotKeepItWaiting) {
  Welcomed(kMe, 3, 1, JobText("20s"));
  ASSERT_TRUE(session_.ReadJob(effects_).has_value());
  for (int i = 0; i < 22; ++i) {
    Receive(Refused{.code = RefusalCode::kUnknown, .why = "late", .member = Incarnation{5}, .run = 1});
    Receive(AnswerTo(0, kMe, 3, 1));
    Pass(1s);
  }
  EXPECT_TRUE(exit_.has_value());
}

TEST_F(MemberSessionTest, OneWhosePlaceIsTakenAsksForAny) {
  Welcomed();
  RefusedAs(kMe);
  RefusedToJoin(RefusalCode::kNameTaken, false, "ps-4 is alive");
  Take<Join>();
  Pass(1s);
  EXPECT_EQ(Take<Join>().at(0).index, -1);
}

TEST_F(MemberSessionTest, AMemberDoesNotChangeItsIncarnation) {
  Welcomed();
  EXPECT_EQ(Welcomed(Incarnation{8}), News::kHandled);
  EXPECT_EQ(RefusedToJoin(RefusalCode::kNameTaken, false, "late"), News::kHandled);
  EXPECT_EQ(session_.incarnation(), kMe);
}

TEST_F(MemberSessionTest, ARefusalForGoodEndsIt) {
  RefusedToJoin(RefusalCode::kNoSuchTask, true, "the job has no ps-9");
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 1);
  EXPECT_EQ(exit_->why, "the job has no ps-9");
}

TEST_F(MemberSessionTest, ANameThatStaysTakenEndsIt) {
  for (int i = 0; i < 14; ++i) {
    RefusedToJoin(RefusalCode::kNameTaken, false, "ps-0 is alive");
    Pass(1s);
  }
  EXPECT_FALSE(exit_.has_value());
  EXPECT_EQ(logged_.back(), "the chief at h0:2222 does not take this task yet: ps-0 is alive");
  RefusedToJoin(RefusalCode::kNameTaken, false, "ps-0 is alive");
  Pass(2s);
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->why, "ps-0 is alive");
}

TEST_F(MemberSessionTest, ARefusalGoesWithTheChiefThatGaveIt) {
  RefusedToJoin(RefusalCode::kNameTaken, false, "ps-0 is alive");
  Pass(60s);
  EXPECT_FALSE(exit_.has_value()) << "the chief is away: nobody refuses";
  EXPECT_EQ(logged_.back(), "waiting for the chief at h0:2222");
  RefusedToJoin(RefusalCode::kNameTaken, false, "ps-0 is alive");
  Pass(4s);
  EXPECT_FALSE(exit_.has_value()) << "the next chief's first word";
}

TEST_F(MemberSessionTest, LogLinesGoWithHeartbeatsUntilTheChiefHasThem) {
  session_.Say(Severity::kWarning, "early", effects_);
  Welcomed();
  Pass(500ms);
  Heartbeat beat = Take<Heartbeat>()[0];
  EXPECT_EQ(beat.log_from, 0u);
  EXPECT_EQ(beat.log_lines,
            (std::vector<std::string>{"W 1970-01-01 00:00:00.000 early", "I 1970-01-01 00:00:00.000 joined as ps-4"}));
  Receive(HeartbeatReply{.log_kept = 1, .to = kMe});
  Pass(500ms);
  beat = Take<Heartbeat>()[0];
  EXPECT_EQ(beat.log_from, 1u);
  EXPECT_EQ(beat.log_lines, std::vector<std::string>{"I 1970-01-01 00:00:00.000 joined as ps-4"});
}

TEST_F(MemberSessionTest, KeepsABoundedNumberOfLinesAndTheirNumbers) {
  Welcomed();
  for (size_t i = 0; i < MemberSession::kLinesKept + 10; ++i) {
    session_.Say(Severity::kInfo, std::string(5000, 'x'), effects_);
  }
  Pass(500ms);
  const Heartbeat beat = Take<Heartbeat>()[0];
  EXPECT_EQ(beat.log_lines.size(), MemberSession::kLinesKept);
  EXPECT_EQ(beat.log_from, 11u);
  EXPECT_EQ(beat.log_lines[0].size(), MemberSession::kLineBytes + std::string("I 1970-01-01 00:00:00.000 ").size());
}

class QuietSessionTest : public MemberSessionTest {
 protected:
  static MemberOptions Quiet() {
    MemberOptions options = Options();
    options.forward_logs = false;
    return options;
  }
  QuietSessionTest() : MemberSessionTest(Quiet()) {}
};

TEST_F(QuietSessionTest, SendsNoLinesThatLieInTheJobFolderAlready) {
  Welcomed();
  Pass(500ms);
  EXPECT_TRUE(Take<Heartbeat>()[0].log_lines.empty());
  EXPECT_EQ(logged_, std::vector<std::string>{"joined as ps-4"});
}

TEST_F(MemberSessionTest, OthersBusinessIsNotTouched) {
  EXPECT_EQ(Receive(Assign{}), News::kNotMine);
  EXPECT_EQ(Receive(Grant{}), News::kNotMine);
}

}  // namespace
}  // namespace downpour
