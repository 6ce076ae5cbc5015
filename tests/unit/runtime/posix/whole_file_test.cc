#include "runtime/posix/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "tests/unit/runtime/zmq/test_keys.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PosixWholeFileTest : public testing::Test {
 protected:
  // No draft is left, either.
  void ExpectAlone(const std::string& text) const {
    EXPECT_EQ(ReadText(path_), text);
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()), 1);
  }

  TempDir dir_;
  const std::string path_ = dir_ / "file";
};

TEST_F(PosixWholeFileTest, IsMadeOrReplaced) {
  ASSERT_TRUE(WriteWhole(path_, "one", 0600, WhereThere::kRefuse).ok());
  ExpectAlone("one");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  WriteText(path_ + ".tmp", "of one that was killed amid it");
  ASSERT_TRUE(WriteWhole(path_, "two", 0600, WhereThere::kReplace).ok());
  ExpectAlone("two");
}

TEST_F(PosixWholeFileTest, IsNotReplacedUnlessAskedTo) {
  WriteText(path_, "one");
  const absl::Status status = WriteWhole(path_, "two", 0600, WhereThere::kRefuse);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + " is there already"));
  ExpectAlone("one");
}

TEST_F(PosixWholeFileTest, AFullDiskLeavesWhatIsThere) {
  WriteText(path_, "one");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few_bytes{2, before.rlim_max};
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few_bytes), 0);
  const absl::Status status = WriteWhole(path_, "two", 0600, WhereThere::kReplace);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + path_ + ": No space left on device"));
  ExpectAlone("one");
}

TEST_F(PosixWholeFileTest, NoLinkInTheDraftsPlaceIsFollowed) {
  WriteText(path_, "one");
  WriteText(dir_ / "elsewhere", "theirs");
  fs::create_symlink(dir_ / "elsewhere", path_ + ".tmp");
  ASSERT_TRUE(WriteWhole(path_, "two", 0600, WhereThere::kReplace).ok());
  EXPECT_EQ(ReadText(dir_ / "elsewhere"), "theirs");
  EXPECT_EQ(ReadText(path_), "two");
}

}  // namespace
}  // namespace downpour
