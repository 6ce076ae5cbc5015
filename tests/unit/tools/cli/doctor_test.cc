// What `doctor` thinks of facts, and of what it finds here.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "data/idx.h"
#include "runtime/descriptor_need.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/job_file.h"
#include "runtime/posix/keys.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"
#include "tools/cli/doctor_job.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Each finding that is not good, as about: what -> remedy.
std::vector<std::string> Bad(const Findings& findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) {
    if (finding.grade == Finding::Grade::kGood) continue;
    const char* mark = finding.grade == Finding::Grade::kProblem ? "PROBLEM " : "";
    texts.push_back(mark + finding.about + ": " + finding.what + " -> " + finding.remedy);
    EXPECT_FALSE(finding.remedy.empty()) << texts.back();
  }
  return texts;
}

constexpr uint64_t kGiB = uint64_t{1} << 30;

HostFacts GoodHost() {
  return {.memory_available = 4 * kGiB,
          .disk_free = 4 * kGiB,
          .descriptors = 65536,
          .clock_synchronized = true,
          .cpu_flags = "fpu avx avx2 avx512f",
          .gpu_driver = "",
          .gpu_library = false,
          .gpu_module_lacks = "",
          .zmq_version = 40304};
}

std::vector<std::string> BadOf(const HostFacts& facts) {
  return Bad(JudgeHost(facts, {.memory = kGiB, .disk = 2 * kGiB, .descriptors = 2532}, "/jobs"));
}

TEST(DoctorHost, HasNothingToSayOfAGoodHost) {
  EXPECT_THAT(BadOf(GoodHost()), IsEmpty());
  EXPECT_EQ(JudgeHost(GoodHost(), {}, "/jobs").size(), 7u);
}

TEST(DoctorHost, NamesEachLackWithARemedy) {
  HostFacts facts = GoodHost();
  facts.memory_available = kGiB / 2;
  facts.disk_free = kGiB;
  facts.descriptors = 1024;
  facts.clock_synchronized = false;
  facts.cpu_flags = "fpu avx2x";
  facts.gpu_driver = "NVIDIA UNIX x86_64 Kernel Module 550.54";
  facts.zmq_version = 40302;
  EXPECT_THAT(BadOf(facts),
              ElementsAre(HasSubstr("PROBLEM memory: 512.0 MiB free, about 1.0 GiB needed -> run fewer"),
                          HasSubstr("PROBLEM disk: 1.0 GiB free at /jobs, about 2.0 GiB needed -> make room"),
                          HasSubstr("PROBLEM limits: 1024 open files per process, 2532 needed for the connections of "
                                    "this job -> raise the hard limit: `ulimit -n 2532` as root"),
                          HasSubstr("clock: not synchronized"), HasSubstr("cpu: has no AVX2"),
                          HasSubstr("libcuda.so.1 does not load"),
                          HasSubstr("PROBLEM libraries: libzmq 4.3.2 has known holes")));
  facts = GoodHost();
  facts.largest_file = 0;
  EXPECT_THAT(BadOf(facts), ElementsAre("PROBLEM files: a file may have at most 0 B here (`ulimit -f`), about 1.0 MiB "
                                        "needed -> raise it: `ulimit -f unlimited`, fsize in "
                                        "/etc/security/limits.conf, or LimitFSIZE=infinity in the unit"));
  facts.largest_file = kLeastFileBytes;
  EXPECT_THAT(BadOf(facts), IsEmpty());
  EXPECT_EQ(JudgeHost(GoodHost(), {}, "/jobs")[0].what, "4.0 GiB free") << "nothing is known to be needed";
  EXPECT_EQ(JudgeHost(GoodHost(), {}, "/jobs")[2].what, "65536 open files per process");
  facts = GoodHost();
  facts.memory_available.reset();
  EXPECT_THAT(BadOf(facts), ElementsAre(HasSubstr("memory: cannot be told")));
  facts = GoodHost();
  facts.gpu_driver = "NVIDIA UNIX x86_64 Kernel Module 580.159";
  EXPECT_FALSE(ComputesOnGpu(facts));
  facts.gpu_library = true;
  EXPECT_THAT(BadOf(facts), IsEmpty());
  EXPECT_TRUE(ComputesOnGpu(facts));
  EXPECT_FALSE(ComputesOnGpu(GoodHost()));
  facts.gpu_module_lacks = "downpour-cuda.so cannot be loaded";
  EXPECT_FALSE(ComputesOnGpu(facts));
  EXPECT_THAT(BadOf(facts), ElementsAre(HasSubstr("580.159, but downpour-cuda.so cannot be loaded: workers compute")));
}

