// The driver with keys: who is let in, and who may say what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

#include "runtime/zmq/driver.h"
#include "tests/unit/runtime/zmq/test_keys.h"
#include "tests/unit/runtime/zmq/test_peer.h"
#include "tests/unit/runtime/zmq/test_roles.h"

namespace downpour {
namespace {

class ZmqDriverKeysTest : public testing::Test {
 protected:
  const TestKeys keys_;
};

long Milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int MalformedSoFar(TestPeer& client) {
  client.Send(StatusRequest{});
  int ticks = 0, malformed = -1;
  std::istringstream(client.Receive<StatusReply>().json) >> ticks >> malformed;
  return malformed;
}

TEST_F(ZmqDriverKeysTest, WhatAKeysRoleMayNotSayIsMalformed) {
  Running chief("127.0.0.1:0", std::make_unique<EchoRole>(), {}, keys_.chief);
  TestPeer client(chief.endpoint(), &keys_.client), worker(chief.endpoint(), &keys_.worker);
  client.Send(Leave{});  // would end the role
  EXPECT_EQ(MalformedSoFar(client), 1);
  worker.Send(StatusRequest{});
  worker.Send(Leave{});
  EXPECT_EQ(chief.join(), 7);
}

TEST_F(ZmqDriverKeysTest, AViewerLooksAndCommandsNothing) {
  std::atomic<int> commands = 0;
  Running chief("127.0.0.1:0", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                  commands += As<Control>(input) != nullptr;
                  if (std::holds_alternative<Malformed>(input)) effects.Add(Exit{3, "seen"});
                }),
                {}, keys_.chief);
  TestPeer viewer(chief.endpoint(), &keys_.viewer);
  viewer.Send(StatusRequest{});
  viewer.Send(Control{.kind = ControlKind::kStop});
  EXPECT_EQ(chief.join(), 3);
  EXPECT_EQ(commands, 0);
}

TEST_F(ZmqDriverKeysTest, OverIpcTheFolderSaysWhoMaySpeak) {
  Running chief("ipc://" + keys_.dir / "socket", std::make_unique<EchoRole>(), {}, keys_.chief);
  TestPeer anybody(chief.endpoint());
  EXPECT_EQ(MalformedSoFar(anybody), 0);
  anybody.Send(Leave{});
  EXPECT_EQ(chief.join(), 7);
}

TEST_F(ZmqDriverKeysTest, StrangersAreRefusedAndCounted) {
  ResourceSample last;
  std::atomic<bool> seen = false;
  Running chief("127.0.0.1:0", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                  EXPECT_FALSE(std::holds_alternative<Received>(input));
                  EXPECT_FALSE(std::holds_alternative<Malformed>(input));
                  if (const auto* sample = std::get_if<ResourceSample>(&input)) last = *sample;
                  if (last.refused >= 2 && !last.refused_from.empty()) effects.Add(Exit{3, "seen"});
                  seen = last.refused >= 2 && !last.refused_from.empty();
                }),
                {}, keys_.chief);
  KeyRing unknown = keys_.worker;
  unknown.own = MakeCurvePair();
  TestPeer stranger(chief.endpoint(), &unknown);
  // Who has no keys may see that first, and is gone before its greeting was sent: then nobody can tell who it was.
  std::optional<TestPeer> keyless;
  for (const long begun = Milliseconds(); !seen && Milliseconds() - begun < kPatienceMs;) {
    keyless.emplace(chief.endpoint());
    WaitReadable(keyless->channel(), 100);
  }
  ASSERT_TRUE(seen);
  EXPECT_EQ(chief.join(), 3);
  EXPECT_EQ(last.refused_from, "127.0.0.1");
}

TEST_F(ZmqDriverKeysTest, WhoseKeyIsTakenAwayIsCutOffAndNotLetInAgain) {
  std::atomic<int> heard = 0;
  Running chief("127.0.0.1:0", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                  heard += As<Heartbeat>(input) != nullptr;
                  if (As<StatusRequest>(input) != nullptr) effects.Add(Exit{3, "seen"});
                }),
                {}, keys_.chief, keys_.folder);
  ZmqContext context = ZmqContext::Create(1).value();
  ZmqChannel worker(Connect(context, chief.endpoint(), &keys_.worker).value(), ZmqChannel::Side::kDialler);
  ZmqMonitor monitor = ZmqMonitor::Watch(context, worker.socket()).value();
  const auto speak_until = [&](const std::function<bool()>& condition) {
    for (const long begun = Milliseconds(); !condition() && Milliseconds() - begun < kPatienceMs;) {
      worker.Send("", Encode(Heartbeat{}));
      zmq::pollitem_t item{monitor.socket(), 0, ZMQ_POLLIN, 0};
      zmq::poll(&item, 1, std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(condition());
  };
  speak_until([&] { return heard > 0; });
  WriteText(keys_.folder + "/worker.public", "downpour-key 1\ncluster " + keys_.chief.cluster +
                                                 "\nrole worker\npublic " + MakeCurvePair().public_key + "\n");
  bool refused = false;
  speak_until([&] { return refused = refused || monitor.Next() == ZmqMonitor::Event::kKeyRefused; });
  TestPeer client(chief.endpoint(), &keys_.client);  // others are there as before
  client.Send(StatusRequest{});
  EXPECT_EQ(chief.join(), 3);
}

TEST_F(ZmqDriverKeysTest, AKeyOfItsOwnDoesNotHelpAWorkerToSpeakAsAnother) {
  ASSERT_TRUE(RenewKeys(keys_.folder, PeerRole::kWorker).ok());
  const KeyRing other_keys = LoadKeys(keys_.folder, PeerRole::kWorker).value();
  const Incarnation given{7};
  std::vector<std::string> malformed;
  Running chief("127.0.0.1:0", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                  if (As<Join>(input) != nullptr) effects.SendTo(From(input), WelcomeAs(given));
                  if (const auto* junk = std::get_if<Malformed>(&input)) malformed.push_back(junk->why);
                  if (const auto* leave = As<Leave>(input)) effects.Add(Exit{leave->why == "mine" ? 0 : 1, "left"});
                  if (As<WorkRequest>(input) != nullptr) effects.SendTo(From(input), Grant{});
                }),
                {}, LoadKeys(keys_.folder, PeerRole::kChief).value());
  TestPeer worker(chief.endpoint(), &keys_.worker), other(chief.endpoint(), &other_keys);
  worker.Send(JoinOf(TaskRole::kWorker));
  worker.Receive<Welcome>();
  other.Send(Leave{given, "not mine"});
  other.Send(WorkRequest{});  // of nobody: whoever hears the answer knows that the words before it were heard too
  other.Receive<Grant>();
  worker.Send(Leave{given, "mine"});
  EXPECT_EQ(chief.join(), 0);
  EXPECT_THAT(malformed,
              testing::ElementsAre(testing::HasSubstr("says Leave as incarnation 7, which has another key")));
}

