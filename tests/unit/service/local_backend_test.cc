#include "service/local_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <fstream>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::ElementsAre;

class LocalBackendTest : public testing::Test {
 protected:
  LocalBackendTest() { unsetenv("CUDA_VISIBLE_DEVICES"); }

  Job WithGpus(const std::string& name, int gpus, JobState state = JobState::kPreparing) {
    const std::string count = R"({"masterConfig":{"acceleratorConfig":{"count":")" + std::to_string(gpus) + "\"}}}";
    return {.name = name, .training_input = count, .job_file = "name: x", .state = state};
  }
  RunFolder FolderOf(const Job& job) {
    RunFolder folder(scratch_.path() + "/" + job.name);
    EXPECT_TRUE(folder.Make().ok());
    return folder;
  }
  // What the run of a job saw.
  std::string SeenBy(LocalBackend& backend, const Job& job) {
    const RunFolder folder = FolderOf(job);
    EXPECT_TRUE(backend.Start({.job = job, .job_file = "job.json"}, folder).ok());
    while (!folder.Look().started || folder.Look().alive) poll(nullptr, 0, 5);
    std::ifstream file(folder.job_dir() + "/seen");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  BackendSettings Settings(int gpus) {
    const std::string program = scratch_.path() + "/downpour";
    std::ofstream(program) << "#!/bin/sh\nprintf %s \"${CUDA_VISIBLE_DEVICES-unset}\" > seen\n";
    chmod(program.c_str(), 0755);
    return {.program = program, .room = {.cores = 64, .memory = 1000, .gpus = gpus}};
  }
  ScratchFolder scratch_;
};

TEST_F(LocalBackendTest, AJobGetsTheGpusThatItAsksForAndNoOthers) {
  LocalBackend backend(Settings(4));
  EXPECT_EQ(SeenBy(backend, WithGpus("a", 1)), "0");
  EXPECT_EQ(SeenBy(backend, WithGpus("b", 2)), "1,2");
  EXPECT_EQ(SeenBy(backend, WithGpus("c", 0)), "");
  // a is over.
  backend.Queue({WithGpus("b", 2, JobState::kRunning), WithGpus("c", 0, JobState::kRunning)});
  EXPECT_EQ(SeenBy(backend, WithGpus("d", 2)), "0,3");
}

TEST_F(LocalBackendTest, AnotherServiceFindsWhatRunsHold) {
  LocalBackend first(Settings(2));
  const Job job = WithGpus("a", 1);
  EXPECT_EQ(SeenBy(first, job), "0");
  LocalBackend second(Settings(2));
  second.Queue({WithGpus("a", 1, JobState::kRunning)});
  second.Look(job, FolderOf(job));
  EXPECT_EQ(SeenBy(second, WithGpus("b", 1)), "1");
}

TEST_F(LocalBackendTest, WhereThereAreNoGpusNothingIsSaidOfThem) {
  LocalBackend backend(Settings(0));
  EXPECT_EQ(SeenBy(backend, WithGpus("a", 0)), "unset");
}

TEST_F(LocalBackendTest, OfGpusThatTheServiceItselfWasGivenTheirNamesAreHandedOn) {
  setenv("CUDA_VISIBLE_DEVICES", "5,GPU-7", 1);
  EXPECT_EQ(RoomOfThisMachine().gpus, 2);
  LocalBackend backend(Settings(2));
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(SeenBy(backend, WithGpus("a", 2)), "5,GPU-7");
}

TEST_F(LocalBackendTest, JobsFindTheStoreUnlessTheServiceWasToldOfAnotherOne) {
  BackendSettings settings = Settings(0);
  std::ofstream(settings.program) << "#!/bin/sh\nprintf %s \"${STORAGE_EMULATOR_HOST-unset}"
                                     " ${CLOUD_STORAGE_EMULATOR_ENDPOINT-unset} ${FSSPEC_GCS_TOKEN-unset}\" > seen\n";
  LocalBackend without(settings);
  EXPECT_EQ(SeenBy(without, WithGpus("a", 0)), "unset unset unset");
  settings.address = "http://127.0.0.1:7000";
  LocalBackend with(settings);
  EXPECT_EQ(SeenBy(with, WithGpus("b", 0)), "http://127.0.0.1:7000 http://127.0.0.1:7000 anon");
  setenv("STORAGE_EMULATOR_HOST", "", 1);  // Google's own, then
  EXPECT_EQ(SeenBy(with, WithGpus("c", 0)), " http://127.0.0.1:7000 anon");
  unsetenv("STORAGE_EMULATOR_HOST");
}

TEST_F(LocalBackendTest, ArgumentsOfJobsHavePathsForTheStoresUris) {
  BackendSettings settings = Settings(0);
  settings.root = "/srv/jobs";
  std::vector<std::string> command;
  AppendOrder(
      settings,
      {.job = {}, .job_file = "job.json", .module = "trainer.task", .arguments = {"--train", "gs://data/x.csv"}},
      &command);
  EXPECT_EQ(command.back(), "/srv/jobs/storage/data/x.csv");
}

TEST_F(LocalBackendTest, MemoryIsAskedForOnceAndCounted) {
  int asked = 0;
  BackendSettings settings = Settings(0);
  settings.memory_of = [&](const JobFileResult&) { return ++asked, uint64_t{600}; };
  LocalBackend backend(settings);
  const std::vector<Job> jobs = {WithGpus("a", 0, JobState::kQueued), WithGpus("b", 0, JobState::kQueued)};
  for (int i = 0; i < 3; ++i) EXPECT_THAT(backend.Queue(jobs).admitted, ElementsAre("a"));
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace downpour
