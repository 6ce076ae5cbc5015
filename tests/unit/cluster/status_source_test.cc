#include "cluster/status_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "runtime/exit_code.h"
#include "runtime/posix/process.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/scratch_folder.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kSummary = R"({"job": "j", "state": "SUCCEEDED", "term": 3})";

class StatusSourceTest : public ::testing::Test {
 protected:
  StatusSource Folder() const { return {.chief = "", .job_dir = folder_.path()}; }
  void WriteChiefJson(const std::string& endpoint, int pid, int term = 3) {
    folder_.Write("chief.json",
                  absl::StrCat(R"({"endpoint": ")", endpoint, R"(", "pid": )", pid, R"(, "term": )", term, "}"));
  }
  ScratchFolder folder_;
};

TEST_F(StatusSourceTest, AFolderKnowsItsChief) {
  FakeChief chief([] { return Encode(StatusReply{R"({"state": "RUNNING", "chief": {"pid": 7}})"}); });
  WriteChiefJson(chief.endpoint(), 7);
  const auto answer = StatusAsker(Folder()).Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status->state, "RUNNING");
  EXPECT_FALSE(answer->summary.has_value());
}

// At a port of its own a chief that is started again has another secret than the one before.
TEST_F(StatusSourceTest, AFolderTellsItsChiefsSecretWhicheverItIsNow) {
  FakeChief chief([] { return Encode(StatusReply{R"({"state": "RUNNING", "chief": {"pid": 7}})"}); });
  const auto tell = [&](const std::string& secret) {
    folder_.Write("chief.json",
                  absl::StrCat(R"({"endpoint": ")", chief.endpoint(), R"(", "pid": 7, "secret": ")", secret, R"("})"));
  };
  StatusAsker asker(Folder());
  for (const std::string secret : {"0123", "4567"}) {
    tell(secret);
    ASSERT_TRUE(asker.Ask().ok());
    EXPECT_EQ(chief.last_request().secret, secret);
  }
}

TEST_F(StatusSourceTest, AnAddressAloneIsNotEnoughForAChiefWithoutKeys) {
  FakeChief chief([] { return Encode(Refused{.code = RefusalCode::kSecretWanted, .why = "it wants its secret"}); });
  const absl::Status status = StatusAsker({.chief = chief.endpoint(), .job_dir = ""}).Ask().status();
  EXPECT_EQ(ExitCodeOf(status), kExitUnreachable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Give --job-dir DIR"));
}

TEST_F(StatusSourceTest, AChiefThatWantsAnotherSecretIsNotTheFolders) {
  FakeChief chief([] { return Encode(Refused{.code = RefusalCode::kSecretWanted, .why = "it wants its secret"}); });
  WriteChiefJson(chief.endpoint(), 7);
  const absl::Status status = StatusAsker(Folder()).Ask().status();
  EXPECT_EQ(ExitCodeOf(status), kExitUnreachable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is another chief, of this job or another one"));
}

TEST_F(StatusSourceTest, AnotherJobsChiefAtTheSamePortIsNotBelieved) {
  FakeChief chief([] { return Encode(StatusReply{R"({"job": "other", "state": "RUNNING", "chief": {"pid": 8}})"}); });
  WriteChiefJson(chief.endpoint(), 7);
  const absl::Status status = StatusAsker(Folder()).Ask().status();
  EXPECT_EQ(ExitCodeOf(status), kExitUnreachable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the chief of another job, other"));
}

TEST_F(StatusSourceTest, AChiefThatIsBackIsBelievedThoughItHasNotNamedItselfYet) {
  FakeChief chief([&] {
    return Encode(StatusReply{absl::StrCat(R"({"state": "RUNNING", "chief": {"pid": 8, "host": ")", HostName(),
                                           R"(", "jobDir": ")", folder_.path(), R"("}})")});
  });
  WriteChiefJson(chief.endpoint(), 7);
  EXPECT_TRUE(StatusAsker(Folder()).Ask().ok());
}

TEST_F(StatusSourceTest, ARunIsGivenTimeToStartItsChiefAgain) {
  const auto claim = ClaimJobFolder(folder_.path());
  ASSERT_TRUE(claim.ok()) << claim.status();
  FakeChief back([] { return Encode(StatusReply{R"({"state": "RUNNING", "chief": {"pid": 9}})"}); });
  FakeChief before([&] {
    WriteChiefJson(back.endpoint(), 9);
    return Encode(StatusReply{R"({"job": "other", "state": "RUNNING", "chief": {"pid": 8}})"});
  });
  WriteChiefJson(before.endpoint(), 7);
  const auto answer = StatusAsker(Folder()).Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status->chief.pid, 9);
}

TEST_F(StatusSourceTest, TheSummaryOfAnotherRunIsNotItsOwn) {
  auto chief = std::make_unique<FakeChief>(
      [&] { return Encode(StatusReply{R"({"job": "j", "run": "a", "state": "RUNNING", "chief": {"pid": 7}})"}); });
  WriteChiefJson(chief->endpoint(), 7);
  StatusAsker asker(Folder());
  ASSERT_TRUE(asker.Ask().ok());
  chief.reset();
  folder_.Write("summary.json", R"({"job": "j", "run": "b", "state": "SUCCEEDED", "term": 3})");
  EXPECT_THAT(std::string(asker.Ask().status().message()), HasSubstr("is of another run now, of the job j"));
  folder_.Write("summary.json", R"({"job": "j", "run": "a", "state": "SUCCEEDED", "term": 3})");
  EXPECT_TRUE(asker.Ask().ok());
}

TEST_F(StatusSourceTest, AChiefThatHasGoneLeftItsSummary) {
  WriteChiefJson("127.0.0.1:1", 7);
  folder_.Write("summary.json", kSummary);
  const auto answer = StatusAsker(Folder()).Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->json, kSummary);
  EXPECT_EQ(answer->summary->state, "SUCCEEDED");
}

