// `downpour stop` of a job whose `downpour run` takes its time to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "cluster/job_folder.h"
#include "runtime/posix/process.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/tools/acting_buffer.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

// Whoever resumes the job as soon as `stop` has ended finds its folder free.
TEST(VerbStopTest, WaitsForTheRunThatHoldsTheFolderAndSaysSo) {
  const std::string dir = FreshFolder("verb_stop");
  UniqueFd lock = std::move(ClaimJobFolder(dir)).value();
  FakeChief chief([](const Message&) {
    return Encode(StatusReply{R"({"job": "small", "run": "a", "state": "CANCELLED", "chief": {"term": 3}})"});
  });
  PutFile(dir + "/chief.json",
          nlohmann::json{{"endpoint", chief.endpoint()}, {"host", HostName()}, {"term", 3}}.dump());
  bool waited = false;
  ActingBuffer buffer({{"waiting for `downpour run`, which still holds " + dir, [&] {
                          waited = true;
                          lock = UniqueFd();
                        }}});
  std::ostream err(&buffer);
  std::ostringstream out;
  EXPECT_EQ(RunTool(AllVerbs(), {"stop", "--job-dir", dir}, {out, err}), kExitDone) << buffer.str();
  EXPECT_TRUE(waited) << buffer.str();
  EXPECT_THAT(out.str(), HasSubstr("CANCELLED"));
}

}  // namespace
}  // namespace downpour
