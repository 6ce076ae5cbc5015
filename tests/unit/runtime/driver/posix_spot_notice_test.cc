#include "runtime/driver/posix_spot_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace downpour {
namespace {

using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(30);  // a test that waits longer has failed

// A metadata server on loopback, and what the watch of it told.
class SpotNoticeTest : public testing::Test {
 protected:
  void Serve() {
    port_ = server_.bind_to_any_port("127.0.0.1");
    ASSERT_GT(port_, 0);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  void TearDown() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  std::unique_ptr<SpotNotice> Watch() {
    return std::make_unique<SpotNotice>("http://127.0.0.1:" + std::to_string(port_),
                                        [this](const std::string& what) { told_.set_value(what); });
  }
  std::string Told() {
    std::future<std::string> told = told_.get_future();
    return told.wait_for(kPatience) == std::future_status::ready ? told.get() : "nothing";
  }

  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
  std::promise<std::string> told_;
};

// Answers as GCE does, but only whoever says that it knows GCE.
auto Google(std::function<std::string()> value) {
  return [value = std::move(value)](const httplib::Request& request, httplib::Response& response) {
    response.status = request.get_header_value("Metadata-Flavor") == "Google" ? 200 : 403;
    response.set_header("Metadata-Flavor", "Google");
    response.set_content(value(), "application/text");
  };
}

TEST_F(SpotNoticeTest, GoogleSaysThatItPreempts) {
  std::atomic<int> asked = 0;
  server_.Get("/computeMetadata/v1/instance/preempted", Google([&] { return ++asked < 3 ? "FALSE" : "TRUE"; }));
  server_.Get("/computeMetadata/v1/instance/maintenance-event", Google([] { return "NONE"; }));
  Serve();
  const auto watch = Watch();
  EXPECT_EQ(Told(), "a notice of GCE: it preempts this machine");
  EXPECT_EQ(asked.load(), 3);
}

TEST_F(SpotNoticeTest, GoogleSaysThatItStopsForMaintenance) {
  std::atomic<int> asked = 0;
  server_.Get("/computeMetadata/v1/instance/preempted", Google([] { return "FALSE"; }));
  server_.Get("/computeMetadata/v1/instance/maintenance-event",
              Google([&] { return ++asked < 2 ? "MIGRATE_ON_HOST_MAINTENANCE" : "TERMINATE_ON_HOST_MAINTENANCE"; }));
  Serve();
  const auto watch = Watch();
  EXPECT_EQ(Told(), "a notice of GCE: it stops this machine for maintenance");
  EXPECT_EQ(asked.load(), 2) << "a machine that is moved while it runs goes on";
}

// Each token is good for one question here.
TEST_F(SpotNoticeTest, AmazonSaysThatItTerminates) {
  std::atomic<int> tokens = 0, asked = 0;
  server_.Put("/latest/api/token", [&](const httplib::Request& request, httplib::Response& response) {
    if (!request.has_header("X-aws-ec2-metadata-token-ttl-seconds")) return;
    response.set_content("token-" + std::to_string(++tokens), "text/plain");
  });
  server_.Get("/latest/meta-data/spot/instance-action",
              [&](const httplib::Request& request, httplib::Response& response) {
                const bool fresh = request.get_header_value("X-aws-ec2-metadata-token") == "token-2";
                response.status = !fresh ? 401 : ++asked < 2 ? 404 : 200;
                if (response.status == 200) response.set_content(R"({"action": "terminate"})", "application/json");
              });
  Serve();
  const auto watch = Watch();
  EXPECT_THAT(Told(), HasSubstr(R"(a notice of EC2: it takes this spot machine away: {"action": "terminate"})"));
  EXPECT_EQ(tokens.load(), 2);
}

TEST_F(SpotNoticeTest, WhatIsNoCloudsServerIsAskedOnceAndNoMore) {
  std::promise<void> all_asked;
  std::atomic<int> asked = 0;
  server_.Get("/computeMetadata/v1/instance/preempted", [&](const httplib::Request&, httplib::Response& response) {
    ++asked;
    response.set_content("TRUE", "text/plain");  // but it does not say that it is Google's
  });
  server_.Put("/latest/api/token", [&](const httplib::Request&, httplib::Response& response) {
    ++asked;
    response.status = 404;
    all_asked.set_value();
  });
  Serve();
  auto watch = Watch();
  ASSERT_EQ(all_asked.get_future().wait_for(kPatience), std::future_status::ready);
  watch.reset();
  EXPECT_EQ(asked.load(), 2);
}

// Whoever waited for the answer would ask whether it is the other cloud's then.
TEST_F(SpotNoticeTest, TheEndWaitsForNoAnswer) {
  std::promise<void> all_asked, over;
  std::atomic<int> asked = 0;
  server_.Get("/computeMetadata/v1/instance/preempted", [&](const httplib::Request&, httplib::Response&) {
    ++asked;
    all_asked.set_value();
    over.get_future().wait();
  });
  server_.Put("/latest/api/token", [&](const httplib::Request&, httplib::Response&) { ++asked; });
  Serve();
  auto watch = Watch();
  ASSERT_EQ(all_asked.get_future().wait_for(kPatience), std::future_status::ready);
  watch.reset();
  over.set_value();
  EXPECT_EQ(asked.load(), 1);
}

TEST_F(SpotNoticeTest, WhereNobodyAnswersItEndsWithoutAWord) {
  port_ = 1;
  Watch().reset();
  EXPECT_EQ(told_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

TEST(SpotNoticeCheckTest, AServerIsAnHttpAddress) {
  EXPECT_TRUE(SpotNotice::Check(SpotNotice::kServer).ok());
  for (const char* server : {"", "metadata", "https://h", "ftp://h:1"}) {
    EXPECT_EQ(SpotNotice::Check(server).code(), absl::StatusCode::kInvalidArgument) << server;
  }
}

}  // namespace
}  // namespace downpour
