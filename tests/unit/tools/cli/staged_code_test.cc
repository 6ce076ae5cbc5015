#include "tools/cli/staged_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cluster/job_folder.h"
#include "tests/unit/scratch_folder.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace {
bool can_exchange = true;
}

// In place of libc's: some file systems cannot swap two names at once.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (can_exchange) return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  errno = EINVAL;
  return -1;
}

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class StagedCodeTest : public testing::TestWithParam<bool> {
 protected:
  StagedCodeTest() { can_exchange = GetParam(); }
  ~StagedCodeTest() override { can_exchange = true; }

  // A start of the job with code of which this is a file.
  absl::StatusOr<std::string> Start(const std::string& initial, Accepted accepted = Accepted::kOnceAChiefLeads) {
    scratch_.Write("description.json", "{}");
    scratch_.Write("initial.safetensors", initial);
    return StagePythonCode(Payload::Zeros(3), SmallJob(), scratch_.path(), folder_.path(), accepted);
  }
  void Settle() { SettlePythonCode(folder_.path()); }
  void Lead(uint64_t term) {
    folder_.Write("chief.json", absl::StrCat(R"({"endpoint": "ipc:///a", "term": )", term, "}"));
  }
  // Accepted code is in the folder, and code that no chief has led with yet.
  void StartTwo() {
    ASSERT_TRUE(Start("first").ok());
    Lead(5);
    Settle();
    ASSERT_TRUE(Start("second").ok());
  }

  std::string Initial(const std::string& folder = "python") const {
    return ReadFile(folder_.path() + "/" + folder + "/initial.safetensors");
  }
  void Move(const std::string& from, const std::string& to) {
    fs::rename(folder_.path() + "/" + from, folder_.path() + "/" + to);
  }
  // All that lies in the job folder.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      names.push_back(entry.path().lexically_relative(folder_.path()));
    }
    return names;
  }
  static auto Whole() {
    return UnorderedElementsAre("chief.json", "python", "python/code.tar.gz", "python/description.json",
                                "python/initial.safetensors", "python/job.json");
  }

  const ScratchFolder folder_, scratch_;
};

TEST_P(StagedCodeTest, StaysOnceAChiefHasLedWithIt) {
  StartTwo();
  EXPECT_EQ(Initial(), "second");
  Lead(6);
  Settle();
  EXPECT_EQ(Initial(), "second");
  EXPECT_THAT(Names(), Whole());
}

TEST_P(StagedCodeTest, GivesWayToThatOfBeforeWhereNoChiefHasLed) {
  StartTwo();
  Settle();
  EXPECT_EQ(Initial(), "first");
  EXPECT_THAT(Names(), Whole());
}

TEST_P(StagedCodeTest, OfAFirstStartThatNoChiefHasLedNothingIsLeft) {
  ASSERT_TRUE(Start("first").ok());
  Settle();
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_P(StagedCodeTest, OfAStartThatWasKilledItIsNeverPutBack) {
  StartTwo();  // and killed
  ASSERT_TRUE(Start("third").ok());
  Settle();
  EXPECT_EQ(Initial(), "first");
  EXPECT_THAT(Names(), Whole());
}

TEST_P(StagedCodeTest, OfAStartThatWasKilledItStaysIfAChiefHasLed) {
  StartTwo();
  Lead(6);  // and killed
  ASSERT_TRUE(Start("third").ok());
  Settle();
  EXPECT_EQ(Initial(), "second");
  EXPECT_THAT(Names(), Whole());
}

TEST_P(StagedCodeTest, WhereItCannotBeWrittenThatOfBeforeStays) {
  StartTwo();
  Lead(6);
  Settle();
  fs::remove(scratch_.path() + "/initial.safetensors");
  const auto staged =
      StagePythonCode(Payload::Zeros(3), SmallJob(), scratch_.path(), folder_.path(), Accepted::kOnceAChiefLeads);
  EXPECT_EQ(staged.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Initial(), "second");
  EXPECT_THAT(Names(), Whole()) << "nothing half written is left";
}

TEST_P(StagedCodeTest, WhoeverStagesByHandHasAcceptedIt) {
  StartTwo();
  ASSERT_TRUE(Start("third", Accepted::kAtOnce).ok());
  Settle();
  EXPECT_EQ(Initial(), "third");
  EXPECT_THAT(Names(), Whole());
}

TEST_P(StagedCodeTest, AJobWithoutCodeIsNotTakenBack) {
  ASSERT_TRUE(Start("first").ok());  // and killed
  ASSERT_TRUE(StageJob(SmallJob(), folder_.path()).ok());
  Settle();
  EXPECT_THAT(Names(), UnorderedElementsAre("python", "python/job.json"));
}

// Three renames swap two folders where the file system cannot: killed after the first, or the second.
TEST_P(StagedCodeTest, KilledBetweenTwoRenamesThatOfBeforeStays) {
  StartTwo();
  Move("python", "python.tmp"), Move("python.new", "python.old"), Move("python.tmp", "python.new");
  Settle();
  EXPECT_EQ(Initial(), "first");
  EXPECT_THAT(Names(), Whole());

  ASSERT_TRUE(Start("third").ok());
  Move("python.new", "python.old");
  Settle();
  EXPECT_EQ(Initial(), "first");
  EXPECT_THAT(Names(), Whole());

  ASSERT_TRUE(Start("fourth").ok());  // put back: the fourth is aside, and what was accepted beside it
  Move("python", "python.old");
  Settle();
  EXPECT_EQ(Initial(), "first");
  EXPECT_THAT(Names(), Whole());
}

INSTANTIATE_TEST_SUITE_P(WhetherFoldersCanBeSwappedAtOnce, StagedCodeTest, testing::Bool());

TEST(VerbStageTest, AFolderThatARunHoldsIsLeftAlone) {
  const ScratchFolder folder;
  const std::string job_dir = folder.path() + "/job";
  const std::string file = folder.Write("job.yaml", CanonicalJob(SmallJob()));
  const absl::StatusOr<UniqueFd> claim = ClaimJobFolder(job_dir);
  ASSERT_TRUE(claim.ok());
  const ToolOutcome outcome = RunDownpour({"stage", file, "--job-dir", job_dir});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.err, HasSubstr("another downpour run is at work in "));
  EXPECT_FALSE(fs::exists(job_dir + "/python"));
}

}  // namespace
}  // namespace downpour