TEST(DoctorHost, LooksAtThisOne) {
  const HostFacts facts = LookAtHost("/no/such/folder/yet");
  EXPECT_GT(facts.memory_available.value_or(0), 0u);
  EXPECT_GT(facts.disk_free.value_or(0), 0u);
  EXPECT_GT(facts.descriptors, 0u);
  EXPECT_GE(facts.zmq_version, 40303);
}

// ---- Addresses ------------------------------------------------------------------------------------------------------

// A listener on a free port of loopback, or a port that was free a moment ago.
struct Port {
  Port() : fd(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(listen(fd.get(), 8), 0);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    endpoint = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  UniqueFd fd;
  std::string endpoint;
};

TEST(DoctorAddresses, SaysWhoAnswersAndWhoDoesNotResolve) {
  Port there, gone;
  gone.fd = UniqueFd();
  ClusterConfig config;
  config.chief[0] = there.endpoint;
  config.ps = {{0, gone.endpoint}, {1, "a..b:1"}};
  const Findings findings = LookAtAddresses({config});
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_THAT(findings[0].what, HasSubstr("answers"));
  EXPECT_THAT(findings[1].what, HasSubstr("nobody listens at that port, though a running ps may have another"));
  EXPECT_THAT(Bad(findings), ElementsAre(HasSubstr("PROBLEM address: ps-1 at a..b:1 does not resolve")));
}

TEST(DoctorAddresses, AnOwnOneMustBeFreeAndOfThisHost) {
  Port taken, free;
  free.fd = UniqueFd();
  EXPECT_THAT(Bad({LookAtOwnAddress(taken.endpoint, false)}), ElementsAre(HasSubstr("choose another port")));
  EXPECT_THAT(Bad({LookAtOwnAddress(free.endpoint, false), LookAtOwnAddress("ipc:///tmp/x", false)}), IsEmpty());
  EXPECT_THAT(Bad({LookAtOwnAddress("192.0.2.1:0", true)}), ElementsAre(HasSubstr("an address that this host has")));
}

// This test's program listens there, as the ps does that is looked at while it runs.
TEST(DoctorAddresses, AnOwnOneThatTheTaskItselfHasIsNoProblem) {
  Port taken;
  const Findings findings = {LookAtOwnAddress(taken.endpoint, false, "127.0.0.1:1", TaskType::kPs)};
  EXPECT_THAT(Bad(findings), ElementsAre(HasSubstr(absl::StrCat(", process ", getpid()))));
  const Listener ps{.pid = 7, .program = "downpour-ps", .words = {"downpour-ps", "--chief=h0:1", "--index=1"}};
  EXPECT_TRUE(IsTask(ps, TaskType::kPs, "h0:1"));
  EXPECT_TRUE(IsTask(ps, TaskType::kPs, ""));
  EXPECT_TRUE(IsTask(ps, std::nullopt, "h0:1"));
  EXPECT_FALSE(IsTask(ps, TaskType::kChief, "h0:1"));
  EXPECT_FALSE(IsTask(ps, TaskType::kPs, "h0:2")) << "another job's";
  EXPECT_FALSE(IsTask({.pid = 7, .program = "nginx", .words = {"nginx"}}, std::nullopt, ""));
}

TEST(DoctorAddresses, APathThatIsTooLongForASocketIsAProblem) {
  EXPECT_THAT(Bad({LookAtOwnAddress("ipc:///tmp/" + std::string(110, 'x'), false)}),
              ElementsAre(HasSubstr("a socket's has at most 107: name a shorter one -> let --listen name a shorter")));
}

TEST(DoctorAddresses, SocketsMustFitInTheFolderForTemporaryFiles) {
  EXPECT_THAT(Bad({LookAtSockets(2)}), IsEmpty());
  const std::string folder = testing::TempDir() + "/" + std::string(100, 'x');
  std::filesystem::create_directories(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  EXPECT_THAT(Bad({LookAtSockets(2)}), ElementsAre(HasSubstr("whose name is too long")));
  setenv("TMPDIR", "/no/such/folder", 1);
  EXPECT_THAT(Bad({LookAtSockets(2)}), ElementsAre(HasSubstr("cannot use the folder for temporary files, /no/such")));
  unsetenv("TMPDIR");
  std::filesystem::remove_all(folder);
}

TEST(DoctorAddresses, WithoutKeysNobodyListensWhereOthersReachIt) {
  EXPECT_THAT(Bad({LookAtOwnAddress("0.0.0.0:0", false)}),
              ElementsAre(HasSubstr("PROBLEM listen: anyone could reach 0.0.0.0:0, and there are no keys -> ")));
  EXPECT_THAT(Bad({LookAtOwnAddress("0.0.0.0:0", true)}), IsEmpty());
}

TEST(DoctorAddresses, TheRemedyForASilentChiefDependsOnTheCause) {
  Port there, gone;
  gone.fd = UniqueFd();
  const auto remedy = [](const std::string& endpoint, bool has_keys = false) {
    return SilentChief(endpoint, "no answer", has_keys).remedy;
  };
  EXPECT_THAT(remedy(gone.endpoint), HasSubstr("start the chief, or correct its port"));
  EXPECT_THAT(remedy("a..b:1"), HasSubstr("correct the name"));
  EXPECT_THAT(remedy(there.endpoint), HasSubstr("if it has keys: --keys=DIR"));
  EXPECT_THAT(remedy(there.endpoint, true), HasSubstr("whether it has keys at all"));
  EXPECT_THAT(remedy(""), HasSubstr("start the chief"));
}

// ---- Jobs -----------------------------------------------------------------------------------------------------------

constexpr char kHealthyJob[] = R"(name: small
cluster: {workerCount: 4, parameterServerCount: 2}
model: {inputs: [{name: i, shape: [8, 8, 1]}], layers: [{dense: {units: 10}}]}
training: {optimizer: {name: momentum}}
data: {train: {images: images, labels: labels}}
checkpoint: {keep: 2}
)";

class DoctorJobTest : public testing::Test {
 protected:
  DoctorJobTest() : folder_(FreshFolder("doctor")) {
    PutFile(folder_ + "/job.yaml", kHealthyJob);
    WriteImages(100, 100);
  }
  void WriteImages(uint32_t images, uint32_t labels) {
    ASSERT_TRUE(WriteIdx(folder_ + "/images", {images, 8, 8}, std::vector<uint8_t>(images * 64)).ok());
    std::vector<uint8_t> drawn(labels);
    for (uint32_t i = 0; i < labels; ++i) drawn[i] = static_cast<uint8_t>(i % 10);
    ASSERT_TRUE(WriteIdx(folder_ + "/labels", {labels}, drawn).ok());
  }
  ToolOutcome Doctor(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"doctor", folder_ + "/job.yaml", "--cluster=none"});
    return RunDownpour(more);
  }
  const std::string folder_;
};

