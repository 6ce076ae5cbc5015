// The driver with keys: who is let in, and who may say what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "runtime/zmq_driver.h"
#include "tests/unit/runtime/zmq_test_keys.h"
#include "tests/unit/runtime/zmq_test_peer.h"
#include "tests/unit/runtime/zmq_test_roles.h"

namespace downpour {
namespace {

class ZmqDriverKeysTest : public testing::Test {
 protected:
  const TestKeys keys_;
};

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

TEST_F(ZmqDriverKeysTest, OverIpcTheFolderSaysWhoMaySpeak) {
  Running chief("ipc://" + keys_.dir / "socket", std::make_unique<EchoRole>(), {}, keys_.chief);
  TestPeer anybody(chief.endpoint());
  EXPECT_EQ(MalformedSoFar(anybody), 0);
  anybody.Send(Leave{});
  EXPECT_EQ(chief.join(), 7);
}

TEST_F(ZmqDriverKeysTest, StrangersAreRefusedAndCounted) {
  ResourceSample last;
  Running chief("127.0.0.1:0", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                  EXPECT_FALSE(std::holds_alternative<Received>(input));
                  EXPECT_FALSE(std::holds_alternative<Malformed>(input));
                  if (const auto* sample = std::get_if<ResourceSample>(&input)) last = *sample;
                  if (last.refused >= 2 && !last.refused_from.empty()) effects.Add(Exit{3, "seen"});
                }),
                {}, keys_.chief);
  KeyRing unknown = keys_.worker;
  unknown.own = MakeCurvePair();
  TestPeer stranger(chief.endpoint(), &unknown), keyless(chief.endpoint());
  EXPECT_EQ(chief.join(), 3);
  EXPECT_EQ(last.refused_from, "127.0.0.1");
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

TEST_F(ZmqDriverKeysTest, AListenerOnAllAddressesIsReachedByItsHostsName) {
  Running chief("0.0.0.0:0", std::make_unique<EchoRole>(), {}, keys_.chief);
  EXPECT_EQ(chief.endpoint().find("0.0.0.0"), std::string::npos);
  const std::string port = chief.endpoint().substr(chief.endpoint().rfind(':'));
  TestPeer worker("127.0.0.1" + port, &keys_.worker);
  worker.Send(Leave{});
  EXPECT_EQ(chief.join(), 7);
}

}  // namespace
}  // namespace downpour
