// How a member's life ends: with its job, or because it was told to stop.
#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "tests/unit/runtime/member_session_fixture.h"

namespace downpour {
namespace {

TEST_F(MemberSessionTest, ASignalEndsItWithACodeOfItsOwn) {
  Welcomed();
  session_.PrepareToLeave(now_, {2}, 22s, "all is done", effects_);
  session_.Depart("", effects_);
  Collect();
  EXPECT_EQ(exit_->code, 130);
  EXPECT_EQ(exit_->why, "ended by an interrupt (Ctrl-C, SIGINT)");
  EXPECT_EQ(Take<Leave>().size(), 1u);
}

TEST_F(MemberSessionTest, ANoticeIsNamedInItsPlace) {
  Welcomed();
  session_.PrepareToLeave(now_, {15, "a notice of the cloud"}, 22s, "all is done", effects_);
  session_.Depart("", effects_);
  Collect();
  EXPECT_EQ(exit_->code, 143);
  EXPECT_EQ(Take<Leave>().at(0).why, "ended by a notice of the cloud");
}

TEST_F(MemberSessionTest, OneThatJoinsAJobThatIsOverEndsWithIt) {
  Receive(JobEnd{true, "the job has succeeded"});
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 0);
  EXPECT_TRUE(Take<Leave>().empty()) << "nobody knows it";
}

TEST_F(MemberSessionTest, TheJobsEndIsAnsweredWithLeave) {
  Welcomed();
  Receive(JobEnd{true, "done"});
  EXPECT_EQ(Take<Leave>().size(), 1u);
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 0);
  EXPECT_TRUE(session_.ended());
}

TEST_F(MemberSessionTest, TheLastCountsGoBeforeTheGoodbye) {
  Welcomed();
  Pass(1s);
  sent_.clear();
  session_.stats().pushes_acknowledged = 77;
  Receive(JobEnd{true, "done"});
  ASSERT_EQ(sent_.size(), 2u);
  const auto* beat = std::get_if<Heartbeat>(&sent_[0]);
  ASSERT_NE(beat, nullptr);
  EXPECT_EQ(beat->stats.pushes_acknowledged, 77u);
  EXPECT_EQ(beat->placement, 5u);
  EXPECT_TRUE(std::holds_alternative<Leave>(sent_[1]));
}

TEST_F(MemberSessionTest, AFailedJobEndsItWithOne) {
  Welcomed();
  Receive(JobEnd{false, "ps-1 died"});
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 1);
  EXPECT_TRUE(exit_->as_told) << "it is the job's failure, not this process's";
}

// Whoever supervises it would start it again, for a job that somebody has stopped.
TEST_F(MemberSessionTest, ACancelledJobIsNoFailureOfItsMembers) {
  Welcomed();
  Receive(JobEnd{.why = "ended by downpour stop", .cancelled = true});
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 0);
  EXPECT_EQ(exit_->why, "ended by downpour stop");
  EXPECT_TRUE(exit_->as_told);
}

TEST_F(MemberSessionTest, ToldToStopItSaysSoAtOnceAndWithEachHeartbeatToWhicheverChief) {
  Welcomed();
  Pass(100ms);
  EXPECT_EQ(Take<Heartbeat>().at(0).leaving, "");
  session_.PrepareToLeave(now_, StopRequested{SIGTERM}, 22s, "all is done", effects_);
  Pass(100ms);
  EXPECT_EQ(Take<Heartbeat>().at(0).leaving, "SIGTERM");
  EXPECT_EQ(logged_.back(), "SIGTERM: leaves once all is done");
  session_.PrepareToLeave(now_, StopRequested{SIGINT}, 99s, "more is done", effects_);
  EXPECT_EQ(logged_.back(), "SIGTERM: leaves once all is done") << "the first word counts";
  EXPECT_EQ(session_.leave_by(), Time(22100ms));
  RefusedAs(kMe, "another chief");
  Welcomed(Incarnation{8}, 4);
  Pass(1s);
  const std::vector<Heartbeat> beats = Take<Heartbeat>();
  ASSERT_EQ(beats.size(), 2u);
  for (const Heartbeat& beat : beats) EXPECT_EQ(beat.leaving, "SIGTERM");
  EXPECT_FALSE(exit_.has_value()) << "when to leave is its owner's to decide";
}

