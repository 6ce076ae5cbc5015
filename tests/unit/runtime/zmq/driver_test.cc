#include "runtime/zmq/driver.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/exit_code.h"
#include "tests/unit/runtime/few_descriptors.h"
#include "tests/unit/runtime/zmq/test_peer.h"
#include "tests/unit/runtime/zmq/test_roles.h"

namespace downpour {
namespace {

using testing::HasSubstr;
class ZmqDriverTest : public testing::TestWithParam<bool> {
 protected:
  std::string listen() const { return GetParam() ? "127.0.0.1:0" : "ipc://" + dir_ / "s"; }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(TcpAndIpc, ZmqDriverTest, testing::Bool(),
                         [](const auto& about) { return about.param ? "tcp" : "ipc"; });

TEST(ZmqDriverLogTest, WhatIsQuotedBeginsNoLineOfItsOwn) {
  testing::internal::CaptureStderr();
  Running role("", std::make_unique<FunctionRole>([](Input&, Effects& effects) {
                 effects.Warn("said \"sad\nE 2024-01-01 00:00:00.000 forged\"");
                 effects.Add(Exit{1, "gone:\na reason"});
               }));
  role.join();
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, HasSubstr("said \"sad E 2024-01-01 00:00:00.000 forged\"\n"));
  EXPECT_THAT(logged, HasSubstr("gone: a reason\n"));
}

TEST(ZmqDriverLogTest, AMessageThatItsReceiverWouldRefuseIsNamedAndNotSent) {
  testing::internal::CaptureStderr();
  Running role("127.0.0.1:0", std::make_unique<FunctionRole>([](Input& input, Effects& effects) {
                 // It ends once the answer has come: last words are given a second, which a busy machine may need.
                 if (As<Leave>(input) != nullptr) effects.Add(Exit{1, "done"});
                 if (As<StatusRequest>(input) == nullptr) return;
                 WorkRequest large;
                 large.holding.resize(kMaxItems + 1);
                 effects.SendTo(From(input), large);
                 effects.SendTo(From(input), StatusReply{"the next one"});
               }));
  TestPeer peer(role.endpoint());
  peer.Send(StatusRequest{});
  EXPECT_EQ(peer.Receive<StatusReply>().json, "the next one");
  peer.Send(Leave{});
  role.join();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a message was not sent, since its receiver would refuse it (1 so far): "
                        "WorkRequest: a list has 131073 elements, of at most 131072\n"));
}

