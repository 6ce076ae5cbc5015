#include "cluster/role_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

LocalCluster Cluster() {
  return {.chief_program = "/bin/chief",
          .ps_program = "/bin/ps",
          .worker_program = "/bin/worker",
          .job_file = "job.yaml",
          .job_dir = "dir",
          .overrides = {"training.epochs=3", "seed=2"},
          .command = "downpour run job.yaml",
          .servers = 2,
          .workers = 3,
          .launcher = "me"};
}

TEST(RoleCommandsTest, TheChiefGetsJobFolderAndSettings) {
  const ProcessSpec chief = ChiefProcess(Cluster());
  EXPECT_EQ(chief.name, "chief");
  EXPECT_EQ(chief.log, "dir/logs/chief.log");
  EXPECT_THAT(chief.argv, ElementsAre("/bin/chief", "--cluster=none", "--log_dir=dir/logs", "--listen=127.0.0.1:0",
                                      "--job=job.yaml", "--job_dir=dir", "--command=downpour run job.yaml",
                                      "--supervised", "--set=training.epochs=3", "--set=seed=2"));
}

TEST(RoleCommandsTest, ResumeAndTraceArePassedOn) {
  LocalCluster cluster = Cluster();
  cluster.resume = cluster.trace = true;
  EXPECT_THAT(ChiefProcess(cluster).argv, Contains("--resume"));
  EXPECT_THAT(ChiefProcess(cluster).argv, Contains("--trace_dir=dir/trace"));
  EXPECT_THAT(MemberProcess(cluster, "ps-0", "h:1", 0).argv, Contains("--trace_dir=dir/trace"));
}

TEST(RoleCommandsTest, MembersGetTheChiefsAddressTheirIndexAndTheAttempt) {
  const ProcessSpec worker = MemberProcess(Cluster(), "worker-2", "127.0.0.1:7000", 4);
  EXPECT_THAT(worker.argv, ElementsAre("/bin/worker", "--cluster=none", "--log_dir=dir/logs", "--chief=127.0.0.1:7000",
                                       "--index=2", "--launcher=me", "--attempt=4"));
  const ProcessSpec server = MemberProcess(Cluster(), "ps-1", "127.0.0.1:7000", 0);
  EXPECT_EQ(server.argv[0], "/bin/ps");
  EXPECT_THAT(server.argv, Contains("--index=1"));
  EXPECT_THAT(server.argv, Contains("--listen=127.0.0.1:0"));
  EXPECT_THAT(server.argv, Contains("--job_dir=dir"));  // checkpoint.via: shared
}

TEST(RoleCommandsTest, ServersListenInAFolderOfThisUsersWhereNoOtherHostTakesPart) {
  LocalCluster cluster = Cluster();
  cluster.sockets = "/tmp/private";
  EXPECT_THAT(MemberProcess(cluster, "ps-1", "h:1", 0).argv, Contains("--listen=ipc:///tmp/private/ps-1"));
}

TEST(RoleCommandsTest, AllHaveTheKeysWhereOthersCanReachThem) {
  LocalCluster cluster = Cluster();
  cluster.listen = "0.0.0.0:7000";
  cluster.keys = "dir/keys";
  EXPECT_THAT(ChiefProcess(cluster).argv, Contains("--listen=0.0.0.0:7000"));
  EXPECT_THAT(ChiefProcess(cluster, "host-1:40123").argv, Contains("--listen=0.0.0.0:40123"));
  EXPECT_THAT(ChiefProcess(cluster).argv, Contains("--keys=dir/keys"));
  EXPECT_THAT(MemberProcess(cluster, "ps-0", "h:7000", 0).argv, Contains("--listen=0.0.0.0:0"));
  EXPECT_THAT(MemberProcess(cluster, "ps-0", "h:7000", 0).argv, Contains("--keys=dir/keys"));
  EXPECT_THAT(MemberProcess(cluster, "worker-0", "h:7000", 0).argv, Contains("--keys=dir/keys"));
}

TEST(RoleCommandsTest, WorkersUseOneThreadUnlessTheEnvironmentSaysMore) {
  const std::pair<std::string, std::string> one_thread("OMP_NUM_THREADS", "1");
  unsetenv("OMP_NUM_THREADS");
  EXPECT_THAT(MemberProcess(Cluster(), "worker-0", "h:1", 0).environment, Contains(one_thread));
  EXPECT_THAT(MemberProcess(Cluster(), "ps-0", "h:1", 0).environment, Not(Contains(one_thread)));
  setenv("OMP_NUM_THREADS", "2", 1);
  EXPECT_THAT(MemberProcess(Cluster(), "worker-0", "h:1", 0).environment, Not(Contains(one_thread)));
  unsetenv("OMP_NUM_THREADS");
}

// Else members would leave before the chief has made its last checkpoint.
TEST(RoleCommandsTest, OnlyTheChiefActsOnNoticesOfTheMachine) {
  const std::pair<std::string, std::string> nobody_asked("DOWNPOUR_METADATA_SERVER", "");
  EXPECT_THAT(MemberProcess(Cluster(), "worker-0", "h:1", 0).environment, Contains(nobody_asked));
  EXPECT_THAT(MemberProcess(Cluster(), "ps-0", "h:1", 0).environment, Contains(nobody_asked));
  EXPECT_THAT(ChiefProcess(Cluster()).environment, Not(Contains(nobody_asked)));
}

TEST(RoleCommandsTest, ServersComeBeforeWorkers) {
  EXPECT_THAT(MemberTasks(Cluster()), ElementsAre("ps-0", "ps-1", "worker-0", "worker-1", "worker-2"));
  EXPECT_TRUE(IsServerTask("ps-0"));
  EXPECT_FALSE(IsServerTask("worker-0"));
}

TEST(RoleCommandsTest, ProgramsAreFoundBesideTheToolOrWhereTheBuildPutsThem) {
  ScratchFolder folder;
  const auto program = [&](const std::string& name) { fs::permissions(folder.Write(name, ""), fs::perms::owner_all); };
  program("tools/downpour-chief");
  program("ps/downpour-ps");
  LocalCluster cluster;
  const absl::Status missing = FindPrograms(folder.path() + "/tools", &cluster);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("downpour-worker"));
  program("worker/downpour-worker");
  ASSERT_TRUE(FindPrograms(folder.path() + "/tools", &cluster).ok());
  EXPECT_EQ(cluster.chief_program, folder.path() + "/tools/downpour-chief");
  EXPECT_EQ(cluster.ps_program, folder.path() + "/tools/../ps/downpour-ps");
  EXPECT_EQ(cluster.worker_program, folder.path() + "/tools/../worker/downpour-worker");
}

// A folder of 100 bytes has room for "/ps-99", and a socket's path ends at 107.
TEST(RoleCommandsTest, SocketsMustFitInTheirFolder) {
  const std::string folder = "/" + std::string(99, 'x');
  EXPECT_TRUE(CheckSockets(folder, 1000).ok());
  const absl::Status status = CheckSockets(folder, 1001);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("Let TMPDIR name a folder with a shorter one"));
}

}  // namespace
}  // namespace downpour
