#include "runtime/zmq/member_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/reflection.h"
#include "runtime/posix/process.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// The exit code of a member's command line, and what it says.
std::pair<std::optional<int>, std::string> Begin(std::vector<const char*> words) {
  words.insert(words.begin(), "downpour-worker");
  const absl::FlagSaver saver;
  testing::internal::CaptureStderr();
  const std::optional<int> code =
      BeginMember(static_cast<int>(words.size()), words.data(), {"downpour-worker", "", ""}, "worker");
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(BeginMemberTest, AddressesThatAreNoneEndItAtOnce) {
  for (const char* chief : {"--chief=localhost", "--chief=h0:0", "--chief=h0:70000", "--chief=tcp://h0:7000"}) {
    const auto [code, said] = Begin({chief});
    EXPECT_EQ(code, 2) << chief;
    EXPECT_THAT(said, HasSubstr("downpour-worker: --chief: "));
  }
  const auto [code, said] = Begin({});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(said, HasSubstr("--chief=HOST:PORT is missing"));
}

TEST(BeginMemberTest, IndicesBelowThatOfAFreeOneEndItAtOnce) {
  const auto [code, said] = Begin({"--chief=h0:7000", "--index=-5"});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(said, HasSubstr("--index=-5: "));
}

TEST(BeginMemberTest, WhatEveryRoleWouldRefuseEndsItBeforeItBegins) {
  const auto [code, said] = Begin({"--chief=h0:7000", "--metadata_server=gopher://h"});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(said, HasSubstr("downpour-worker: a metadata server is http://HOST:PORT"));
  const auto [code_of_keys, said_of_keys] = Begin({"--chief=h0:7000", "--metadata_server=", "--keys=/nowhere"});
  EXPECT_EQ(code_of_keys, 2);
  EXPECT_THAT(said_of_keys, HasSubstr("/nowhere"));
}

TEST(OutOfReachTest, AServerAloneOnItsMachineIsWarnedOf) {
  EXPECT_THAT(OutOfReach("10.0.0.1:7000", "127.0.0.1:0"), HasSubstr("where only workers of this machine reach it"));
  EXPECT_THAT(OutOfReach("h0.example:7000", "ipc:///tmp/x"), HasSubstr("its chief is at h0.example:7000"));
  for (const char* chief : {"127.0.0.1:7000", "localhost:7000", "ipc:///tmp/chief"}) {
    EXPECT_EQ(OutOfReach(chief, "127.0.0.1:0"), "") << chief;
  }
  EXPECT_EQ(OutOfReach(HostName() + ":7000", "127.0.0.1:0"), "");
  EXPECT_EQ(OutOfReach("10.0.0.1:7000", "10.0.0.2:0"), "");
}

}  // namespace
}  // namespace downpour