TEST_F(DoctorJobTest, NamesTheCopyOfTheData) {
  const ToolOutcome first = Doctor();
  EXPECT_EQ(first.code, kExitDone) << first.out;
  EXPECT_THAT(first.out, AllOf(ContainsRegex("ok +data +train: 100 examples, fingerprint [0-9a-f]{16}\n"),
                               HasSubstr("0 problems")));
  EXPECT_THAT(Doctor({"--role=ps"}).out, testing::Not(HasSubstr("fingerprint")));
}

TEST_F(DoctorJobTest, DataThatDoNotFitOrAreNotHereAreProblems) {
  WriteImages(100, 99);
  EXPECT_THAT(Doctor().out, AllOf(HasSubstr("PROBLEM  data"), HasSubstr("-> "), HasSubstr("1 problem,")));
  std::filesystem::remove(folder_ + "/images");
  const ToolOutcome outcome = Doctor();
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, HasSubstr("copy the data to the same path on every host"));
}

TEST_F(DoctorJobTest, ABadJobFileIsAProblemToo) {
  PutFile(folder_ + "/job.yaml", "name: 3");
  const ToolOutcome outcome = Doctor();
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.err, HasSubstr("job.yaml:1:7: name: "));
}

TEST_F(DoctorJobTest, NeedsFollowFromModelDataAndTasks) {
  const JobFileResult read = LoadJobFile(folder_ + "/job.yaml");
  const DataFacts facts = LookAtData(read);
  const uint64_t values = 4 * (64 * 10 + 10), state = 2 * values, data = 100 * 65;
  const auto needs = [&](std::optional<TaskType> role) { return NeedsOf(read.job, facts, role, /*on_gpu=*/false); };
  EXPECT_EQ(needs(TaskType::kChief).disk, 3 * state);
  EXPECT_EQ(needs(TaskType::kWorker).memory, 4 * values + data);
  EXPECT_EQ(needs(std::nullopt).memory, 2 * state + 4 * (4 * values + data));
  EXPECT_EQ(needs(TaskType::kPs).disk, 0u);
  EXPECT_EQ(needs(TaskType::kChief).descriptors, DescriptorNeed(TaskRole::kChief, read.job.cluster));
  EXPECT_EQ(needs(TaskType::kPs).descriptors, DescriptorNeed(TaskRole::kPs, read.job.cluster));
  EXPECT_EQ(needs(TaskType::kWorker).descriptors, DescriptorNeed(TaskRole::kWorker, read.job.cluster));
  EXPECT_EQ(needs(std::nullopt).descriptors, needs(TaskType::kPs).descriptors) << "the largest";
  JobSpec job = read.job;
  EXPECT_EQ(NeedsOf(job, facts, TaskType::kWorker, /*on_gpu=*/true).memory, 6 * values + data);
  job.training.precision = ProductPrecision::kBf16;
  EXPECT_EQ(NeedsOf(job, facts, TaskType::kWorker, true).memory, 5 * values + data);
}

