#include "runtime/process/spot_notice.h"

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

// A metadata server on loopback.
class MetadataServer {
 public:
  ~MetadataServer() {
    answers.stop();
    if (thread_.joinable()) thread_.join();
  }
  void Serve() {
    const int port = answers.bind_to_any_port("127.0.0.1");
    ASSERT_GT(port, 0);
    url_ = "http://127.0.0.1:" + std::to_string(port);
    thread_ = std::thread([this] { answers.listen_after_bind(); });
  }
  const std::string& url() const { return url_; }

  httplib::Server answers;

 private:
  std::string url_ = "http://127.0.0.1:1";  // where nobody answers
  std::thread thread_;
};

// One server, and what the watch of it told.
class SpotNoticeTest : public testing::Test {
 protected:
  std::unique_ptr<SpotNotice> Watch(SpotNotice::Pace pace = {}) {
    return std::make_unique<SpotNotice>(server_.url(), pace,
                                        [this](const std::string& what) { told_.set_value(what); });
  }
  std::string Told() {
    std::future<std::string> told = told_.get_future();
    return told.wait_for(kPatience) == std::future_status::ready ? told.get() : "nothing";
  }

  MetadataServer server_;
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
  server_.answers.Get("/computeMetadata/v1/instance/preempted", Google([&] { return ++asked < 3 ? "FALSE" : "TRUE"; }));
  server_.answers.Get("/computeMetadata/v1/instance/maintenance-event", Google([] { return "NONE"; }));
  server_.Serve();
  const auto watch = Watch();
  EXPECT_EQ(Told(), "a notice of GCE: it preempts this machine");
  EXPECT_EQ(asked.load(), 3);
}

TEST_F(SpotNoticeTest, GoogleSaysThatItStopsForMaintenance) {
  std::atomic<int> asked = 0;
  server_.answers.Get("/computeMetadata/v1/instance/preempted", Google([] { return "FALSE"; }));
  server_.answers.Get("/computeMetadata/v1/instance/maintenance-event", Google([&] {
                        return ++asked < 2 ? "MIGRATE_ON_HOST_MAINTENANCE" : "TERMINATE_ON_HOST_MAINTENANCE";
                      }));
  server_.Serve();
  const auto watch = Watch();
  EXPECT_EQ(Told(), "a notice of GCE: it stops this machine for maintenance");
  EXPECT_EQ(asked.load(), 2) << "a machine that is moved while it runs goes on";
}

// Each token is good for one question here.
TEST_F(SpotNoticeTest, AmazonSaysThatItTerminates) {
  std::atomic<int> tokens = 0, asked = 0;
  server_.answers.Put("/latest/api/token", [&](const httplib::Request& request, httplib::Response& response) {
    if (!request.has_header("X-aws-ec2-metadata-token-ttl-seconds")) return;
    response.set_content("token-" + std::to_string(++tokens), "text/plain");
  });
  server_.answers.Get("/latest/meta-data/spot/instance-action",
                      [&](const httplib::Request& request, httplib::Response& response) {
                        const bool fresh = request.get_header_value("X-aws-ec2-metadata-token") == "token-2";
                        response.status = !fresh ? 401 : ++asked < 2 ? 404 : 200;
                        if (response.status == 200)
                          response.set_content(R"({"action": "terminate"})", "application/json");
                      });
  server_.Serve();
  const auto watch = Watch();
  EXPECT_THAT(Told(), HasSubstr(R"(a notice of EC2: it takes this spot machine away: {"action": "terminate"})"));
  EXPECT_EQ(tokens.load(), 2);
}

// As at boot, when it is not ready: it fails, then it hangs up amid an answer.
TEST_F(SpotNoticeTest, WhoeverDoesNotAnswerAsACloudYetIsAskedAgain) {
  std::atomic<int> asked = 0;
  const auto google = Google([] { return "TRUE"; });
  server_.answers.Get("/computeMetadata/v1/instance/preempted",
                      [&](const httplib::Request& request, httplib::Response& response) {
                        if (++asked == 1) {
                          response.status = 503;
                        } else if (asked == 2) {
                          const auto hang_up = [](size_t, size_t, httplib::DataSink&) { return false; };
                          response.set_content_provider(4, "application/text", hang_up);
                        } else {
                          google(request, response);
                        }
                      });
  server_.Serve();
  const auto watch = Watch({.every = std::chrono::milliseconds(10)});
  EXPECT_EQ(Told(), "a notice of GCE: it preempts this machine");
}

// A server that is no cloud's. Counts how often it was asked.
class NoCloud {
 public:
  NoCloud() {
    server_.answers.Get("/computeMetadata/v1/instance/preempted",
                        [](const httplib::Request&, httplib::Response& response) {
                          response.set_content("TRUE", "text/plain");  // but it does not say that it is Google's
                        });
    server_.answers.Put("/latest/api/token", [this](const httplib::Request&, httplib::Response& response) {
      response.status = 404;
      if (++asked_ == 1) once_.set_value();
      if (asked_ == kOften) often_.set_value();
    });
    server_.Serve();
  }
  const std::string& url() const { return server_.url(); }
  bool AwaitFirst() { return once_.get_future().wait_for(kPatience) == std::future_status::ready; }
  bool AwaitMany() { return often_.get_future().wait_for(kPatience) == std::future_status::ready; }
  int asked() const { return asked_; }

 private:
  static constexpr int kOften = 20;
  std::atomic<int> asked_ = 0;
  std::promise<void> once_, often_;
  MetadataServer server_;  // last: it uses the others
};

// Beside one that is asked on.
TEST(SpotNoticePaceTest, WhatIsNoCloudsServerIsAskedInVainForAsLongAsPatienceLasts) {
  constexpr Duration kEvery = std::chrono::milliseconds(10);
  const auto fail = [](const std::string& what) { ADD_FAILURE() << what; };
  NoCloud soon_left, asked_on;
  const SpotNotice impatient(soon_left.url(), {.every = kEvery, .patience = Duration::zero()}, fail);
  ASSERT_TRUE(soon_left.AwaitFirst());
  const SpotNotice patient(asked_on.url(), {.every = kEvery}, fail);
  EXPECT_TRUE(asked_on.AwaitMany());
  EXPECT_EQ(soon_left.asked(), 1);
}

// Whoever waited for the answer would ask whether it is the other cloud's then.
TEST_F(SpotNoticeTest, TheEndWaitsForNoAnswer) {
  struct Asked {
    std::promise<void> first, over;
    std::atomic<int> times = 0;
  };
  const auto asked = std::make_shared<Asked>();  // the answer that nobody waits for may outlast this test
  server_.answers.Get("/computeMetadata/v1/instance/preempted", [asked](const httplib::Request&, httplib::Response&) {
    ++asked->times;
    asked->first.set_value();
    asked->over.get_future().wait();
  });
  server_.answers.Put("/latest/api/token", [asked](const httplib::Request&, httplib::Response&) { ++asked->times; });
  server_.Serve();
  auto watch = Watch();
  ASSERT_EQ(asked->first.get_future().wait_for(kPatience), std::future_status::ready);
  watch.reset();
  asked->over.set_value();
  EXPECT_EQ(asked->times.load(), 1);
}

TEST_F(SpotNoticeTest, WhereNobodyAnswersItEndsWithoutAWord) {
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
