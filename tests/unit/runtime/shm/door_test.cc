#include "runtime/shm/door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/unit/runtime/shm/shared_pair.h"

namespace downpour {
namespace {

using testing::ElementsAre;
constexpr PeerId kWorker{5};

class SharedDoorTest : public testing::Test {
 protected:
  // A socket that dialled the door, as anybody may.
  UniqueFd Dial(const std::string& name) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
    return socket;
  }
  SharedArena ps_, worker_;
  std::unique_ptr<SharedDoor> door_ = SharedDoor::Open(&ps_).value();
};

TEST_F(SharedDoorTest, WhoShowsItsTicketShares) {
  const MemoryDoor told = door_->Expect(kWorker, "key", kNow);
  const auto visit = DoorVisit::Begin(told, kNow, &worker_);
  ASSERT_NE(visit, nullptr);
  EXPECT_EQ(visit->Finish(kNow), nullptr) << "nobody has opened yet";
  EXPECT_FALSE(visit->failed());
  auto guests = door_->Admit(kNow);
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].whom, kWorker);
  EXPECT_EQ(guests[0].key, "key");
  const auto link = visit->Finish(kNow);
  ASSERT_NE(link, nullptr);
  ASSERT_EQ(link->Send(kNow, FramesOf({"hello"})), Link::Sending::kSent);
  std::vector<Payload> frames;
  ASSERT_EQ(guests[0].link->Receive(kNow, &frames), Link::Receipt::kMessage);
  EXPECT_THAT(TextsOf(frames), ElementsAre("hello"));
}

TEST_F(SharedDoorTest, ATicketLetsInOnceAndForAWhile) {
  const MemoryDoor told = door_->Expect(kWorker, "key", kNow);
  const auto first = DoorVisit::Begin(told, kNow, &worker_), second = DoorVisit::Begin(told, kNow, &worker_);
  EXPECT_EQ(door_->Admit(kNow).size(), 1u);
  EXPECT_NE(first->Finish(kNow), nullptr);
  EXPECT_EQ(second->Finish(kNow), nullptr);
  EXPECT_TRUE(second->failed());

  const MemoryDoor late = door_->Expect(kWorker, "key", kNow);
  const auto visit = DoorVisit::Begin(late, kNow, &worker_);
  EXPECT_TRUE(door_->Admit(kNow + SharedDoor::kPatience).empty());
  EXPECT_EQ(visit->Finish(kNow), nullptr);
  EXPECT_TRUE(visit->failed());
}

TEST_F(SharedDoorTest, ANewTicketVoidsTheOneBefore) {
  const MemoryDoor before = door_->Expect(kWorker, "key", kNow);
  door_->Expect(kWorker, "key", kNow);
  const auto visit = DoorVisit::Begin(before, kNow, &worker_);
  EXPECT_TRUE(door_->Admit(kNow).empty());
}

TEST_F(SharedDoorTest, WhoIsForgottenIsNotLetIn) {
  const MemoryDoor told = door_->Expect(kWorker, "key", kNow);
  const auto visit = DoorVisit::Begin(told, kNow, &worker_);
  door_->Forget(kWorker);
  EXPECT_TRUE(door_->Admit(kNow).empty());
}

// Who comes meanwhile is let in later, and the event loop does not spin until then.
TEST_F(SharedDoorTest, WithoutDescriptorsItRests) {
  const auto visit = DoorVisit::Begin(door_->Expect(kWorker, "key", kNow), kNow, &worker_);
  const auto is_waited_for = [this] {
    std::vector<pollfd> waits;
    door_->AddTo(&waits);
    return poll(waits.data(), waits.size(), 0) > 0;
  };
  EXPECT_TRUE(is_waited_for());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(UniqueFd(dup(0)).get()), .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(door_->Admit(kNow).empty());
  EXPECT_FALSE(is_waited_for());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(door_->Admit(kNow).size(), 1u);
  EXPECT_NE(visit->Finish(kNow), nullptr);
}

TEST_F(SharedDoorTest, StrangersAreSentAway) {
  const std::string name = door_->Expect(kWorker, "key", kNow).address;
  UniqueFd guesses = Dial(name), silent = Dial(name), talks = Dial(name);
  ASSERT_TRUE(SendPacket(guesses.get(), Packet::kTicket, std::string(32, '0')));
  ASSERT_TRUE(SendPacket(talks.get(), Packet::kWake));
  EXPECT_TRUE(door_->Admit(kNow).empty());
  EXPECT_EQ(ReceivePacket(guesses.get()).kind, Packet::kEnd);
  EXPECT_EQ(ReceivePacket(talks.get()).kind, Packet::kEnd);
  EXPECT_EQ(ReceivePacket(silent.get()).kind, Packet::kNone) << "it has a while";
  EXPECT_TRUE(door_->Admit(kNow + SharedDoor::kPatience).empty());
  EXPECT_EQ(ReceivePacket(silent.get()).kind, Packet::kEnd);
}