TEST_F(DoctorJobTest, OfPythonCodeWhatItReadsIsNotKnown) {
  const JobFileResult read =
      ParseJob("name: own\ncluster: {workerCount: 2, parameterServerCount: 1}\npython: {module: m, bytes: 3, sha256: " +
                   std::string(64, 'a') +
                   "}\nmodel: {variables: [{name: v, shape: [3, 2]}], initializeFrom: /f}\n"
                   "data: {format: python, trainExamples: 9}\n",
               "job");
  ASSERT_TRUE(read.ok()) << ToString(read.errors.front());
  DataFacts facts;
  facts.train_examples = 9;
  EXPECT_EQ(NeedsOf(read.job, facts, TaskType::kWorker, /*on_gpu=*/false).memory, 4 * 4 * 6u);
  const Findings findings = LookAtJobData(read.job, facts);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].what, "train: 9 examples, which the Python code brings");
}

TEST_F(DoctorJobTest, MoreWorkersNeedRoomBesideWhatRuns) {
  const JobFileResult read = LoadJobFile(folder_ + "/job.yaml");
  const DataFacts facts = LookAtData(read);
  HostFacts host;
  EXPECT_EQ(WhyNoRoomFor(9, read.job, facts, host), "") << "it is not known";
  host.memory_available = 3 * NeedsOf(read.job, facts, TaskType::kWorker, /*on_gpu=*/false).memory;
  EXPECT_EQ(WhyNoRoomFor(3, read.job, facts, host), "");
  EXPECT_THAT(WhyNoRoomFor(4, read.job, facts, host), HasSubstr("there is room for 3, not for 4."));
}

TEST_F(DoctorJobTest, AChiefThatDoesNotAnswerIsAProblem) {
  Port gone;
  gone.fd = UniqueFd();
  const ToolOutcome outcome = RunDownpour({"doctor", "--cluster=none", "--chief", gone.endpoint});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, ContainsRegex("PROBLEM +chief +cannot reach the chief at .* \\(connection refused\\)"));
}

