// What `run` refuses before it starts anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/scratch_folder.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

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

TEST(VerbRunTest, WhatCheckWarnsOfIsToldBeforeItStarts) {
  const ScratchFolder folder;
  const std::string job = folder.Write("job.yaml", CanonicalJob(SmallJob()));
  const std::vector<std::string> settings = {"--set", "cluster.parameterServerCount=900"};
  const auto warnings = [&](const std::string& verb, const std::vector<std::string>& more) {
    std::vector<std::string> words = {verb, job};
    words.insert(words.end(), settings.begin(), settings.end());
    words.insert(words.end(), more.begin(), more.end());
    const std::string said = RunDownpour(words).err;
    const size_t at = said.find("warning: ");
    return at == std::string::npos ? said : said.substr(at, said.find('\n', at) - at);
  };
  EXPECT_THAT(warnings("check", {}), HasSubstr("would hold nothing"));
  EXPECT_EQ(warnings("run", {"--job-dir", folder.path() + "/job", "--resume"}), warnings("check", {}));
}

}  // namespace
}  // namespace downpour
