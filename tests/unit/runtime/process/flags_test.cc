#include "runtime/process/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"

ABSL_FLAG(std::string, test_chief_address, "", "an address");
ABSL_FLAG(int32_t, test_index, -1, "a number");
ABSL_FLAG(bool, test_resume, false, "a switch");
ABSL_FLAG(downpour::Settings, test_set, {}, "settings");

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FlagsTest : public testing::Test {
 protected:
  std::optional<int> Parse(const std::vector<const char*>& words) {
    std::vector<const char*> argv = {"downpour-test"};
    argv.insert(argv.end(), words.begin(), words.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const Usage usage = {"downpour-test", "tries flags.", "  downpour-test --test_index=3\n", "69 why"};
    const std::optional<int> exit_code = ParseFlags(static_cast<int>(argv.size()), argv.data(), usage);
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return exit_code;
  }

  std::string out_, err_;
  absl::FlagSaver saver_;
};

TEST_F(FlagsTest, BothSpellingsAndBothWaysToGiveAValue) {
  EXPECT_EQ(Parse({"--test-chief-address=h:1", "--test_index", "4", "--test_resume"}), std::nullopt);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_chief_address), "h:1");
  EXPECT_EQ(absl::GetFlag(FLAGS_test_index), 4);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_resume));
  EXPECT_EQ(Parse({"--notest-resume", "--test-index=-2"}), std::nullopt);
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_resume));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_index), -2);
  EXPECT_EQ(out_ + err_, "");
}

TEST_F(FlagsTest, SettingsGatherAndKeepCommasOfTheirValues) {
  EXPECT_EQ(Parse({"--test_set=training.epochs=3", "--test_set", "model.inputs=[{name: x, shape: [2, 3]}]",
                   "--test_set=name=a,b=c"}),
            std::nullopt);
  EXPECT_THAT(absl::GetFlag(FLAGS_test_set).items,
              ElementsAre("training.epochs=3", "model.inputs=[{name: x, shape: [2, 3]}]", "name=a,b=c"));
  EXPECT_EQ(Parse({"--test_set=epochs"}), 2);
  EXPECT_THAT(err_, HasSubstr("settings look like training.epochs=3"));
}

TEST_F(FlagsTest, AMistakeIsOneSentenceWithTheNearestName) {
  EXPECT_EQ(Parse({"--test_indx=3"}), 2);
  EXPECT_THAT(err_, HasSubstr("there is no flag --test_indx; did you mean test_index?"));
  EXPECT_EQ(Parse({"--test_index=three"}), 2);
  EXPECT_THAT(err_, HasSubstr("--test_index cannot be \"three\""));
  EXPECT_EQ(Parse({"--test_index"}), 2);
  EXPECT_THAT(err_, HasSubstr("--test_index needs a value"));
  for (const char* word : {"worker", "-h", "--", "-test_index=3"}) {
    EXPECT_EQ(Parse({word}), 2);
    EXPECT_THAT(err_, HasSubstr("is no flag"));
  }
  // A string is not switched off.
  EXPECT_EQ(Parse({"--notest_chief_address"}), 2);
}

TEST_F(FlagsTest, FilesAndTheEnvironmentAreNotRead) {
  for (const char* word :
       {"--flagfile=/etc/passwd", "--fromenv=test_index", "--tryfromenv=test_index", "--undefok=x"}) {
    EXPECT_EQ(Parse({word}), 2) << word;
  }
}

TEST_F(FlagsTest, HelpShowsExamplesBeforeFlags) {
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_LT(out_.find("downpour-test --test_index=3"), out_.find("--test_index  a number (default: -1)"));
  EXPECT_THAT(out_, HasSubstr("--test_index  a number (default: -1)"));
  EXPECT_THAT(out_, HasSubstr("78 bad job file, 69 why, 130 and 143"));
  EXPECT_EQ(Parse({"--version"}), 0);
  EXPECT_THAT(out_, HasSubstr("downpour-test "));
  EXPECT_EQ(err_, "");
}

}  // namespace
}  // namespace downpour
