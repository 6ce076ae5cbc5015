#include "runtime/zmq/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job/job_reader.h"
#include "runtime/descriptor_need.h"
#include "runtime/posix/process.h"
#include "tests/unit/runtime/few_descriptors.h"
#include "tests/unit/runtime/zmq/test_keys.h"
#include "tests/unit/runtime/zmq/test_peer.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr PeerId kFirstPeer{2}, kSecondPeer{5}, kNobody{3};

class ZmqLinksTest : public testing::Test {
 protected:
  ZmqLinks Links(std::optional<KeyRing> keys = std::nullopt) { return {context_, std::move(keys), ""}; }
  ZmqChannel Listener(const std::string& name) {
    return ZmqChannel(Listen(context_, At(name)).value(), ZmqChannel::Side::kListener);
  }
  std::string At(const std::string& name) const { return "ipc://" + dir_ / name; }
  static std::vector<Payload> Word(const std::string& word) { return {Payload::CopyOf(word.data(), word.size())}; }
  static std::string Text(const Payload& p) { return std::string(reinterpret_cast<const char*>(p.data()), p.size()); }
  // As the driver goes over them.
  static std::vector<PeerId> All(const ZmqLinks& links) {
    std::vector<PeerId> all;
    for (PeerId id = links.After(PeerId::kNone); id != PeerId::kNone; id = links.After(id)) all.push_back(id);
    return all;
  }
  // Until so much has left: a Receive also sends what waits for its connection.
  void SendAll(ZmqLinks& links, uint64_t bytes) {
    std::vector<Payload> frames;
    while (links.bytes_out() < bytes) {
      for (const PeerId id : All(links)) links.Find(id)->Receive(now_, &frames);
    }
  }
  std::string HeardFrom(ZmqLinks& links, PeerId from) {
    std::vector<Payload> frames;
    while (links.Find(from)->Receive(now_, &frames) == ZmqChannel::Receipt::kNothing) {
      std::vector<pollfd> waited_on;
      links.AddTo(&waited_on);
      if (links.Drained() && poll(waited_on.data(), waited_on.size(), kPatienceMs) <= 0) return "nothing";
    }
    return Text(frames.at(0));
  }

  TempDir dir_;
  ZmqContext context_ = ZmqContext::Create(1).value();
  Time now_{};
};

TEST_F(ZmqLinksTest, AreGoneOverByTheirNumbers) {
  ZmqLinks links = Links();
  EXPECT_THAT(All(links), IsEmpty());
  ASSERT_TRUE(links.Connect({.peer = kSecondPeer, .endpoint = At("b")}, now_).ok());
  ASSERT_TRUE(links.Connect({.peer = kFirstPeer, .endpoint = At("a")}, now_).ok());
  EXPECT_THAT(All(links), ElementsAre(kFirstPeer, kSecondPeer));
  links.HangUp(kFirstPeer);
  EXPECT_EQ(links.After(kFirstPeer), kSecondPeer) << "who has just been hung up on is no end";
  EXPECT_THAT(All(links), ElementsAre(kSecondPeer));
  links.Close();
  EXPECT_THAT(All(links), IsEmpty());
}

TEST_F(ZmqLinksTest, WordsGoToAndComeFromTheirNumber) {
  ZmqChannel a = Listener("a"), b = Listener("b");
  ZmqLinks links = Links();
  ASSERT_TRUE(links.Connect({.peer = kFirstPeer, .endpoint = At("a")}, now_).ok());
  ASSERT_TRUE(links.Connect({.peer = kSecondPeer, .endpoint = At("b")}, now_).ok());
  EXPECT_EQ(links.Find(kNobody), nullptr);
  links.Find(kSecondPeer)->Send(now_, Word("to b"));
  links.Find(kFirstPeer)->Send(now_, Word("to a"));
  SendAll(links, 8);
  for (auto [listener, word] : {std::pair(&a, "a"), std::pair(&b, "b")}) {
    const Parcel parcel = WaitFor(*listener);
    EXPECT_EQ(Text(parcel.frames.at(0)), std::string("to ") + word);
    EXPECT_EQ(listener->Send(parcel.peer, Word(std::string("from ") + word)), ZmqChannel::Sending::kSent);
  }
  EXPECT_EQ(HeardFrom(links, kSecondPeer), "from b");
  EXPECT_EQ(HeardFrom(links, kFirstPeer), "from a");
  EXPECT_EQ(links.TakeLost(), 0u);
}

