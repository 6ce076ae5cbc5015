// The user's code of a job's folder, as it is found to answer.
#include "predict/served_code.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "job/job_file.h"
#include "runtime/posix/package.h"
#include "schema/sha256.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class ServedCodeTest : public testing::Test {
 protected:
  ServedCodeTest() {
    fs::create_directories(folder_.path() + "/code/trainer");
    fs::create_directories(folder_.path() + "/job/python");
    fs::create_directories(folder_.path() + "/cache");
    fs::permissions(folder_.path() + "/cache", fs::perms::owner_all);
    const JobFileResult job = ParseJob("name: own\npython: {module: trainer.task, sha256: " + std::string(64, 'a') +
                                           ", bytes: 1}\nmodel: {initializeFrom: /nowhere, variables: [{name: w, "
                                           "shape: [2]}]}\ndata: {format: python, trainExamples: 10}\n",
                                       "own");
    for (const JobError& error : job.errors) ADD_FAILURE() << ToString(error);
    job_ = job.job;
    Put("one = 1\n");
  }
  void Put(const std::string& program) {
    folder_.Write("code/trainer/task.py", program);
    const std::string archive = PackFolder(folder_.path() + "/code/trainer", "code-1/trainer").value();
    folder_.Write("job/python/code.tar.gz", archive);
    job_.python.sha256 = Sha256Of({Payload::CopyOf(archive.data(), archive.size())});
    job_.python.bytes = static_cast<int64_t>(archive.size());
  }
  absl::StatusOr<ServedCode> Find() { return FindServedCode(folder_.path() + "/job", job_, folder_.path() + "/cache"); }
  std::string Why() { return std::string(Find().status().message()); }

  ScratchFolder folder_;
  JobSpec job_;
};

TEST_F(ServedCodeTest, ItIsUnpackedOnce) {
  const absl::StatusOr<ServedCode> code = Find();
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(code->spec, job_.python);
  EXPECT_TRUE(fs::exists(code->unpacked.path + "/trainer/task.py"));
  EXPECT_EQ(Find()->unpacked.path, code->unpacked.path);
}

TEST_F(ServedCodeTest, CodeThatIsNotThereOrNotThatOfTheJobIsRefused) {
  folder_.Write("job/python/code.tar.gz", "other");
  EXPECT_TRUE(absl::IsDataLoss(Find().status())) << Why();
  EXPECT_THAT(Why(), HasSubstr("code.tar.gz is not the code that the job names"));
  fs::remove(folder_.path() + "/job/python/code.tar.gz");
  EXPECT_TRUE(absl::IsNotFound(Find().status()));
  EXPECT_THAT(Why(), HasSubstr("answers by its code, which the job's folder has"));
}

// A stage exchanges the folder for another, as in tools/cli/staged_code.cc.
TEST_F(ServedCodeTest, AStageMeanwhileIsNoDamage) {
  const fs::path code = folder_.path() + "/job/python", other = folder_.path() + "/job/other";
  folder_.Write("job/python/job.json", CanonicalJob(job_));
  fs::copy(code, other);
  Put("two = 2\n");
  folder_.Write("job/python/job.json", CanonicalJob(job_));
  EXPECT_TRUE(HasCodeOfItsJob(folder_.path() + "/job"));
  constexpr int kStages = 8;
  std::atomic<int> finds = 0;
  std::thread stages([&] {
    for (int i = 1; i <= kStages; ++i) {
      while (finds < i) std::this_thread::yield();
      EXPECT_EQ(renameat2(AT_FDCWD, code.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE), 0);
    }
  });
  for (int i = 1; i <= kStages; ++i) {
    finds = i;
    EXPECT_TRUE(Find().ok()) << Why();
  }
  stages.join();
  folder_.Write("job/python/code.tar.gz", "other");
  EXPECT_FALSE(HasCodeOfItsJob(folder_.path() + "/job"));
}

}  // namespace
}  // namespace downpour