TEST_F(SharedDoorTest, ACrowdOfStrangersTakesBoundedDescriptorsAndKeepsNobodyOut) {
  const MemoryDoor told = door_->Expect(kWorker, "key", kNow);
  std::vector<UniqueFd> crowd;
  for (size_t i = 0; i < 2 * SharedDoor::kMostStrangers; ++i) {
    crowd.push_back(Dial(told.address));
    door_->Admit(kNow);
  }
  EXPECT_LE(door_->descriptors(), 1 + SharedDoor::kMostStrangers);
  const auto visit = DoorVisit::Begin(told, kNow, &worker_);
  EXPECT_EQ(door_->Admit(kNow).size(), 1u);
}

// Its close() waits for as long as the sender likes, who is nobody.
TEST_F(SharedDoorTest, WhatAStrangerPassesHoldsNobodyUp) {
  const MemoryDoor told = door_->Expect(kWorker, "", kNow);
  UniqueFd stranger = Dial(told.address), crowd = Dial(told.address);
  UniqueFd listens(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), reads;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listens.get(), at, bytes), 0);
  ASSERT_EQ(listen(listens.get(), 1), 0);
  ASSERT_EQ(getsockname(listens.get(), at, &bytes), 0);
  std::vector<UniqueFd> lingering;
  for (int i = 0; i < 2; ++i) {
    lingering.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int socket = lingering.back().get();
    ASSERT_EQ(connect(socket, at, bytes), 0);
    const std::string much(1 << 20, 'x');
    while (send(socket, much.data(), much.size(), MSG_DONTWAIT) > 0) {
    }
    const linger waits{.l_onoff = 1, .l_linger = 3600};
    ASSERT_EQ(setsockopt(socket, SOL_SOCKET, SO_LINGER, &waits, sizeof(waits)), 0);
  }
  ASSERT_TRUE(SendPacket(stranger.get(), Packet::kTicket, std::string(32, '0'), lingering[0].get()));
  // More than one packet has room for by rights.
  char first = 't';
  iovec part = {&first, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  *CMSG_FIRSTHDR(&message) = {.cmsg_len = CMSG_LEN(4 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  const int four[] = {0, 0, 0, lingering[1].get()};
  std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), four, sizeof(four));
  ASSERT_EQ(sendmsg(crowd.get(), &message, 0), 1);
  for (UniqueFd& fd : lingering) std::thread([fd = std::move(fd)] {}).join();  // the packets hold them
  const auto visit = DoorVisit::Begin(told, kNow, &worker_);
  EXPECT_EQ(door_->Admit(kNow).size(), 1u) << "and not an hour later";
}

TEST_F(SharedDoorTest, AGuestTakesOneDescriptor) {
  const auto open = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto visit = DoorVisit::Begin(door_->Expect(kWorker, "", kNow), kNow, &worker_);
  const auto before = open();
  const auto guests = door_->Admit(kNow);
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(open(), before + 1) << "its socket: the memory's is on its way to it";
}

// Somebody took the name of a ps that has died: it cannot show the proof, so it gets nothing.
TEST_F(SharedDoorTest, WhoCannotProveThatItGaveTheTicketIsNotBelieved) {
  MemoryDoor told = door_->Expect(kWorker, "key", kNow);
  told.proof = std::string(32, '1');
  const auto visit = DoorVisit::Begin(told, kNow, &worker_);
  EXPECT_EQ(door_->Admit(kNow).size(), 1u);
  EXPECT_EQ(visit->Finish(kNow), nullptr);
  EXPECT_TRUE(visit->failed());
}

TEST_F(SharedDoorTest, WhereNobodyIsOrNoNameCanBeThereIsNoVisit) {
  MemoryDoor told = door_->Expect(kWorker, "key", kNow);
  door_.reset();
  EXPECT_EQ(DoorVisit::Begin(told, kNow, &worker_), nullptr);
  told.address = std::string(5000, 'x');
  EXPECT_EQ(DoorVisit::Begin(told, kNow, &worker_), nullptr);
  told.address = "";
  EXPECT_EQ(DoorVisit::Begin(told, kNow, &worker_), nullptr);
}

}  // namespace
}  // namespace downpour