TEST_F(ZmqLinksTest, WhatAConnectionCarriedCountsOnAfterItsEnd) {
  ZmqChannel listener = Listener("a");
  ZmqLinks links = Links();
  ASSERT_TRUE(links.Connect({.peer = kFirstPeer, .endpoint = At("a")}, now_).ok());
  links.Find(kFirstPeer)->Send(now_, Word("12345"));
  SendAll(links, 5);
  const Parcel parcel = WaitFor(listener);
  ASSERT_EQ(listener.Send(parcel.peer, Word("123")), ZmqChannel::Sending::kSent);
  EXPECT_EQ(HeardFrom(links, kFirstPeer), "123");
  links.HangUp(kFirstPeer);
  EXPECT_EQ(links.bytes_out(), 5u);
  EXPECT_EQ(links.bytes_in(), 3u);
  EXPECT_EQ(links.Find(kFirstPeer), nullptr);
}

TEST_F(ZmqLinksTest, WithKeysWhoeverWasDialledSaysWhatItsRoleMaySay) {
  const TestKeys keys;
  ZmqLinks links = Links(keys.worker), open = Links();
  for (ZmqLinks* both : {&links, &open}) {
    ASSERT_TRUE(both->Connect({.peer = kFirstPeer, .endpoint = At("a"), .to = PeerRole::kPs}, now_).ok());
  }
  EXPECT_TRUE(links.Validate(kFirstPeer, PushReply{}).ok());
  EXPECT_THAT(std::string(links.Validate(kFirstPeer, Welcome{}).message()), HasSubstr("Welcome"));
  EXPECT_TRUE(open.Validate(kFirstPeer, Welcome{}).ok());
}

TEST_F(ZmqLinksTest, AsManyAreDialledAsAJobMayHavePs) {
  constexpr auto kMost = static_cast<uint64_t>(kMostTasks) + 1;  // and the chief
  if (RaiseDescriptorLimit() < kMost * (kDescriptorsPerDialledLink + 1) + kOwnDescriptors) {
    GTEST_SKIP() << "this process may not have as many open files";
  }
  ZmqChannel listener = Listener("a");
  ZmqLinks links = Links();
  for (uint64_t peer = 1; peer <= kMost; ++peer) {
    ASSERT_TRUE(links.Connect({.peer = PeerId{peer}, .endpoint = At("a")}, now_).ok()) << peer;
  }
  links.Find(PeerId{kMost})->Send(now_, Word("last"));
  SendAll(links, 4);
  EXPECT_EQ(Text(WaitFor(listener).frames.at(0)), "last");
}

TEST_F(ZmqLinksTest, ADialThatFailedIsTriedAgain) {
  ZmqChannel listener = Listener("a");
  ZmqLinks links = Links();
  {
    const FewDescriptors few(1);
    EXPECT_TRUE(absl::IsResourceExhausted(links.Connect({.peer = kFirstPeer, .endpoint = At("a")}, now_)));
    EXPECT_TRUE(links.Tend(now_).ok());
    EXPECT_THAT(All(links), IsEmpty());
  }
  EXPECT_TRUE(links.Tend(now_ += 1s).ok());
  EXPECT_THAT(All(links), ElementsAre(kFirstPeer));
  links.Find(kFirstPeer)->Send(now_, Word("at last"));
  SendAll(links, 7);
  EXPECT_EQ(Text(WaitFor(listener).frames.at(0)), "at last");
  EXPECT_TRUE(links.Tend(now_ += ZmqLinks::kDialPatience).ok());
}

