#include "runtime/zmq/backlog_limit.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kLongestMs = 30'000;  // a test that waits longer has failed

// A connection over loopback.
struct Connection {
  Connection() {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(at);
    auto* address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(bind(listener.get(), address, bytes), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), address, &bytes), 0);
    EXPECT_EQ(connect(far.get(), address, bytes), 0);
    near = UniqueFd(accept(listener.get(), nullptr, nullptr));
  }
  // Read at once, as ZeroMQ would.
  void Carry(uint64_t bytes) {
    std::string chunk(1 << 16, 'x');
    while (bytes > 0) {
      chunk.resize(std::min<uint64_t>(bytes, chunk.size()));
      ASSERT_EQ(send(far.get(), chunk.data(), chunk.size(), 0), static_cast<ssize_t>(chunk.size()));
      ASSERT_EQ(recv(near.get(), chunk.data(), chunk.size(), MSG_WAITALL), static_cast<ssize_t>(chunk.size()));
      bytes -= chunk.size();
    }
  }
  bool Stands() {
    char c;
    return recv(far.get(), &c, 1, MSG_DONTWAIT) < 0;
  }
  // Waits until the far side knows: the kernel may tell it later.
  bool Ends() {
    pollfd far_end{far.get(), POLLIN, 0};
    return poll(&far_end, 1, kLongestMs) == 1 && !Stands();
  }

  UniqueFd far{socket(AF_INET, SOCK_STREAM, 0)};
  UniqueFd near;
};

constexpr uint64_t kMax = BacklogLimit::kMaxBytes;

auto From(const std::string& address) { return testing::Field(&BacklogLimit::Culprit::address, address); }

TEST(BacklogLimitTest, WhoseMessageDoesNotEndIsCutOff) {
  Connection endless, other;
  BacklogLimit backlog;
  for (const Connection* connection : {&endless, &other}) backlog.Accepted(connection->near.get());
  endless.Carry(kMax - 1);
  EXPECT_THAT(backlog.CutOff(), IsEmpty());
  EXPECT_TRUE(endless.Stands());
  endless.Carry(1);
  EXPECT_THAT(backlog.CutOff(), ElementsAre(From("127.0.0.1")));
  EXPECT_TRUE(endless.Ends());
  EXPECT_TRUE(other.Stands());
  EXPECT_THAT(backlog.CutOff(), IsEmpty());  // once
}

TEST(BacklogLimitTest, WhoseMessagesEndMaySayAnyNumberOfThem) {
  Connection diligent;
  BacklogLimit backlog;
  backlog.Accepted(diligent.near.get());
  for (int i = 0; i < 3; ++i) {
    diligent.Carry(kMax - 1);
    backlog.Heard(diligent.near.get());
    EXPECT_THAT(backlog.CutOff(), IsEmpty());
    EXPECT_THAT(backlog.CutOff(), IsEmpty());
  }
  diligent.Carry(kMax);  // and now one without an end
  EXPECT_THAT(backlog.CutOff(), ElementsAre(From("127.0.0.1")));
}

TEST(BacklogLimitTest, ManyConnectionsGetNoMoreThanAFew) {
  Connection small, large, larger;
  BacklogLimit backlog(/*most_together=*/6000);
  for (const Connection* connection : {&small, &large, &larger}) backlog.Accepted(connection->near.get());
  small.Carry(1000);
  large.Carry(2000);
  larger.Carry(3000);
  EXPECT_THAT(backlog.CutOff(), IsEmpty());
  small.Carry(1);
  EXPECT_THAT(backlog.CutOff(), ElementsAre(testing::Field(&BacklogLimit::Culprit::bytes, 3000u)));
  EXPECT_TRUE(larger.Ends());
  EXPECT_TRUE(large.Stands());
  EXPECT_THAT(backlog.CutOff(), IsEmpty());
}

TEST(BacklogLimitTest, WhatIsNotTheListenersIsNotTouched) {
  Connection ended;
  BacklogLimit backlog;
  backlog.Accepted(ended.near.get());
  backlog.Ended(ended.near.get());
  backlog.Heard(ended.near.get());
  ended.Carry(kMax);
  EXPECT_THAT(backlog.CutOff(), IsEmpty());
  EXPECT_TRUE(ended.Stands());
}

}  // namespace
}  // namespace downpour
