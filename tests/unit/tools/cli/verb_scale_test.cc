// `downpour scale` of a job whose workers a `downpour run` of this host starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "cluster/job_folder.h"
#include "job/job_file.h"
#include "runtime/posix/process.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class VerbScaleTest : public ::testing::Test {
 protected:
  VerbScaleTest() {
    lock_ = std::move(ClaimJobFolder(dir_)).value();
    PutLocation(HostName());
    PutData(1000);
  }

  void PutLocation(const std::string& host) {
    PutFile(dir_ + "/chief.json", nlohmann::json{{"endpoint", chief_.endpoint()}, {"host", host}, {"term", 3}}.dump());
  }
  // How many examples each worker is to hold.
  void PutData(uint64_t train_examples) {
    JournalEntry entry{.number = 1, .record = {}, .costs = {}};
    entry.record.job = CanonicalJob(SmallJob());
    entry.record.data = {train_examples, 0, 77};
    PutFile(dir_ + "/journal.a", Sealed(EncodeEntry(entry)));
  }
  // Whether the chief heard of it.
  bool Reaches(int workers) {
    commands_ = 0;
    outcome_ = RunDownpour({"scale", "--workers", std::to_string(workers), "--job-dir", dir_});
    return commands_ > 0;
  }

  static constexpr uint64_t kMoreThanFits = uint64_t{1} << 50;
  const std::string dir_ = FreshFolder("verb_scale");
  UniqueFd lock_;
  std::atomic<int> commands_ = 0;
  ToolOutcome outcome_;
  FakeChief chief_{[this](const Message& said) {
    if (const auto* command = std::get_if<Control>(&said)) {
      ++commands_;
      return Encode(ControlReply{command->nonce, ControlVerdict::kAccepted, "as you like"});
    }
    return Encode(StatusReply{R"({"job": "small", "run": "a", "state": "RUNNING", "workers": {"wanted": 2},
                                  "chief": {"term": 3, "commands": 0}})"});
  }};
};

TEST_F(VerbScaleTest, NewWorkersNeedRoomOnTheHostOfTheirRun) {
  EXPECT_TRUE(Reaches(4)) << outcome_.err;
  PutData(kMoreThanFits);
  EXPECT_FALSE(Reaches(4));
  EXPECT_EQ(outcome_.code, kExitFailed);
  EXPECT_THAT(outcome_.err, HasSubstr("there is room for none more, not for 2. Start workers on other hosts"));
  EXPECT_TRUE(Reaches(1)) << "fewer need no room";
}

TEST_F(VerbScaleTest, WhatIsStartedElsewhereNeedsNoRoomHere) {
  PutData(kMoreThanFits);
  PutLocation("another-host");
  EXPECT_TRUE(Reaches(4)) << outcome_.err;
  PutLocation(HostName());
  EXPECT_FALSE(Reaches(4));
  lock_ = UniqueFd();
  EXPECT_TRUE(Reaches(4)) << "no `run` is there to start them: " << outcome_.err;
}

TEST(VerbScaleNumberTest, WhatIsNoNumberIsNamedWithWhatIsWanted) {
  const ToolOutcome outcome = RunDownpour({"scale", "--workers", "two", "--job-dir", "/nowhere"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("--workers: two is no whole number from 1 to "));
}

}  // namespace
}  // namespace downpour
