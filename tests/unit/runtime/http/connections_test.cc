#include "runtime/http/connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>

namespace downpour {
namespace {

// Serves each connection until its other end is closed, and says whom it serves.
class HttpConnectionsTest : public testing::Test {
 protected:
  static constexpr int kMost = 4;

  // The other end of a connection that was offered as that peer's.
  UniqueFd Connect(const std::string& peer) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    constexpr timeval kHangEnds = {.tv_sec = 30, .tv_usec = 0};
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &kHangEnds, sizeof(kHangEnds));
    connections_.Add(UniqueFd(ends[0]), peer);
    return UniqueFd(ends[1]);
  }
  static void Greet(int fd) {
    char byte = 'x';
    send(fd, &byte, 1, MSG_NOSIGNAL);
    while (recv(fd, &byte, 1, 0) > 0) continue;
  }
  static bool IsServed(const UniqueFd& end) {
    char byte = 0;
    return recv(end.get(), &byte, 1, 0) == 1;
  }
  // 'x' is not there yet, nor is the end.
  static bool Waits(const UniqueFd& end) {
    char byte = 0;
    return recv(end.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  HttpConnections connections_{kMost, Greet};
};

TEST_F(HttpConnectionsTest, OnePeerHasHalfAndOthersTheRest) {
  std::vector<UniqueFd> greedy;
  for (int i = 0; i < kMost; ++i) greedy.push_back(Connect("greedy"));
  for (int i = 0; i < kMost / 2; ++i) EXPECT_TRUE(IsServed(greedy[static_cast<size_t>(i)]));
  for (const char* peer : {"a", "b"}) EXPECT_TRUE(IsServed(Connect(peer))) << "it does not wait behind the greedy one";
  EXPECT_TRUE(Waits(greedy[2]));
  greedy[0] = UniqueFd();
  EXPECT_TRUE(IsServed(greedy[2])) << "its turn has come";
}

TEST_F(HttpConnectionsTest, BeyondThoseThatWaitItIsClosedAtOnce) {
  std::vector<UniqueFd> greedy;
  const int most = kMost / 2 * (1 + HttpConnections::kWaiting);
  for (int i = 0; i < most; ++i) greedy.push_back(Connect("greedy"));
  EXPECT_FALSE(IsServed(Connect("greedy")));
  EXPECT_TRUE(Waits(greedy.back()));
  EXPECT_TRUE(IsServed(Connect("other")));
}

TEST_F(HttpConnectionsTest, TheEndKeepsNobodyWaiting) {
  const UniqueFd served = Connect("a"), too = Connect("a"), waits = Connect("a");
  EXPECT_TRUE(IsServed(served));
  connections_.End();
  EXPECT_FALSE(IsServed(waits));
  EXPECT_FALSE(IsServed(Connect("a"))) << "after the end";
}

}  // namespace
}  // namespace downpour