TEST_F(MemberSessionTest, ItsChiefsLeaveCountsOnceItWasToldToStop) {
  Welcomed();
  Receive(HeartbeatReply{.may_leave = true, .to = kMe});
  session_.PrepareToLeave(now_, StopRequested{SIGTERM}, 22s, "all is done", effects_);
  EXPECT_FALSE(session_.may_leave());
  Receive(HeartbeatReply{.may_leave = true, .to = kMe});
  Receive(HeartbeatReply{.to = kMe});
  EXPECT_TRUE(session_.may_leave()) << "an older reply takes nothing back";
  session_.Depart("; all is done", effects_);
  Collect();
  EXPECT_EQ(Take<Leave>().at(0).why, "ended by SIGTERM; all is done");
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 143);
}

TEST_F(MemberSessionTest, ToldToStopItEndsSoWithACancelledJobToo) {
  Welcomed();
  session_.PrepareToLeave(now_, StopRequested{SIGINT}, 22s, "all is done", effects_);
  Receive(JobEnd{.why = "ended by SIGTERM", .cancelled = true});
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 130);
}

TEST_F(MemberSessionTest, ToldToStopAsTheJobSucceedsItHasSucceeded) {
  Welcomed();
  session_.PrepareToLeave(now_, StopRequested{SIGTERM}, 22s, "all is done", effects_);
  Receive(JobEnd{true, "the job has succeeded"});
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 0);
}

TEST_F(MemberSessionTest, WhoeverTheJobDoesWithoutLeavesAsOneForWhomAllIsWell) {
  Welcomed();
  const HeartbeatReply retired{.retired = true, .to = kMe};
  EXPECT_EQ(Receive(HeartbeatReply{.to = kMe}), News::kHandled);
  EXPECT_EQ(Receive(retired), News::kRetired);
  session_.PrepareToLeave(now_, {.signal = 0, .notice = "scaling"}, 20s, "all is done", effects_);
  EXPECT_EQ(Receive(retired), News::kHandled) << "it knows";
  session_.Depart("", effects_);
  Collect();
  EXPECT_EQ(Take<Leave>().at(0).why, "ended by scaling");
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 0);
}

// Its place was given away and it has got another one, or the chief was started again, while a reply was on its way.
TEST_F(MemberSessionTest, WhatWasSaidToTheLifeBeforeLetsThisOneNotGo) {
  Welcomed();
  RefusedAs(kMe);
  Welcomed(Incarnation{8});
  const uint64_t rejected = session_.stats().messages_rejected;
  EXPECT_EQ(Receive(HeartbeatReply{.retired = true, .to = kMe}), News::kHandled);
  session_.PrepareToLeave(now_, StopRequested{SIGTERM}, 22s, "all is done", effects_);
  Receive(HeartbeatReply{.may_leave = true, .to = kMe});
  EXPECT_FALSE(session_.may_leave());
  EXPECT_EQ(session_.stats().messages_rejected, rejected + 2);
  Receive(HeartbeatReply{.may_leave = true, .to = Incarnation{8}});
  EXPECT_TRUE(session_.may_leave());
}

TEST_F(MemberSessionTest, WhoeverTheJobDoesWithoutMayHearSoOfALaterChief) {
  Welcomed();
  session_.PrepareToLeave(now_, {.signal = 0, .notice = "scaling"}, 20s, "all is done", effects_);
  RefusedAs(kMe, "another chief");
  RefusedToJoin(RefusalCode::kNoSuchTask, true, "there is no worker-3");
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 0);
}

class WorkerSessionTest : public MemberSessionTest {
 protected:
  WorkerSessionTest() : MemberSessionTest(Options(), TaskRole::kWorker) {}
  // The chief that scaled the job died before it could say so.
  int CodeOfNoSuchTask(uint64_t run) {
    Welcomed();
    RefusedAs(kMe, "another chief");
    Receive(Refused{
        .code = RefusalCode::kNoSuchTask, .for_good = true, .why = "no place", .run = run, .number = last_join_});
    return exit_.has_value() ? exit_->code : -1;
  }
};

TEST_F(WorkerSessionTest, OneForWhomALaterChiefOfItsRunHasNoPlaceIsRetired) { EXPECT_EQ(CodeOfNoSuchTask(1), 0); }

TEST_F(WorkerSessionTest, AnotherRunsJobSaysNothingOfItsOwn) { EXPECT_EQ(CodeOfNoSuchTask(2), 1); }

TEST_F(MemberSessionTest, AServerIsNotRetired) {
  Welcomed();
  RefusedAs(kMe, "another chief");
  Receive(
      Refused{.code = RefusalCode::kNoSuchTask, .for_good = true, .why = "no place", .run = 1, .number = last_join_});
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 1);
}

TEST_F(MemberSessionTest, OneThatComesTooLateEndsWithTheJob) {
  Receive(JobEnd{true, "done"});
  ASSERT_TRUE(exit_.has_value());
  EXPECT_EQ(exit_->code, 0);
}

}  // namespace
}  // namespace downpour