TEST_F(StatusSourceTest, ASummaryCannotDriveATerminalAsJsonEither) {
  WriteChiefJson("127.0.0.1:1", 7);
  folder_.Write("summary.json", "{\"state\": \"SUCCEEDED\",\n \"term\": 3, \"job\": \"\xc2\x9b[2J\x7f\"}");
  EXPECT_EQ(StatusAsker(Folder()).Ask()->json, "{\"state\": \"SUCCEEDED\",\n \"term\": 3, \"job\": \"??[2J?\"}");
}

TEST_F(StatusSourceTest, TheSummaryOfAnEarlierChiefIsNotThatOfAKilledOne) {
  WriteChiefJson("127.0.0.1:1", 7, /*term=*/4);
  folder_.Write("summary.json", kSummary);
  EXPECT_EQ(ExitCodeOf(StatusAsker(Folder()).Ask().status()), kExitUnreachable);
}

TEST_F(StatusSourceTest, AKilledChiefsFolderTellsHowToGoOn) {
  const auto said = [&](const std::string& host) {
    folder_.Write("chief.json", absl::StrCat(R"({"endpoint": "127.0.0.1:1", "pid": 7, "term": 4, "host": ")", host,
                                             R"(", "command": "downpour run j.yaml"})"));
    const absl::Status status = StatusAsker(Folder()).Ask().status();
    EXPECT_EQ(ExitCodeOf(status), kExitUnreachable);
    return std::string(status.message());
  };
  EXPECT_THAT(said(HostName()),
              AllOf(HasSubstr(absl::StrCat("process 7 on ", HostName(), ", term 4) has gone")),
                    HasSubstr("There is no checkpoint yet: start it again with downpour run j.yaml")));
  Manifest manifest;
  manifest.round = {1, 2};
  manifest.committed.InsertRange(0, 5);
  folder_.Write(ManifestPath(manifest.round), EncodeManifest(manifest));
  folder_.Write(ManifestPath({1, 3}), "damaged");
  EXPECT_THAT(said(HostName()), HasSubstr("The last checkpoint is checkpoints/1-2 with 5 leases: go on from it with "
                                          "downpour run j.yaml --resume"));
  EXPECT_THAT(said("elsewhere"), AllOf(HasSubstr("cannot reach the chief at 127.0.0.1:1"),
                                       HasSubstr("/chief.json names process 7 on elsewhere")))
      << "where it may live";
}

TEST_F(StatusSourceTest, AWatcherWhoHeardOfTheFolderFindsTheSummaryThere) {
  const std::string json = absl::StrCat(R"({"state": "RUNNING", "chief": {"host": ")", HostName(), R"(", "jobDir": ")",
                                        folder_.path(), R"("}})");
  auto chief = std::make_unique<FakeChief>([&] { return Encode(StatusReply{json}); });
  StatusAsker asker({.chief = chief->endpoint(), .job_dir = ""});
  ASSERT_TRUE(asker.Ask().ok());
  chief.reset();
  EXPECT_EQ(ExitCodeOf(asker.Ask().status()), kExitUnreachable);
  WriteChiefJson("127.0.0.1:1", 7);
  folder_.Write("summary.json", kSummary);
  const auto answer = asker.Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->summary.has_value());
}

