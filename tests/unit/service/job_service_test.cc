// What becomes of packages. All else of the service: tests/process/test_job_service.py.
#include "service/job_service.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;

class JobServiceTest : public testing::Test {
 protected:
  std::string Package(const std::string& bucket, const std::string& name) {
    const std::string upload = service_->objects().Begin(bucket, name).value();
    EXPECT_TRUE(service_->objects().Finish(upload).ok());
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

}  // namespace
}  // namespace downpour