TEST_F(DoctorJobTest, AJobFolderIsToBeThereUnlessAJobFileIsToUseIt) {
  EXPECT_EQ(Doctor({"--job-dir=" + folder_ + "/new"}).code, kExitDone);
  const auto examine = [&] { return RunDownpour({"doctor", "--cluster=none", "--job-dir", folder_}); };
  EXPECT_EQ(examine().code, kExitFailed);
  EXPECT_THAT(examine().out, HasSubstr("no chief has listened for " + folder_));
  PutFile(folder_ + "/chief.json", R"({"endpoint": "127.0.0.1:1", "pid": 1, "term": 3})");
  EXPECT_EQ(examine().code, kExitFailed) << "nobody answers, and nothing tells the end";
}

// With keys there is nobody to try them on either.
TEST_F(DoctorJobTest, AJobThatIsOverIsNoProblemAndGoesOnAsItSays) {
  PutFile(folder_ + "/chief.json", R"({"endpoint": "127.0.0.1:1", "pid": 1, "term": 3})");
  const auto examine = [&] { return RunDownpour({"doctor", "--cluster=none", "--job-dir", folder_}); };
  for (const bool with_keys : {false, true}) {
    EXPECT_TRUE(!with_keys || WriteNewKeys(folder_ + "/keys").ok());
    for (const auto& [state, how] : {std::pair("SUCCEEDED", " and over; to train it further, raise training.epochs"),
                                     std::pair("FAILED", " and over: why. Go on with x\n +-> mend what is named"),
                                     std::pair("CANCELLED", " and over: why. Go on with x\n +-> go on as it says")}) {
      PutFile(folder_ + "/summary.json",
              std::string(R"({"job": "small", "errorMessage": "why. Go on with x", "term": 3, "state": ")") + state +
                  "\"}");
      const ToolOutcome outcome = examine();
      EXPECT_EQ(outcome.code, kExitDone) << outcome.out;
      EXPECT_THAT(outcome.out, AllOf(ContainsRegex(std::string("small is ") + state + how), HasSubstr("\n0 problems")));
    }
  }
}

TEST_F(DoctorJobTest, ASilentChiefIsToldOnceWhoeverAsks) {
  PutFile(folder_ + "/chief.json", R"({"endpoint": "127.0.0.1:1", "pid": 1, "term": 3})");
  ASSERT_TRUE(WriteNewKeys(folder_ + "/keys").ok());
  const ToolOutcome outcome = RunDownpour({"doctor", "--cluster=none", "--job-dir", folder_});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("cannot reach the chief at 127.0.0.1:1"), HasSubstr("\n1 problem,")));
}

