// What becomes of packages, of trials that cannot start, and of what clients do meanwhile. All else:
// tests/process/test_job_service.py.
#include "service/job_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cluster/job_folder.h"
#include "runtime/posix/process.h"
#include "service/submission.h"
#include "tests/unit/job/job_text.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class JobServiceTest : public testing::Test {
 protected:
  std::string Package(const std::string& bucket, const std::string& name) {
    EXPECT_TRUE(service_->objects().Store({.bucket = bucket, .name = name}, "").ok());
    return "gs://" + bucket + "/" + name;
  }
  absl::Status Submit(const std::string& name, const std::vector<std::string>& packages, json more = json::object()) {
    json body = {{"jobId", name}, {"trainingInput", {{"pythonModule", "trainer.task"}, {"packageUris", packages}}}};
    body.update(more);
    return service_->Submit(body.dump()).status();
  }
  void Delete(const std::string& name) {
    EXPECT_TRUE(service_->Cancel(name).ok());
    EXPECT_TRUE(service_->Delete(name).ok());
  }
  bool IsThere(const std::string& uri) { return std::filesystem::exists(service_->objects().PathOf(uri).value()); }

  const ScratchFolder folder_;
  const std::unique_ptr<JobService> service_ = JobService::Open({.root = folder_.path()}).value();
};

TEST_F(JobServiceTest, APackageGoesWithTheLastJobThatNamesIt) {
  const std::string own = Package("packages", "one/1/package-0.tar.gz");
  ASSERT_TRUE(Submit("one", {own}).ok());
  ASSERT_TRUE(Submit("two", {own}).ok());
  Delete("one");
  EXPECT_TRUE(IsThere(own)) << "two is to run with it";
  Delete("two");
  EXPECT_FALSE(IsThere("gs://packages/one")) << "its folders go too";
  EXPECT_TRUE(IsThere("gs://packages"));
}

TEST_F(JobServiceTest, AJobThatWaitsIsInItsFolderBeforeItIsAccepted) {
  ASSERT_TRUE(Submit("one", {Package("models", "p.tar.gz")}).ok());
  const absl::StatusOr<Job> job = service_->Find("one");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(ReadTextFile(service_->FolderOf("one").Own("submission")).value_or(""), job->id);
  std::filesystem::remove_all(folder_.path() + "/jobs/two");
  std::ofstream(folder_.path() + "/jobs/two") << "no folder";
  std::filesystem::permissions(folder_.path() + "/jobs/two", std::filesystem::perms::none);
  EXPECT_FALSE(Submit("two", {Package("models", "p.tar.gz")}).ok());
  EXPECT_FALSE(service_->Find("two").ok()) << "it was refused";
}

// Its run is at an end, by the marks that its shim left, when the service looks.
TEST(JobServiceTrialTest, ATrialThatWasStoppedEarlySaysSoOnceItHasEnded) {
  const ScratchFolder root;
  const std::string job_dir = JobFolderOf(root.path(), "line/1");
  for (const int exit_code : {6, 0}) {
    const json search = {
        {"goal", "MINIMIZE"},
        {"hyperparameterMetricTag", "loss"},
        {"maxTrials", 1},
        {"params", {{{"parameterName", "training.seed"}, {"type", "INTEGER"}, {"minValue", 1}, {"maxValue", 9}}}}};
    Job trial{.name = "line/1", .id = "1", .job_file = kJob, .state = JobState::kRunning, .created_ms = 1};
    trial.trial = Trial{.values = {{"training.seed", "3"}}, .units = {0.5}, .metric = "loss"};
    StopEarly(2, &trial);
    const RunFolder folder(job_dir);
    {
      const auto store = JobStore::Open(root.path() + "/jobs.sqlite").value();
      const Job line{.name = "line",
                     .training_input = json{{"hyperparameters", search}}.dump(),
                     .job_file = kJob,
                     .state = JobState::kRunning};
      ASSERT_TRUE(store->Insert(line).ok());
      ASSERT_TRUE(store->Insert(trial).ok());
      ASSERT_TRUE(ClaimFolder(trial, folder).ok());
    }
    std::ofstream(folder.Own("started")) << "1";
    std::ofstream(folder.Own("exit")) << exit_code;
    std::ofstream(job_dir + "/summary.json") << R"({"job":"line.1","state":"CANCELLED","evalLoss":0.5})";
    const auto service = JobService::Open({.root = root.path()}).value();
    const std::string log = job_dir + "/logs/service.log";
    EXPECT_FALSE(ReadTextFile(log).ok()) << "it is to be carried out";
    EXPECT_TRUE(service->Work().ok());
    EXPECT_EQ(service->Find("line/1")->state, JobState::kSucceeded);
    const std::string told = ReadTextFile(log).value_or("");
    EXPECT_EQ(told.find("was stopped early: others were better") != std::string::npos, exit_code == 6)
        << "the other was at its end already";
    std::filesystem::remove_all(root.path() + "/jobs");
    std::filesystem::remove(root.path() + "/jobs.sqlite");
  }
}

