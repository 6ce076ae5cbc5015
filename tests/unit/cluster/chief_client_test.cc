#include "cluster/chief_client.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "runtime/posix/fd.h"
#include "tests/unit/cluster/fake_chief.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

// Long enough for any machine; only tests of silence wait it out, and those use less.
constexpr Duration kLong = 60s;
constexpr int kPatienceMs = 30'000;

TEST(ChiefClientTest, AsksAndAsksAgain) {
  int asked = 0;
  FakeChief chief([&] { return Encode(StatusReply{"{\"n\": " + std::to_string(++asked) + "}"}); });
  auto client = ChiefClient::Dial(chief.endpoint());
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->AskStatus(kLong).value(), "{\"n\": 1}");
  EXPECT_EQ(client->AskStatus(kLong).value(), "{\"n\": 2}");
}

TEST(ChiefClientTest, NobodyThereIsAnErrorAtOnceWithAdvice) {
  auto client = ChiefClient::Dial("127.0.0.1:1");
  ASSERT_TRUE(client.ok());
  const absl::Status status = client->AskStatus(kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot reach the chief at 127.0.0.1:1 (connection refused). Is "
                                                       "it running? A chief is started by downpour run"));
}

TEST(ChiefClientTest, AHostThatNobodyKnowsIsNamed) {
  auto client = ChiefClient::Dial("no-such-host.invalid:7000");
  ASSERT_TRUE(client.ok());
  EXPECT_THAT(std::string(client->AskStatus(kLong).status().message()), HasSubstr("no-such-host.invalid"));
}

TEST(ChiefClientTest, WhoMayNotAskSeesWhetherItIsLetIn) {
  FakeChief chief([] { return std::vector<Payload>(); });
  EXPECT_TRUE(ChiefClient::Dial(chief.endpoint())->ShakeHands(kLong).ok());
  const absl::Status nobody = ChiefClient::Dial("127.0.0.1:1")->ShakeHands(kLong);
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("connection refused"));
}

TEST(ChiefClientTest, SilenceEndsWithTheTimeout) {
  int asked = 0;
  FakeChief chief([&] { return ++asked == 1 ? Encode(StatusReply{"{}"}) : std::vector<Payload>(); });
  auto client = ChiefClient::Dial(chief.endpoint());
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE(client->AskStatus(kLong).ok());  // so that it is connected
  const absl::Status status = client->AskStatus(1s).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("connected, but no answer in 1 s"));
}

UniqueFd ListenSocket(std::string* endpoint) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  CHECK_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  CHECK_EQ(listen(listener.get(), SOMAXCONN), 0);
  CHECK_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  *endpoint = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  return listener;
}

// The kernel takes its calls, until the handshake has timed out and beyond.
TEST(ChiefClientTest, AChiefThatStandsStillDoesNotHangUp) {
  std::string endpoint;
  const UniqueFd listener = ListenSocket(&endpoint);
  auto client = ChiefClient::Dial(endpoint);
  ASSERT_TRUE(client.ok());
  const absl::Status status = client->AskStatus(4s).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("connected, but no answer in 4 s). It may be stopped"));
}

TEST(ChiefClientTest, ARefusalIsPassedOn) {
  FakeChief chief([] { return Encode(Refused{RefusalCode::kProtocolVersion, true, "speak protocol 2"}); });
  auto client = ChiefClient::Dial(chief.endpoint());
  const absl::Status status = client->AskStatus(kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("speak protocol 2"));
}

TEST(ChiefClientTest, ItsSecretIsInAllThatItSays) {
  std::vector<std::string> said;
  FakeChief chief([&](const Message& message) {
    if (const auto* command = std::get_if<Control>(&message)) {
      said.push_back(command->secret);
      return Encode(ControlReply{command->nonce, ControlVerdict::kAccepted, ""});
    }
    said.push_back(std::get<StatusRequest>(message).secret);
    return Encode(StatusReply{"{}"});
  });
  auto client = ChiefClient::Dial(chief.endpoint());
  client->UseSecret("0123");
  ASSERT_TRUE(client->AskStatus(kLong).ok());
  ASSERT_TRUE(client->Tell({.nonce = 5}, kLong).ok());
  EXPECT_THAT(said, ::testing::ElementsAre("0123", "0123"));
  client->TakeLeave();
  while (!chief.last_request().knows_end) poll(nullptr, 0, /*milliseconds=*/1);
  EXPECT_EQ(chief.last_request().secret, "0123");
}

TEST(ChiefClientTest, WhoLacksTheSecretIsToldWhereItIs) {
  FakeChief chief([] { return Encode(Refused{.code = RefusalCode::kSecretWanted, .why = "it wants its secret"}); });
  auto client = ChiefClient::Dial(chief.endpoint());
  const absl::Status status = client->AskStatus(kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("refuses: it wants its secret. Give --job-dir DIR, that folder, in place of --chief"));
  client->UseSecret("0123");
  EXPECT_THAT(std::string(client->AskStatus(kLong).status().message()), HasSubstr("another one than ours"));
}

// ZeroMQ's thread, which dials, waits where nobody reads what became of its attempts: three things for each of these.
TEST(ChiefClientTest, WhoeverOnlyTakesIsDialledForAfterAThousandHangUps) {
  constexpr int kHangUps = 800;
  std::string endpoint;
  const UniqueFd listener = ListenSocket(&endpoint);
  auto client = ChiefClient::Dial(endpoint);
  ASSERT_TRUE(client.ok());
  for (int i = 0; i < kHangUps; ++i) {
    pollfd dialled{listener.get(), POLLIN, 0};
    ASSERT_EQ(poll(&dialled, 1, kPatienceMs), 1) << "after " << i << " hang-ups";
    UniqueFd(accept(listener.get(), nullptr, nullptr));  // hangs up
    ASSERT_TRUE(client->TryTake().ok());
  }
}

TEST(ChiefClientTest, WhatIsNoEndpointIsRefused) {
  EXPECT_EQ(ChiefClient::Dial("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace downpour
