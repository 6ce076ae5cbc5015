#include "service/ssh_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

Job In(const std::string& name, JobState state = JobState::kQueued) { return {.name = name, .state = state}; }

TEST(SshBackendTest, OneJobAtATimeHasTheHosts) {
  SshBackend backend({});
  Job tuning = In("tuned");
  tuning.training_input = R"({"hyperparameters": {}})";
  const Turns turns = backend.Queue({In("a"), In("b"), tuning});
  EXPECT_THAT(turns.admitted, ElementsAre("a", "tuned"));
  EXPECT_EQ(turns.waits.at("b"), "waits for the hosts, which a has before it");
  for (const JobState state : {JobState::kPreparing, JobState::kRunning, JobState::kCancelling}) {
    EXPECT_TRUE(backend.Queue({In("a", state), In("b")}).admitted.empty()) << NameOf(state);
  }
  tuning.state = JobState::kRunning;
  EXPECT_THAT(backend.Queue({tuning, In("tuned/1"), In("tuned/2")}).admitted, ElementsAre("tuned/1"));
}

TEST(SshBackendTest, TheCommandIsThatOfDeployCluster) {
  const SshBackend backend({.program = "/build/tools/downpour", .launcher = "/deploy/cluster", .hosts = "/lab.hosts"});
  RunOrder order{.job = In("a/2", JobState::kPreparing), .job_file = "/r/job.json", .overrides = {"seed=2"}};
  order.job.created_ms = 17;
  const RunFolder folder("/r/jobs/a");
  EXPECT_THAT(
      backend.CommandOf(order, folder),
      ElementsAre("/usr/bin/env", "python3", "/deploy/cluster", "run", "/lab.hosts", "/r/job.json", "--name", "a.2-17",
                  "--job-dir", "/r/jobs/a", "--install", "/build", "--port", "7000", "--set", "seed=2"));
  order.job.trial.emplace();
  EXPECT_THAT(backend.CommandOf(order, folder), Contains("CLOUD_ML_TRIAL_ID=2"));
  order.module = "t.task";
  order.packages = {"/a.whl", "/b.tar.gz"};
  order.arguments = {"--x"};
  order.results = "/r/storage/models/a";
  EXPECT_THAT(backend.CommandOf(order, folder), testing::IsSupersetOf({"--module-name", "t.task", "/a.whl", "/b.tar.gz",
                                                                       "--x", "--results", "/r/storage/models/a"}));
  order.job.state = JobState::kCancelling;
  EXPECT_THAT(backend.CommandOf(order, folder), Contains("--end"));
}

TEST(SshBackendTest, ARunWhoseShimWasKilledLivesAndIsReattached) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() + "/job");
  ASSERT_TRUE(folder.Make().ok());
  SshBackend backend({});
  const Job job = In("a", JobState::kRunning);
  const auto wait_for_end = [&] {
    while (folder.Look().alive || !folder.Look().started) poll(nullptr, 0, 5);
  };
  ASSERT_TRUE(folder.Start({"/bin/sh", "-c", "kill -9 $PPID"}).ok());
  wait_for_end();
  RunSeen seen = backend.Look(job, folder);
  EXPECT_TRUE(seen.alive && seen.orphaned);
  EXPECT_EQ(ActFor(job, seen), Act::kReattach);
  ASSERT_TRUE(folder.Start({"/bin/true"}, /*again=*/true).ok());
  while (!std::filesystem::exists(folder.Own("exit"))) poll(nullptr, 0, 5);
  wait_for_end();
  seen = backend.Look(job, folder);
  EXPECT_FALSE(seen.alive || seen.orphaned);
  EXPECT_EQ(seen.exit_code, 0);
}

TEST(SshBackendTest, AnExitCodeCountsOnceNothingRunsOnTheHosts) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() + "/job");
  ASSERT_TRUE(folder.Make().ok());
  SshBackend backend({});
  const Job job = In("a", JobState::kCancelling);
  const auto leave = [&](const std::string& path, const char* text) { std::ofstream(path) << text; };
  leave(folder.Own("started"), "1");
  leave(folder.Own("exit"), "143");
  EXPECT_EQ(backend.Look(job, folder).exit_code, 143) << "nothing had begun";
  leave(folder.job_dir() + "/cluster.begun", "");
  EXPECT_EQ(ActFor(job, backend.Look(job, folder)), Act::kReattach) << "its follower was ended before it heard why";
  leave(folder.job_dir() + "/cluster.ended", "0");
  EXPECT_EQ(backend.Look(job, folder).exit_code, 0) << "what is there of an earlier follower does not count";
}

}  // namespace
}  // namespace downpour