std::vector<Payload> StateOf(const std::string& state, int exit_code) {
  return Encode(StatusReply{
      absl::StrCat(R"({"state": ")", state, R"(", "exitCode": )", exit_code, R"(, "chief": {"host": "elsewhere"}})")});
}

// The pause outlasts the test: only the chief's word ends it.
TEST_F(StatusSourceTest, AWatcherHearsTheEndUnaskedAndTakesLeave) {
  FakeChief chief([] { return StateOf("RUNNING", 0); });
  {
    StatusAsker asker({.chief = chief.endpoint(), .job_dir = ""}, /*again_in=*/std::chrono::hours(1));
    const auto before = asker.Ask();
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_TRUE(before->is_elsewhere);
    EXPECT_EQ(chief.last_request().again_in_ms, 3'600'000u);
    chief.Say(StateOf("SUCCEEDED", 0));
    asker.Pause();
    EXPECT_FALSE(chief.last_request().knows_end);
  }
  FakeChief over([] { return StateOf("CANCELLED", 124); });
  {
    StatusAsker asker({.chief = over.endpoint(), .job_dir = ""}, /*again_in=*/1s);
    const auto end = asker.Ask();
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(ExitCodeOfEnd(end->status->state, end->status->exit_code), kExitOutOfTime);
  }
  while (!over.last_request().knows_end) poll(nullptr, 0, /*milliseconds=*/1);
}

TEST_F(StatusSourceTest, WhatTheChiefSaidBeforeItWentIsTheAnswer) {
  auto chief = std::make_unique<FakeChief>([] { return StateOf("RUNNING", 0); });
  StatusAsker asker({.chief = chief->endpoint(), .job_dir = ""}, /*again_in=*/std::chrono::hours(1));
  ASSERT_TRUE(asker.Ask().ok());
  chief->Say(StateOf("SUCCEEDED", 0));
  asker.Pause();
  chief.reset();
  const auto end = asker.Ask();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->status->state, "SUCCEEDED");
}

TEST_F(StatusSourceTest, TheExitCodeOfAnEndIsThatOfTheJob) {
  EXPECT_EQ(ExitCodeOfEnd("SUCCEEDED", std::nullopt), kExitDone);
  EXPECT_EQ(ExitCodeOfEnd("FAILED", 78), kExitFailed);
  EXPECT_EQ(ExitCodeOfEnd("CANCELLED", 143), kExitFailed);
  EXPECT_EQ(ExitCodeOfEnd("CANCELLED", 124), kExitOutOfTime);
}

TEST_F(StatusSourceTest, AFolderWithoutAChiefIsUnreachable) {
  const absl::Status status = StatusAsker(Folder()).Ask().status();
  EXPECT_EQ(ExitCodeOf(status), kExitUnreachable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("chief.json"));
}

TEST_F(StatusSourceTest, WhatIsNoAddressIsABadCommandLine) {
  EXPECT_EQ(ExitCodeOf(StatusAsker({.chief = "nonsense", .job_dir = ""}).Ask().status()), kExitBadCommandLine);
}

TEST_F(StatusSourceTest, WhatChiefAndFolderSayIsNotTheCommandLinesFault) {
  for (const char* text : {"[]", R"({"endpoint": "nonsense"})"}) {
    folder_.Write("chief.json", text);
    const absl::Status status = StatusAsker(Folder()).Ask().status();
    EXPECT_EQ(ExitCodeOf(status), kExitFailed) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_.path()));
  }
  FakeChief chief([] { return Encode(StatusReply{"{"}); });
  const absl::Status status = StatusAsker({.chief = chief.endpoint(), .job_dir = ""}).Ask().status();
  EXPECT_EQ(ExitCodeOf(status), kExitFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr(chief.endpoint()));
}

// Before the first chief of the folder has said where it listens.
TEST_F(StatusSourceTest, ARunThatStartsIsSaidToStart) {
  EXPECT_THAT(std::string(StatusAsker(Folder()).Ask().status().message()), HasSubstr("no chief has listened for "));
  const absl::StatusOr<UniqueFd> run = ClaimJobFolder(folder_.path());
  ASSERT_TRUE(run.ok());
  const absl::Status status = StatusAsker(Folder()).Ask().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is being started, and its chief has not said yet where"));
  SayInJobFolder(*run, "its code runs");
  EXPECT_THAT(std::string(StatusAsker(Folder()).Ask().status().message()), HasSubstr("being started: its code runs"));
}

}  // namespace
}  // namespace downpour
