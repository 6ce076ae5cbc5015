#include "tools/chief_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/fake_chief.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

// Long enough for any machine; only tests of silence wait it out, and those use less.
constexpr Duration kLong = 60s;

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

TEST(ChiefClientTest, ARefusalIsPassedOn) {
  FakeChief chief([] { return Encode(Refused{RefusalCode::kProtocolVersion, true, "speak protocol 2"}); });
  auto client = ChiefClient::Dial(chief.endpoint());
  const absl::Status status = client->AskStatus(kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("speak protocol 2"));
}

TEST(ChiefClientTest, WhatIsNoEndpointIsRefused) {
  EXPECT_EQ(ChiefClient::Dial("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace downpour
