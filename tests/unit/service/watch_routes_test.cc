#include "service/watch_routes.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/patient_client.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;

class WatchRoutesTest : public testing::Test {
 protected:
  void SetUp() override {
    AddWatchRoutes(server_, *service_);
    port_ = server_.bind_to_any_port("127.0.0.1");
    ASSERT_GT(port_, 0);
    serves_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();  // stop() of one that does not run yet does nothing
  }
  void TearDown() override {
    server_.stop();
    if (serves_.joinable()) serves_.join();
  }
  json StatusOf(const std::string& name) const {
    const auto answer = PatientClient("127.0.0.1", port_).Get(absl::StrCat("/v1/projects/p/jobs/", name, "/status"));
    return answer ? json::parse(answer->body) : json("no answer");
  }

  ScratchFolder folder_;
  const std::unique_ptr<JobService> service_ = JobService::Open({.root = folder_.path() + "/jobs"}).value();
  httplib::Server server_;
  int port_ = 0;
  std::thread serves_;
};

TEST_F(WatchRoutesTest, TheStateIsNoOlderThanWhatTheChiefSays) {
  const json job = {{"jobId", "one"},
                    {"trainingInput", {{"pythonModule", "trainer.task"}, {"packageUris", {"gs://models/t.tar.gz"}}}}};
  ASSERT_TRUE(service_->objects().Store({.bucket = "models", .name = "t.tar.gz"}, "").ok());
  const absl::StatusOr<Job> submitted = service_->Submit(job.dump());
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  const FakeChief chief([this] {
    EXPECT_TRUE(service_->Cancel("one").ok());  // while its chief is asked
    return Encode(StatusReply{R"({"state": "RUNNING", "chief": {"pid": 7}})"});
  });
  folder_.Write("jobs/jobs/one/chief.json",
                absl::StrCat(R"({"endpoint": ")", chief.endpoint(), R"(", "pid": 7, "term": 3})"));
  const json answer = StatusOf("one");
  EXPECT_EQ(answer["state"], "CANCELLED");
  EXPECT_EQ(answer["status"]["state"], "RUNNING");
}

}  // namespace
}  // namespace downpour
