#include "cluster/job_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/cluster/fake_chief.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

// A chief of some term that has obeyed some commands, and answers them as it is told to.
class JobCommandTest : public ::testing::Test {
 protected:
  using Judge = std::function<std::vector<Payload>(const Control&)>;
  absl::StatusOr<CommandOutcome> Command(Judge judge) {
    FakeChief chief([&](const Message& said) {
      if (const auto* command = std::get_if<Control>(&said)) {
        heard.push_back(*command);
        return judge(*command);
      }
      return Encode(StatusReply{absl::StrCat(R"({"state": ")", state, R"(", "chief": {"term": )", term,
                                             R"(, "commands": )", commands, "}}")});
    });
    StatusAsker asker({.chief = chief.endpoint(), .job_dir = ""});
    return CommandJob(asker, ControlKind::kScale, 6);
  }
  static std::vector<Payload> Reply(const Control& command, ControlVerdict verdict, const std::string& why) {
    return Encode(ControlReply{command.nonce, verdict, why});
  }
  std::string state = "RUNNING";
  std::string term = "3";
  std::string commands = "4";
  std::vector<Control> heard;
};

TEST_F(JobCommandTest, ACommandIsNamedByWhatTheStatusSays) {
  const auto done = Command([](const Control& command) { return Reply(command, ControlVerdict::kAccepted, "done"); });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->words, "done");
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].term, 3u);
  EXPECT_EQ(heard[0].number, 5u);
  EXPECT_EQ(heard[0].workers, 6u);
  EXPECT_EQ(heard[0].kind, ControlKind::kScale);
}

TEST_F(JobCommandTest, WhereAnotherChiefOrCommandCameBetweenItIsSaidAnew) {
  const auto done = Command([this](const Control& command) {
    if (command.term == 4) return Reply(command, ControlVerdict::kAccepted, "done");
    term = "4";
    commands = "0";
    return Reply(command, ControlVerdict::kOutdated, "another chief leads now");
  });
  ASSERT_TRUE(done.ok()) << done.status();
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[1].number, 1u);
}

TEST_F(JobCommandTest, AnAnswerThatIsLostIsAskedForAgain) {
  int said = 0;
  const auto done = Command([&](const Control& command) {
    return ++said == 1 ? std::vector<Payload>() : Reply(command, ControlVerdict::kAccepted, "done");
  });
  ASSERT_TRUE(done.ok()) << done.status();
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].nonce, heard[1].nonce) << "a copy of the same";
}

TEST_F(JobCommandTest, AnotherToolsAnswerIsNotOurs) {
  int said = 0;
  const auto done = Command([&](const Control& command) {
    const ControlReply other = {command.nonce + 1, ControlVerdict::kAccepted, "another's"};
    return ++said == 1 ? Encode(other) : Reply(command, ControlVerdict::kAccepted, "ours");
  });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->words, "ours");
}

TEST_F(JobCommandTest, ARefusalIsFinal) {
  const auto done = Command([](const Control& command) { return Reply(command, ControlVerdict::kRefused, "no"); });
  EXPECT_EQ(done.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("the chief refuses: no"));
  EXPECT_EQ(heard.size(), 1u);
}

TEST_F(JobCommandTest, AJobThatIsOverIsToldNothing) {
  state = "SUCCEEDED";
  const auto done = Command([](const Control&) { return std::vector<Payload>(); });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_TRUE(done->was_over);
  EXPECT_TRUE(heard.empty());
}

TEST_F(JobCommandTest, AJobThatEndsMeanwhileIsOver) {
  const auto done = Command([this](const Control& command) {
    state = "CANCELLED";
    return Reply(command, ControlVerdict::kRefused, "the job is over");
  });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_TRUE(done->was_over);
  EXPECT_EQ(done->before.status->state, "CANCELLED");
}

TEST_F(JobCommandTest, AChiefOfAnEarlierReleaseIsNotAskedForWhatItDoesNotKnow) {
  commands = "null";
  const auto done = Command([](const Control&) { return std::vector<Payload>(); });
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("it is of an earlier release"));
}

TEST_F(JobCommandTest, NumbersThatCannotBeDoNoHarm) {
  term = "1e300";
  commands = "-7";
  const auto done = Command([](const Control& command) { return Reply(command, ControlVerdict::kRefused, "no"); });
  EXPECT_FALSE(done.ok());
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].term, UINT32_MAX);
  EXPECT_EQ(heard[0].number, 1u);
}

}  // namespace
}  // namespace downpour