TEST_F(JobServiceTest, TheUsersOwnBucketsAreLeftAlone) {
  const std::string theirs = Package("models", "wd1/trainer.tar.gz");
  ASSERT_TRUE(Submit("one", {theirs}).ok());
  Delete("one");
  EXPECT_FALSE(Submit("1one", {theirs}).ok());
  EXPECT_TRUE(IsThere(theirs));
}

TEST_F(JobServiceTest, AJobThatIsRefusedLeavesNoPackage) {
  const std::string used = Package("packages", "one/1/package-0.tar.gz");
  ASSERT_TRUE(Submit("one", {used}).ok());
  const std::pair<const char*, json> refused[] = {
      {"one", json::object()}, {"two", {{"labels", {{"Team", "a"}}}}}, {"1two", json::object()}};
  for (const auto& [name, more] : refused) {
    const std::string own = Package("packages", std::string(name) + "/2/package-0.tar.gz");
    EXPECT_FALSE(Submit(name, {own, used}, more).ok()) << name;
    EXPECT_FALSE(IsThere(own)) << name;
    EXPECT_TRUE(IsThere(used)) << name;
  }
  for (const char* body : {"[", "[]", R"({"trainingInput": 7})", R"({"trainingInput": {"packageUris": [1, "x"]}})"}) {
    EXPECT_FALSE(service_->Submit(body).ok()) << body;
  }
}

TEST_F(JobServiceTest, ARefusedJobLeavesWhatOthersUploaded) {
  const std::string others = Package("packages", "other/1/package-0.tar.gz"), plain = Package("packages", "two");
  EXPECT_FALSE(Submit("two", {others, plain}, {{"labels", {{"Team", "a"}}}}).ok());
  EXPECT_TRUE(IsThere(others)) << "the job that it was uploaded for is yet to be submitted";
  EXPECT_TRUE(IsThere(plain));
  EXPECT_FALSE(Submit("other/1", {others}).ok());
  EXPECT_FALSE(Submit("", {others}).ok());
  EXPECT_TRUE(IsThere(others));
  ASSERT_TRUE(Submit("other", {others}).ok());
}

TEST_F(JobServiceTest, AMissingPackageIsToldAndTheOthersWaitForIt) {
  const std::string own = Package("packages", "one/1/package-0.tar.gz"), missing = "gs://models/one/dependency.whl";
  const absl::Status refused = Submit("one", {own, missing});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("no package " + missing + " in the service's store: upload it"));
  EXPECT_TRUE(IsThere(own)) << "the same request may succeed later";
  Package("models", "one/dependency.whl");
  EXPECT_TRUE(Submit("one", {own, missing}).ok());
}