TEST_P(ZmqDriverTest, MessagesGoBothWaysUntilTheRoleExits) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer peer(role.endpoint());
  Push push;
  push.step = 5;
  push.slices.resize(1);
  push.slices[0].gradient = Payload::CopyOf(std::string(100'000, 'g').data(), 100'000);
  peer.Send(push);
  const PullReply echo = peer.Receive<PullReply>();
  EXPECT_EQ(echo.request, 5u);
  ASSERT_EQ(echo.slices.size(), 1u);
  ASSERT_EQ(echo.slices[0].values.size(), 100'000u);
  EXPECT_EQ(std::memcmp(echo.slices[0].values.data(), push.slices[0].gradient.data(), 100'000), 0);
  peer.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST_P(ZmqDriverTest, TwoHundredRepliesOfAMegabyteFromOneStepAllArriveInOrder) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer peer(role.endpoint());
  peer.Send(PullOf(200));
  for (uint64_t i = 0; i < 200; ++i) ASSERT_EQ(peer.Receive<PullReply>().request, i);
  peer.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST_P(ZmqDriverTest, AWindowOfEightNeverLosesAReply) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer peer(role.endpoint());
  for (int i = 0; i < 8; ++i) peer.Send(PullOf(1));
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(peer.Receive<PullReply>().slices.size(), 1u);
    if (i < 192) peer.Send(PullOf(1));
  }
  peer.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST_P(ZmqDriverTest, JunkIsMalformedOrNothingAndOthersAreServed) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer hostile(role.endpoint());
  const Payload junk = Payload::CopyOf(std::string(500, '\xa5').data(), 500);
  std::vector<Payload> torn = Encode(PullOf(3));
  torn[0] = torn[0].Sub(0, torn[0].size() / 2);
  std::vector<Payload> surplus = Encode(PullOf(3));
  surplus.push_back(junk);
  const std::vector<std::vector<Payload>> all_malformed = {{Payload()}, {junk},  {junk, junk},
                                                           torn,        surplus, std::vector<Payload>(2000, junk)};
  for (const std::vector<Payload>& frames : all_malformed) hostile.SendFrames(frames);
  hostile.Send(StatusRequest{});
  EXPECT_THAT(hostile.Receive<StatusReply>().json, testing::EndsWith(" 6"));
  hostile.SendFrames({Payload::Zeros(kMaxHeaderBytes + 1)});  // ends that connection, not the role

  TestPeer good(role.endpoint());
  good.Send(PullOf(1));
  EXPECT_EQ(good.Receive<PullReply>().slices.size(), 1u);
  good.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST_P(ZmqDriverTest, AFloodDelaysNeitherTicksNorOtherPeers) {
  Running role(listen(), std::make_unique<EchoRole>());
  std::atomic<bool> flooding{true};
  std::thread flood([&] {
    TestPeer hostile(role.endpoint());
    while (flooding) hostile.Send(Violation{});
  });
  TestPeer good(role.endpoint());
  int ticks = 0;
  while (ticks < 5) {  // for ever, if ticks starve
    good.Send(StatusRequest{});
    std::istringstream(good.Receive<StatusReply>().json) >> ticks;
    ASSERT_FALSE(HasFailure());
  }
  flooding = false;
  flood.join();
  good.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST_P(ZmqDriverTest, ARoleMayDialSendAndHangUpInOneStep) {
  Running server(listen(), std::make_unique<EchoRole>());
  constexpr PeerId kServer{1}, kNowhere{2};
  uint64_t got = 0;
  Running client("", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                   if (std::holds_alternative<Started>(input)) {
                     effects.Add(Dial{kNowhere, "not an endpoint"});
                     effects.SendTo(kNowhere, StatusRequest{});
                     effects.Add(HangUp{kNowhere});
                     effects.Add(Dial{kServer, server.endpoint()});
                     effects.SendTo(kServer, PullOf(2));
                   }
                   if (As<PullReply>(input) != nullptr && ++got == 2) {
                     effects.SendTo(kServer, Leave{});
                     effects.Add(HangUp{kServer});
                     effects.SendTo(kServer, Leave{});  // lost: it is gone
                     effects.Add(Exit{0, "done"});
                   }
                 }));
  EXPECT_EQ(client.join(), 0);
  EXPECT_EQ(server.join(), 7);
}

TEST_P(ZmqDriverTest, WhoCannotDialForWantOfOpenFilesEndsWithASentence) {
  int ticks = 0;
  std::optional<FewDescriptors> few;
  FunctionRole role([&](Input& input, Effects& effects) {
    if (std::holds_alternative<Tick>(input) && ++ticks == 5) effects.Add(Exit{9, "it lives on"});
    if (!std::holds_alternative<Started>(input)) return;
    few.emplace(1);
    effects.Add(Dial{PeerId{1}, "127.0.0.1:1"});
  });
  Mailbox mailbox;
  testing::internal::CaptureStderr();
  const DriverOptions options{.listen = "ipc://" + dir_ / "own", .dial_patience = 0s};
  const int exit_code = ZmqDriver::Open(options, {.mailbox = &mailbox}).value()->Run(role);
  few.reset();
  EXPECT_EQ(exit_code, kExitFailed);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("too few open files for another connection"));
}

TEST_P(ZmqDriverTest, WhatWasSentBeforeAnExitStillArrives) {
  constexpr uint64_t kLast = 16;  // fewer than ZeroMQ reads ahead, since nobody reads before the exit
  ZmqContext context = ZmqContext::Create(1).value();
  ZmqChannel listener(Listen(context, listen()).value(), ZmqChannel::Side::kListener);
  const std::string endpoint = listener.socket().endpoint();
  Running role("", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                 if (std::holds_alternative<Started>(input)) {
                   effects.Add(Dial{PeerId{1}, endpoint});
                   effects.SendTo(PeerId{1}, StatusRequest{});
                 }
                 if (As<StatusReply>(input) == nullptr) return;
                 for (uint64_t i = 1; i <= kLast; ++i)
                   effects.SendTo(PeerId{1}, ReplyOf(i, Payload::Zeros(kMaxFrameBytes)));
                 effects.Add(Exit{3, "done"});
                 effects.SendTo(PeerId{1}, ReplyOf(kLast + 1, Payload()));
               }));
  listener.Send(WaitFor(listener).peer, Encode(StatusReply{}));
  EXPECT_EQ(role.join(), 3);
  for (uint64_t i = 1; i <= kLast; ++i)
    EXPECT_EQ(std::get<PullReply>(Decode(WaitFor(listener).frames).value()).request, i);
  std::string peer;
  std::vector<Payload> frames;
  EXPECT_EQ(listener.Receive(&peer, &frames), ZmqChannel::Receipt::kNothing);
}

TEST_P(ZmqDriverTest, WhoIsHungUpOnIsHeardNoMore) {
  PeerId first{};
  int heard = 0;
  Running role(listen(), std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                 if (As<StatusRequest>(input) != nullptr) {
                   ++heard;
                   effects.SendTo(From(input), StatusReply{"bye"});
                   effects.Add(HangUp{first = From(input)});
                 }
                 if (As<Leave>(input) != nullptr) {
                   effects.SendTo(first, StatusReply{"lost"});
                   effects.SendTo(From(input), StatusReply{std::to_string(heard)});
                 }
                 if (As<JobEnd>(input) != nullptr) effects.Add(Exit{0, "done"});
               }));
  TestPeer muted(role.endpoint());
  muted.Send(StatusRequest{});
  EXPECT_EQ(muted.Receive<StatusReply>().json, "bye");
  for (int i = 0; i < 100; ++i) muted.Send(StatusRequest{});
  TestPeer other(role.endpoint());
  other.Send(Leave{});
  EXPECT_EQ(other.Receive<StatusReply>().json, "1");
  other.Send(JobEnd{});
  EXPECT_EQ(role.join(), 0);
}

}  // namespace
}  // namespace downpour