// What its role sent meanwhile is lost, and is to be sent again at once.
TEST_F(ZmqLinksTest, OneThatWasDialledLateCountsAsReconnectedOnceItStands) {
  ZmqChannel listener = Listener("a");
  ZmqLinks links = Links();
  {
    const FewDescriptors few(1);
    ASSERT_FALSE(links.Connect({.peer = kFirstPeer, .endpoint = At("a")}, now_).ok());
  }
  ASSERT_TRUE(links.Connect({.peer = kSecondPeer, .endpoint = At("a")}, now_).ok());
  ASSERT_TRUE(links.Tend(now_).ok());
  links.Find(kFirstPeer)->Send(now_, Word("1"));
  links.Find(kSecondPeer)->Send(now_, Word("2"));
  SendAll(links, 2);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(WaitFor(listener).frames.size(), 1u);  // both have shaken hands before
  ASSERT_TRUE(links.Tend(now_).ok());
  EXPECT_THAT(links.TakeReconnected(), ElementsAre(kFirstPeer));
}

TEST_F(ZmqLinksTest, WhereNoneCanBeDialledForLongTheReasonIsTold) {
  ZmqChannel listener = Listener("a");
  ZmqLinks links = Links();
  const FewDescriptors few(1);
  EXPECT_FALSE(links.Connect({.peer = kFirstPeer, .endpoint = At("a"), .to = PeerRole::kPs}, now_).ok());
  links.HangUp(kFirstPeer);
  EXPECT_TRUE(links.Tend(now_ + ZmqLinks::kDialPatience).ok()) << "nobody waits for it";
  EXPECT_FALSE(links.Connect({.peer = kFirstPeer, .endpoint = At("a"), .to = PeerRole::kPs}, now_).ok());
  EXPECT_TRUE(links.Tend(now_ + ZmqLinks::kDialPatience - 1ms).ok());
  const absl::Status status = links.Tend(now_ + ZmqLinks::kDialPatience);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("too few open files for another connection"));
}

TEST_F(ZmqLinksTest, AnAddressOfTheChiefThatCannotBeDialledEndsItWithTheRemedy) {
  const std::string long_path = At(std::string(200, 'a'));
  ZmqLinks links = Links();
  ASSERT_FALSE(links.Connect({.peer = kFirstPeer, .endpoint = long_path}, now_).ok());
  EXPECT_TRUE(links.Tend(now_ + ZmqLinks::kDialPatience - 1ms).ok());
  const absl::Status status = links.Tend(now_ + ZmqLinks::kDialPatience);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the path of " + long_path + " has "));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(" bytes, and a socket's has at most 107: name a shorter one; correct --chief, or the keys"));
}

TEST_F(ZmqLinksTest, AnAddressOfAPsThatCannotBeDialledIsToldEverMoreSeldom) {
  ZmqLinks links = Links();
  ASSERT_FALSE(links.Connect({.peer = kFirstPeer, .endpoint = "a..b", .to = PeerRole::kPs}, now_).ok());
  testing::internal::CaptureStderr();
  constexpr int kPatiences = 5;
  for (int i = 0; i < 2 * kPatiences; ++i) ASSERT_TRUE(links.Tend(now_ += ZmqLinks::kDialPatience / 2).ok());
  const std::string logged = testing::internal::GetCapturedStderr();
  size_t told = 0;
  for (size_t at = 0; (at = logged.find("\"a..b\" is no endpoint", at)) != std::string::npos; ++at) ++told;
  EXPECT_EQ(told, 3u) << logged;  // of the first, the second and the fourth patience
  EXPECT_THAT(logged, HasSubstr("; correct that ps's --listen, or the keys in --keys, if it has any\n"));
}

TEST_F(ZmqLinksTest, AnAddressThatIsNoneTakesNoNumber) {
  ZmqLinks links = Links();
  EXPECT_FALSE(links.Connect({.peer = kFirstPeer, .endpoint = "a..b"}, now_).ok());
  EXPECT_THAT(All(links), IsEmpty());
}

}  // namespace
}  // namespace downpour