TEST_F(JobServiceTest, AStoreThatFailsForAWhileTakesNoPackage) {
  const std::string own = Package("packages", "one/1/package-0.tar.gz");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((folder_.path() + "/jobs.sqlite").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "ALTER TABLE jobs RENAME TO away", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_FALSE(Submit("one", {own}).ok());
  ASSERT_EQ(sqlite3_exec(other, "ALTER TABLE away RENAME TO jobs", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_TRUE(IsThere(own));
  EXPECT_TRUE(Submit("one", {own}).ok());
}

TEST_F(JobServiceTest, ASearchsLogTellsOfTrialsThatCouldNotStart) {
  json search = {{"goal", "MINIMIZE"},
                 {"algorithm", "RANDOM_SEARCH"},
                 {"maxTrials", 1},
                 {"params", {{{"parameterName", "rate"}, {"type", "DOUBLE"}, {"minValue", 0.1}, {"maxValue", 1}}}}};
  const auto submit = [&](const std::string& name, const std::string& package, json more) {
    json input = {{"pythonModule", "trainer.task"}, {"packageUris", {package}}, {"hyperparameters", search}};
    input.update(more);
    ASSERT_TRUE(service_->Submit(json{{"jobId", name}, {"trainingInput", input}}.dump()).ok());
  };
  const std::string gone = Package("models", "gone.tar.gz");
  submit("lost", gone, json::object());
  submit("large", Package("models", "there.tar.gz"), {{"scaleTier", "BASIC_GPU"}});
  std::filesystem::remove(service_->objects().PathOf(gone).value());
  for (const char* name : {"lost", "large"}) {
    for (int rounds = 0; rounds < 10 && !IsOver(service_->Find(name)->state); ++rounds) {
      ASSERT_TRUE(service_->Work().ok());
    }
  }
  const auto log = [&](const std::string& name) {
    return ReadTextFile(service_->FolderOf(name).job_dir() + "/logs/service.log").value();
  };
  EXPECT_THAT(log("lost"), HasSubstr("trial 1 failed: there is no package " + gone)) << "as it was to start";
  EXPECT_THAT(log("large"), HasSubstr("trial 1 failed: it asks for 1 GPU")) << "in the queue";
}

TEST_F(JobServiceTest, LabelsAreNotSetOverThoseOfAnotherClient) {
  ASSERT_TRUE(Submit("one", {Package("models", "t.tar.gz")}).ok());
  const std::string read = ResourceOf(*service_->Find("one"))["etag"];
  ASSERT_TRUE(service_->SetLabels("one", {{"team", "a"}}, read).ok());
  EXPECT_EQ(service_->SetLabels("one", {{"team", "b"}}, read).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(service_->Find("one")->labels, (Labels{{"team", "a"}}));
}

TEST_F(JobServiceTest, AJobThatIsNotOverIsNotDeleted) {
  ASSERT_TRUE(Submit("one", {Package("models", "t.tar.gz")}).ok());
  EXPECT_EQ(service_->Delete("one").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(service_->Find("one").ok());
}

TEST_F(JobServiceTest, AJobThatIsCancelledWhileItIsStagedIsNotStarted) {
  const json input = {
      {"pythonModule", "trainer.task"}, {"packageUris", {Package("models", "t.tar.gz")}}, {"region", "x"}};
  ASSERT_TRUE(service_->Submit(json{{"jobId", "one"}, {"trainingInput", input}}.dump()).ok());
  const RunFolder folder = service_->FolderOf("one");
  const std::string log = folder.job_dir() + "/logs/service.log";
  std::filesystem::create_directories(folder.job_dir() + "/logs");
  std::filesystem::remove_all(folder.Own(""));  // it comes back as the job is staged
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);      // that the region has no meaning here is told once somebody reads it
  std::thread works([&] { EXPECT_TRUE(service_->Work().ok()); });
  while (!std::filesystem::exists(folder.Own(""))) poll(nullptr, 0, 5);
  EXPECT_TRUE(service_->Cancel("one").ok());
  std::ifstream reader(log);
  works.join();
  const RunSeen seen = folder.Look();
  EXPECT_FALSE(seen.started || seen.alive);
  EXPECT_TRUE(service_->Work().ok());
  EXPECT_EQ(service_->Find("one")->state, JobState::kCancelled);
}

TEST_F(JobServiceTest, AJobIsNotSubmittedIntoTheFolderOfAnUnknownOne) {
  std::filesystem::create_directories(service_->FolderOf("one").job_dir());
  const absl::Status refused = Submit("one", {Package("models", "t.tar.gz")});
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("jobs/one is of a job that this service does not know: move"));
}

TEST(JobServiceQueueTest, ARoundGoesOnBehindAJobWithAnError) {
  const ScratchFolder folder;
  const std::string program = "/bin/true";
  const auto service =
      JobService::Open({.root = folder.path(), .backend = {.program = program, .room = {.cores = 100}}}).value();
  for (const std::string name : {"first", "second"}) {
    ASSERT_TRUE(service->Submit(json{{"jobId", name}, {"jobFile", kJob}}.dump()).ok());
  }
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((folder.path() + "/jobs.sqlite").c_str(), &other), SQLITE_OK);
  const char* refuse =
      "CREATE TRIGGER t BEFORE UPDATE ON jobs WHEN NEW.name = 'first' BEGIN SELECT RAISE(FAIL, ''); END";
  ASSERT_EQ(sqlite3_exec(other, refuse, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  while (service->Find("second")->state != JobState::kSucceeded) {
    EXPECT_FALSE(service->Work().ok());
    poll(nullptr, 0, 5);
  }
  EXPECT_EQ(service->Find("first")->state, JobState::kQueued);
}

TEST(JobServiceQueueTest, ClientsAreAnsweredWhileAJobsNeedIsReckoned) {
  const ScratchFolder folder;
  std::unique_ptr<JobService> service;
  const auto cancel_both = [&](const JobFileResult& read) -> uint64_t {
    for (const char* name : {"large", "small"}) (void)service->Cancel(name);
    return read.job.name == "large" ? 1 : 0;
  };
  service = JobService::Open({.root = folder.path(), .backend = {.memory_of = cancel_both}}).value();
  for (const std::string name : {"large", "small"}) {
    ASSERT_TRUE(service->Submit(json{{"jobId", name}, {"jobFile", With("name: mnist", "name: " + name)}}.dump()).ok());
  }
  EXPECT_TRUE(service->Work().ok());
  for (const char* name : {"large", "small"}) {
    EXPECT_EQ(service->Find(name)->state, JobState::kCancelled) << name;
    EXPECT_FALSE(std::filesystem::exists(service->FolderOf(name).job_dir() + "/logs/service.log"))
        << "nothing more is said of it";
  }
}

TEST(JobServiceQueueTest, AJobIsNotJudgedAsTheOneThatHadItsNameBefore) {
  const ScratchFolder folder;
  std::unique_ptr<JobService> service;
  const std::string body = json{{"jobId", "one"}, {"jobFile", kJob}}.dump();
  const auto replace_it = [&](const JobFileResult&) -> uint64_t {
    const int64_t created_ms = service->Find("one")->created_ms;
    EXPECT_TRUE(service->Cancel("one").ok());
    EXPECT_TRUE(service->Delete("one").ok());
    while (UnixMs() == created_ms) std::this_thread::yield();
    EXPECT_TRUE(service->Submit(body).ok());
    return 1;  // more than there is
  };
  service = JobService::Open({.root = folder.path(), .backend = {.memory_of = replace_it}}).value();
  ASSERT_TRUE(service->Submit(body).ok());
  EXPECT_TRUE(service->Work().ok());
  EXPECT_EQ(service->Find("one")->state, JobState::kQueued);
}

}  // namespace
}  // namespace downpour