TEST_F(ZmqDriverKeysTest, WhoIsDialledSaysWhatItsRoleMaySay) {
  Running chief("127.0.0.1:0", std::make_unique<EchoRole>(), {}, keys_.chief);
  std::string why;
  Running worker("", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                   if (std::holds_alternative<Started>(input)) {
                     effects.Add(Dial{PeerId{1}, chief.endpoint(), PeerRole::kChief});
                     effects.SendTo(PeerId{1}, PullOf(1));
                   }
                   if (const auto* malformed = std::get_if<Malformed>(&input)) {
                     why = malformed->why;
                     effects.SendTo(PeerId{1}, Leave{});
                     effects.Add(Exit{0, "done"});
                   }
                 }),
                 {}, keys_.worker);
  EXPECT_EQ(worker.join(), 0);
  EXPECT_EQ(why, "its key is a chief's, who may not say PullReply");
  EXPECT_EQ(chief.join(), 7);
}

TEST_F(ZmqDriverKeysTest, WhoWasHungUpOnIsCutOffWhenItSpeaksAgain) {
  PeerId first = PeerId::kNone;
  Running chief("127.0.0.1:0", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                  const bool is_first = As<Heartbeat>(input) != nullptr && first == PeerId::kNone;
                  if (is_first) effects.Add(HangUp{first = From(input)});
                  if (As<Leave>(input) != nullptr) effects.Add(Exit{3, "done"});
                }),
                {}, keys_.chief);
  ZmqContext context = ZmqContext::Create(1).value();
  auto [socket, monitor] = ConnectWatched(context, chief.endpoint(), &keys_.worker).value();
  ZmqChannel worker(std::move(socket), ZmqChannel::Side::kDialler);
  bool cut_off = false;
  for (const long begun = Milliseconds(); !cut_off && Milliseconds() - begun < kPatienceMs;) {
    worker.Send("", Encode(Heartbeat{}));
    WaitReadable(worker, /*at_most_ms=*/1);
    cut_off = monitor.Next() == ZmqMonitor::Event::kEnded;
  }
  EXPECT_TRUE(cut_off);
  TestPeer other(chief.endpoint(), &keys_.worker);
  other.Send(Leave{});
  EXPECT_EQ(chief.join(), 3);
}

// Whose keys are those of before is refused, and comes in with what its folder holds by then.
TEST_F(ZmqDriverKeysTest, WhoIsRefusedDialsAgainWithTheKeysOfItsFolder) {
  ASSERT_TRUE(RenewKeys(keys_.folder, PeerRole::kChief).ok());
  Running chief("127.0.0.1:0", std::make_unique<EchoRole>(), {}, LoadKeys(keys_.folder, PeerRole::kChief).value());
  Running worker("", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                   if (std::holds_alternative<Started>(input)) {
                     effects.Add(Dial{PeerId{1}, chief.endpoint(), PeerRole::kChief});
                   }
                   if (std::holds_alternative<Tick>(input)) effects.SendTo(PeerId{1}, PullOf(1));
                   if (const auto* malformed = std::get_if<Malformed>(&input)) effects.Add(Exit{3, malformed->why});
                 }),
                 {}, keys_.worker, keys_.folder);
  EXPECT_EQ(worker.join(), 3);  // a chief may not say what it answered
  const KeyRing keys_now = LoadKeys(keys_.folder, PeerRole::kWorker).value();
  TestPeer end(chief.endpoint(), &keys_now);
  end.Send(Leave{});
  EXPECT_EQ(chief.join(), 7);
}

TEST_F(ZmqDriverKeysTest, AListenerOnAllAddressesIsReachedByOneOfThem) {
  Running chief("0.0.0.0:0", std::make_unique<EchoRole>(), {}, keys_.chief);
  EXPECT_EQ(chief.endpoint().find("0.0.0.0"), std::string::npos);
  TestPeer worker(chief.endpoint(), &keys_.worker);
  worker.Send(Leave{});
  EXPECT_EQ(chief.join(), 7);
}

}  // namespace
}  // namespace downpour