TEST_F(DoctorJobTest, AnAddressWithoutAPortIsAMistakeOfTheCommandLine) {
  const ToolOutcome outcome = RunDownpour({"doctor", "--cluster=none", "--chief", "127.0.0.1"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.err, HasSubstr("127.0.0.1"));
  EXPECT_EQ(RunDownpour({"doctor", "--module-name=trainer.task"}).code, kExitBadCommandLine) << "it needs a job";
}

StatusReport InState(const std::string& state) {
  StatusReport status;
  status.job = "j";
  status.state = state;
  return status;
}

TEST(DoctorStatus, FailuresAndWhoIsMissingAreNamed) {
  StatusReport status = InState("RUNNING");
  EXPECT_THAT(Bad(JudgeStatus(status)), IsEmpty());
  status.pending = {{"ps-1", "has not joined yet"}, {"ps-0", "installs its slices"}, {"worker-2", "is dead"}};
  status.next = {"downpour logs ps-1", "downpour-ps --chief=h0:1"};
  TaskReport server;
  server.name = "ps-0";
  server.state = "PREPARING";
  status.tasks = {server};
  status.failures = {{"worker-1", "has other data", 5, {}}, {"worker-2", "long ago", 500, {}}};
  status.checkpoint.error = "no space";
  status.chief.job_dir = "/jobs/my job";
  EXPECT_THAT(
      Bad(JudgeStatus(status)),
      ElementsAre(HasSubstr("job: ps-1 has not joined yet -> downpour-ps --chief=h0:1"),
                  HasSubstr("ps-0 installs its slices -> wait for it, or look why it lingers: downpour logs ps-0"),
                  HasSubstr("worker-2 is dead -> wait for it"),
                  HasSubstr("PROBLEM job: worker-1: has other data -> downpour logs worker-1 "
                            "--job-dir '/jobs/my job'"),
                  HasSubstr("PROBLEM checkpoint: no space -> make room or mend the folder")));
  status = InState("FAILED");
  status.error = "because";
  EXPECT_THAT(Bad(JudgeStatus(status)), ElementsAre(HasSubstr("job: j is FAILED and over: because -> mend")));
  status.state = "CANCELLED";
  EXPECT_THAT(Bad(JudgeStatus(status)), ElementsAre(HasSubstr("job: j is CANCELLED and over: because -> go on")));
}

TEST(DoctorStatus, AWorkerThatWaitsForLongIsNamedThoughOthersGetOn) {
  StatusReport status = InState("RUNNING");
  status.chief.job_dir = "/jobs/j";
  status.waits = {{"worker-0", "its Python code to compute step 4 of lease 3", "at task.py:11", 61},
                  {"worker-1", "parameters", "", 3},
                  {"worker-2", "work", "", 500},
                  {"chief", "ps-1", "is gone", 60}};
  EXPECT_THAT(Bad(JudgeStatus(status)),
              ElementsAre(HasSubstr("job: worker-0 has waited for 61 s for its Python code to compute step 4 of lease "
                                    "3: at task.py:11 -> see what it does: downpour logs worker-0 --job-dir /jobs/j")));
  status.stalled = "nothing has moved";
  EXPECT_THAT(Bad(JudgeStatus(status)), ElementsAre(HasSubstr("job: nothing has moved")));
}

TEST(DoctorStatus, WhatDivergesIsNamedThoughTheJobSucceeded) {
  StatusReport status = InState("RUNNING");
  status.diverging = "the loss is not finite";
  EXPECT_THAT(Bad(JudgeStatus(status)), ElementsAre(HasSubstr("job: it is DIVERGING: the loss is not finite -> ")));
  SummaryReport summary;
  summary.state = "SUCCEEDED";
  EXPECT_THAT(Bad(JudgeEnd(summary)), IsEmpty());
  summary.diverging = "the loss is not finite";
  EXPECT_THAT(Bad(JudgeEnd(summary)), ElementsAre(HasSubstr("job: it is DIVERGING: the loss is not finite -> ")));
}

TEST_F(DoctorJobTest, WarnsOfSettingsThatWereMeasuredToBeUnstable) {
  PutFile(folder_ + "/job.yaml", kHealthyJob);
  EXPECT_THAT(
      Doctor({"--set", "cluster.workerCount=32", "--set", "training.pullAhead=true"}).out,
      AllOf(HasSubstr("warning  learning   training.pullAhead: "), HasSubstr("-> --set training.pullAhead=false")));
}

TEST(DoctorStatus, ACheckpointWithoutItsServerIsNoMatterOfTheDisk) {
  StatusReport status = InState("RUNNING");
  status.checkpoint.error = "a ps is gone";
  status.checkpoint.error_cause = "ps";
  EXPECT_THAT(Bad(JudgeStatus(status)), ElementsAre(HasSubstr("checkpoint: a ps is gone -> wait for the next one")));
  TaskReport server;
  server.name = "ps-1";
  server.role = "ps";
  server.state = "LOST";
  status.tasks = {server};
  EXPECT_THAT(Bad(JudgeStatus(status)), ElementsAre(HasSubstr("-> bring back ps-1")));
}

TEST_F(DoctorJobTest, AModelThatFitsItsLabelsBadlyIsNamed) {
  PutFile(folder_ + "/job.yaml", std::string(kHealthyJob) + "seed: 3\n");
  const auto doctor = [&](const std::string& units) {
    return Doctor({"--set", "model.layers.0.dense.units=" + units}).out;
  };
  EXPECT_THAT(doctor("9"),
              AllOf(HasSubstr("PROBLEM  data"), HasSubstr("has 9 units"), HasSubstr("-> name whole files")));
  EXPECT_THAT(doctor("11"), AllOf(HasSubstr("warning  data"), HasSubstr("-> give it 10"), HasSubstr("fingerprint")));
}

}  // namespace
}  // namespace downpour
