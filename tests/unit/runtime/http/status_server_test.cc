#include "runtime/http/status_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "tests/unit/patient_client.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class StatusServerTest : public ::testing::Test {
 protected:
  void Open(HttpSettings settings = {}) {
    auto opened = StatusServer::Open(
        settings, &mailbox, [](const std::string& status) { return "of " + status; }, "s3cret");
    ASSERT_TRUE(opened.ok()) << opened.status();
    server = *std::move(opened);
  }
  // What a role does with one request.
  void AnswerOne(const std::string& status) {
    pollfd wait{mailbox.fd(), POLLIN, 0};
    poll(&wait, 1, -1);
    for (const Input& input : mailbox.Take()) {
      const auto& received = std::get<Received>(input);
      EXPECT_EQ(received.from, kStatusServer);
      EXPECT_EQ(std::get<StatusRequest>(received.message).secret, "s3cret");
      server->Answer(status);
    }
  }
  httplib::Result Get(const std::string& path, const httplib::Headers& headers = {}) {
    PatientClient client(server->address());
    return client.Get(path, headers);
  }

  Mailbox mailbox;
  std::unique_ptr<StatusServer> server;
};

TEST_F(StatusServerTest, AScrapeIsMadeOfTheRolesStatusAsOfNow) {
  Open();
  for (const std::string status : {"one", "two"}) {
    std::thread role([&] { AnswerOne(status); });
    const httplib::Result result = Get("/metrics");
    role.join();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 200);
    EXPECT_EQ(result->body, "of " + status);
    EXPECT_THAT(result->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  }
}

TEST_F(StatusServerTest, NothingElseIsServedAndNoOneElseIsAnswered) {
  Open();
  EXPECT_EQ(Get("/")->status, 404);
  EXPECT_EQ(Get("/metrics", {{"Origin", "http://evil.example"}})->status, 403);
  EXPECT_EQ(Get("/metrics", {{"Host", "evil.example"}})->status, 403);
  EXPECT_FALSE(mailbox.has_mail()) << "the role was not even asked";
}

TEST_F(StatusServerTest, AServerThatEndsKeepsNobodyWaiting) {
  Open();
  std::optional<int> status;
  std::thread asks([&, address = server->address()] {
    PatientClient client(address);
    const httplib::Result result = client.Get("/metrics");
    if (result) status = result->status;
  });
  pollfd wait{mailbox.fd(), POLLIN, 0};
  poll(&wait, 1, -1);
  server.reset();
  asks.join();
  EXPECT_TRUE(!status || status == 503);
}

TEST_F(StatusServerTest, OtherAddressesNeedATokenAndACertificate) {
  const auto why = [&](const HttpSettings& settings) {
    return std::string(StatusServer::Open(settings, &mailbox, nullptr).status().message());
  };
  EXPECT_THAT(why({.listen = "0.0.0.0:0"}), HasSubstr("others can reach 0.0.0.0:0: give a token file, a certificate"));
  EXPECT_THAT(why({.listen = "9100"}), HasSubstr("HOST:PORT"));
  EXPECT_THAT(why({.token_file = "/nowhere"}), HasSubstr("the token file /nowhere is no file"));
  const std::string path = ::testing::TempDir() + "token";
  std::ofstream(path) << "0123456789abcdef";
  chmod(path.c_str(), 0644);
  EXPECT_THAT(why({.token_file = path}), HasSubstr("chmod 600"));
  unlink(path.c_str());
}

}  // namespace
}  // namespace downpour
