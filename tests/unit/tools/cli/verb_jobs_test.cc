// What `jobs submit` refuses by itself, with the exit codes of `run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"
#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

class VerbJobsTest : public testing::Test {
 protected:
  ToolOutcome Submit(std::vector<std::string> words) const {
    const std::vector<std::string> verb = {"jobs",   "submit", "first", "--root", folder_.path() + "/jobs",
                                           "--file", job_};
    words.insert(words.begin(), verb.begin(), verb.end());
    return RunDownpour(words);
  }

  const ScratchFolder folder_;
  const std::string job_ = folder_.Write("job.yaml", CanonicalJob(SmallJob()));
};

TEST_F(VerbJobsTest, WordsThatNoModuleGetsAreAMistakeOfTheCommandLine) {
  const ToolOutcome outcome = Submit({"--", "--steps", "3"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.err, HasSubstr("--steps has no meaning here: what follows -- goes to the Python module"));
  EXPECT_EQ(RunDownpour({"run", job_, "--", "--steps", "3"}).code, outcome.code);
}

TEST_F(VerbJobsTest, AConfigThatIsNotThereIsNoGoodJobFile) {
  for (const std::vector<std::string>& more : {std::vector<std::string>(), {"--", "--steps", "3"}}) {
    std::vector<std::string> words = {"--config", folder_.path() + "/none.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolOutcome outcome = Submit(words);
    EXPECT_EQ(outcome.code, kExitBadJobFile);
    EXPECT_THAT(outcome.err, HasSubstr("none.yaml: cannot be read: No such file"));
    words.insert(words.begin(), {"run", job_});
    EXPECT_EQ(RunDownpour(words).code, kExitBadJobFile);
  }
}

}  // namespace
}  // namespace downpour
