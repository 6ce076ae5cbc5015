// What `run` refuses before it starts anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"
#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

TEST(VerbRunTest, AnAddressThatIsNoneIsRefusedBeforeTheCodeIsRun) {
  const ScratchFolder folder;
  const std::string job = folder.Write("job.yaml", CanonicalJob(SmallJob()));
  const ToolOutcome outcome = RunDownpour({"run", job, "--job-dir", folder.path() + "/job", "--listen", "nowhere",
                                           "--module-name", "a.module", "--python", "/no/python"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("nowhere"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/job"));
}

}  // namespace
}  // namespace downpour
