#include "runtime/zmq/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/runtime/zmq/test_keys.h"

namespace downpour {
namespace {

using testing::HasSubstr;

constexpr Incarnation kFirst{(uint64_t{1} << 32) + 1}, kSecond{(uint64_t{1} << 32) + 2};

class ZmqAuthenticatorTest : public testing::Test {
 protected:
  ZmqAuthenticatorTest() : of_worker_(keys_.worker.own.public_key) {
    // A worker with a pair of its own, beside that of the others.
    EXPECT_TRUE(RenewKeys(keys_.folder, PeerRole::kWorker).ok());
    of_other_ = LoadKeys(keys_.folder, PeerRole::kWorker)->own.public_key;
    OpenAs(PeerRole::kChief);
  }
  void OpenAs(PeerRole role) {
    authenticator_.reset();
    context_ = ZmqContext::Create(1).value();  // there is one door to each
    authenticator_ = ZmqAuthenticator::Open(context_, LoadKeys(keys_.folder, role).value()).value();
  }
  void Reread() { authenticator_->LetIn(LoadKeysAgain(keys_.folder, authenticator_->keys()).value()); }
  std::string Judged(const std::string& key, const Message& message, uint64_t run = 0) {
    return std::string(authenticator_->Validate(key, message, run).message());
  }

  const TestKeys keys_;
  const std::string of_worker_;
  std::string of_other_;
  ZmqContext context_ = ZmqContext::Create(1).value();
  std::unique_ptr<ZmqAuthenticator> authenticator_;
};

TEST_F(ZmqAuthenticatorTest, AKeySpeaksAsTheIncarnationThatWasGivenToIt) {
  EXPECT_EQ(Judged(of_worker_, JoinOf(TaskRole::kWorker)), "");
  authenticator_->NoteAnswer(of_worker_, WelcomeAs(kFirst));
  EXPECT_EQ(Judged(of_worker_, BeatOf(kFirst)), "");
  EXPECT_THAT(Judged(of_other_, BeatOf(kFirst)),
              HasSubstr("it says Heartbeat as incarnation 4294967297, which has another key"));
  EXPECT_THAT(Judged(of_other_, Leave{kFirst, ""}), HasSubstr("has another key"));
  authenticator_->NoteAnswer(of_other_, WelcomeAs(kFirst));  // the same word again, to another: changes nothing
  EXPECT_EQ(Judged(of_worker_, Leave{kFirst, ""}), "");
}

TEST_F(ZmqAuthenticatorTest, WhatAChiefHasGivenToNobodyCannotBeTakenBeforeItIsGiven) {
  EXPECT_EQ(Judged(of_other_, BeatOf(kFirst)), "");  // the role knows no such member
  authenticator_->NoteAnswer(of_worker_, WelcomeAs(kFirst));
  EXPECT_EQ(Judged(of_worker_, BeatOf(kFirst)), "");
  EXPECT_THAT(Judged(of_other_, BeatOf(kFirst)), HasSubstr("has another key"));
}

TEST_F(ZmqAuthenticatorTest, WhereNoneAreGivenOutTheFirstToSpeakHasIt) {
  OpenAs(PeerRole::kPs);
  EXPECT_EQ(Judged(of_other_, Leave{kSecond, ""}), "");
  EXPECT_THAT(Judged(of_worker_, Leave{kSecond, ""}), HasSubstr("has another key"));
  EXPECT_EQ(Judged(of_other_, Leave{kSecond, ""}), "");
}

// A ps that outlives a run meets the next one's workers under the same numbers.
TEST_F(ZmqAuthenticatorTest, AnIncarnationOfAnotherRunIsAnothers) {
  OpenAs(PeerRole::kPs);
  EXPECT_EQ(Judged(of_worker_, Leave{kFirst, ""}, 1), "");
  EXPECT_EQ(Judged(of_other_, Leave{kFirst, ""}, 2), "");
  EXPECT_THAT(Judged(of_other_, Leave{kFirst, ""}, 1), HasSubstr("has another key"));
  OpenAs(PeerRole::kChief);
  Welcome welcome = WelcomeAs(kFirst);
  welcome.run = 2;
  authenticator_->NoteAnswer(of_worker_, welcome);
  EXPECT_THAT(Judged(of_other_, BeatOf(kFirst), 2), HasSubstr("has another key"));
  EXPECT_EQ(Judged(of_other_, BeatOf(kFirst), 1), "") << "the role refuses it";
}

TEST_F(ZmqAuthenticatorTest, WhoSpeaksAsManyMakesNobodyElseForgotten) {
  OpenAs(PeerRole::kPs);
  EXPECT_EQ(Judged(of_worker_, Leave{kFirst, ""}), "");
  for (uint64_t i = 1; i <= ZmqAuthenticator::kMaxBound; ++i) {
    ASSERT_EQ(Judged(of_other_, Leave{Incarnation{ToNumber(kFirst) + i}, ""}), "");
  }
  EXPECT_THAT(Judged(of_other_, Leave{kFirst, ""}), HasSubstr("has another key"));
}

TEST_F(ZmqAuthenticatorTest, ARoleSaysWhatItMay) {
  EXPECT_THAT(Judged(of_worker_, SliceReport{kFirst, {}}), HasSubstr("its key is a worker's"));
  EXPECT_THAT(Judged(MakeCurvePair().public_key, Leave{kFirst, ""}), HasSubstr("nobody's"));
}

TEST_F(ZmqAuthenticatorTest, AKeyThatIsTakenOutOfTheFolderIsNobodys) {
  const std::string path = keys_.folder + "/worker.public";
  const std::string both = ReadText(path);
  Reread();
  EXPECT_EQ(authenticator_->RoleOf(of_worker_), PeerRole::kWorker);
  WriteText(path, both.substr(0, both.find("public " + of_worker_)));
  Reread();
  EXPECT_EQ(authenticator_->RoleOf(of_worker_), std::nullopt);
  EXPECT_EQ(authenticator_->RoleOf(of_other_), PeerRole::kWorker);
  WriteText(path, both);
  Reread();
  EXPECT_EQ(authenticator_->RoleOf(of_worker_), PeerRole::kWorker);
}

TEST_F(ZmqAuthenticatorTest, WhosePairWasRenewedGoesOnAsWhoItWas) {
  authenticator_->NoteAnswer(of_worker_, WelcomeAs(kFirst));
  EXPECT_THAT(Judged(of_other_, BeatOf(kFirst)), HasSubstr("has another key"));
  const std::string path = keys_.folder + "/worker.public";
  const std::string both = ReadText(path);
  WriteText(path, both.substr(0, both.find("public " + of_worker_)));
  Reread();
  EXPECT_EQ(Judged(of_other_, BeatOf(kFirst)), "");
  WriteText(path, both);
  Reread();
  EXPECT_THAT(Judged(of_worker_, BeatOf(kFirst)), HasSubstr("has another key"));
}

}  // namespace
}  // namespace downpour
