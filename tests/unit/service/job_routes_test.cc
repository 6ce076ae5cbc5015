#include "service/job_routes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/patient_client.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;

class JobRoutesTest : public testing::Test {
 protected:
  void SetUp() override {
    AddJobRoutes(server_, *service_);
    AddLogRoutes(server_, *service_);
    port_ = server_.bind_to_any_port("127.0.0.1");
    ASSERT_GT(port_, 0);
    serves_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();  // stop() of one that does not run yet does nothing
    ASSERT_TRUE(service_->objects().Store({.bucket = "models", .name = "t.tar.gz"}, "").ok());
    const json input = {{"pythonModule", "trainer.task"}, {"packageUris", {"gs://models/t.tar.gz"}}};
    ASSERT_TRUE(service_->Submit(json{{"jobId", "one"}, {"trainingInput", input}}.dump()).ok());
  }
  void TearDown() override {
    server_.stop();
    if (serves_.joinable()) serves_.join();
  }
  httplib::Result Post(const std::string& path, const std::string& body, const std::string& type) const {
    return PatientClient("127.0.0.1", port_).Post(path, body, type);
  }
  // The words of each page.
  std::vector<std::vector<std::string>> Pages(json asked) const {
    std::vector<std::vector<std::string>> pages;
    do {
      const httplib::Result answer = Post(kEntriesPath, asked.dump(), "application/json");
      EXPECT_TRUE(answer && answer->status == 200) << answer->body;
      const json page = json::parse(answer->body);
      pages.emplace_back();
      for (const json& entry : page.value("entries", json::array())) pages.back().push_back(entry["textPayload"]);
      asked["pageToken"] = page.value("nextPageToken", "");
    } while (asked["pageToken"] != "");
    return pages;
  }

  ScratchFolder folder_;
  const std::unique_ptr<JobService> service_ = JobService::Open({.root = folder_.path()}).value();
  httplib::Server server_;
  int port_ = 0;
  std::thread serves_;
};

using Words = std::vector<std::vector<std::string>>;

TEST_F(JobRoutesTest, ALogComesInPagesFromEachOfItsEnds) {
  folder_.Write("jobs/one/logs/ps-0.log", "I 2026-01-31 10:00:00.001 a\nwords\nI 2026-01-31 10:00:00.004 d\n");
  folder_.Write("jobs/one/logs/chief.log", "I 2026-01-31 10:00:00.002 b\nE 2026-01-31 10:00:00.003 c\n");
  json asked = {{"filter", "resource.labels.job_id=\"one\""}, {"pageSize", 2}};
  EXPECT_EQ(Pages(asked), (Words{{"a", "b"}, {"c", "words"}, {"d"}}));
  asked["orderBy"] = "timestamp desc";
  EXPECT_EQ(Pages(asked), (Words{{"d", "words"}, {"c", "b"}, {"a"}}));
  asked["filter"] = "resource.labels.job_id=\"one\" AND severity=ERROR";
  EXPECT_EQ(Pages(asked), (Words{{"c"}}));
}

TEST_F(JobRoutesTest, ATokenThatNamesNoEntryIsRefused) {
  folder_.Write("jobs/one/logs/ps-0.log", "I 2026-01-31 10:00:00.001 a\nI 2026-01-31 10:00:00.002 b\n");
  json asked = {{"filter", "resource.labels.job_id=\"one\""}, {"pageSize", 1}, {"orderBy", "timestamp desc"}};
  const std::string type = "application/json";
  const std::string token = json::parse(Post(kEntriesPath, asked.dump(), type)->body)["nextPageToken"];
  asked["pageToken"] = token.substr(0, token.find('.') + 1) + "ps-replica-0-7";
  EXPECT_EQ(Post(kEntriesPath, asked.dump(), type)->status, 400);
}

TEST_F(JobRoutesTest, APageEndsThoughTheFilterHeldForFewOfItsLines) {
  std::string words = "E 2026-01-31 10:00:00.001 early\n";
  for (int i = 0; i < 20'000; ++i) words += "I 2026-01-31 10:00:00.002 chatter\n";
  folder_.Write("jobs/one/logs/ps-0.log", words + "E 2026-01-31 10:00:00.003 late\n");
  EXPECT_EQ(Pages({{"filter", "resource.labels.job_id=\"one\" AND severity=ERROR"}}), (Words{{"early"}, {"late"}}));
}

TEST_F(JobRoutesTest, AFormIsRefused) {
  const std::string form = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{}\r\n--x--\r\n";
  const httplib::Result answer = Post("/v1/projects/p/jobs", form, "multipart/form-data; boundary=x");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(json::parse(answer->body)["error"]["status"], "INVALID_ARGUMENT");
}

TEST_F(JobRoutesTest, AJobWithoutTrialsHasNoTrainingOutput) {
  const httplib::Result answer = PatientClient("127.0.0.1", port_).Get("/v1/projects/p/jobs/one");
  EXPECT_FALSE(json::parse(answer->body).contains("trainingOutput"));
}

}  // namespace
}  // namespace downpour
