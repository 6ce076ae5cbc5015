#include "runtime/http/stream.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

constexpr auto kHour = std::chrono::hours(1);

class HttpStreamTest : public testing::Test {
 protected:
  HttpStreamTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    ours_ = UniqueFd(ends[0]);
    theirs_ = UniqueFd(ends[1]);
  }
  void Say(const std::string& text) {
    EXPECT_EQ(send(theirs_.get(), text.data(), text.size(), 0), ssize_t(text.size()));
  }
  // How many bytes can be read, to the end or to a bound.
  static size_t ReadAll(HttpStream& stream) {
    char block[1000];
    size_t all = 0;
    for (ssize_t got = 0; (got = stream.read(block, sizeof(block))) > 0;) all += static_cast<size_t>(got);
    return all;
  }
  // Sends a byte now and then, as long as it is taken.
  static constexpr int kDrops = 1000;
  std::thread Drip() {
    return std::thread([this] {
      for (int i = 0; i < kDrops && send(theirs_.get(), "x", 1, MSG_NOSIGNAL) == 1; ++i) poll(nullptr, 0, 1);
      shutdown(theirs_.get(), SHUT_WR);
    });
  }

  UniqueFd ours_, theirs_;
};

TEST_F(HttpStreamTest, WhatIsSaidIsReadInItsOrder) {
  HttpStream stream(ours_.get(), nullptr);
  Say("one\ntwo\n");
  std::string read;
  char byte = 0;
  while (read.size() < 8 && stream.read(&byte, 1) == 1) read += byte;
  EXPECT_EQ(read, "one\ntwo\n");
  EXPECT_EQ(stream.write("three", 5), 5);
  char answer[5];
  EXPECT_EQ(recv(theirs_.get(), answer, sizeof(answer), 0), 5);
}

TEST_F(HttpStreamTest, AHeadIsBoundedAndABodyIsNot) {
  const HttpBounds bounds{.most_head_bytes = 100};
  HttpStream stream(ours_.get(), nullptr, bounds);
  Say(std::string(300, 'h'));
  EXPECT_EQ(ReadAll(stream), 100u);
  HttpStream other(ours_.get(), nullptr, bounds);
  other.HeadIsRead(200);
  shutdown(theirs_.get(), SHUT_WR);
  EXPECT_EQ(ReadAll(other), 200u);
}

TEST_F(HttpStreamTest, SilenceEndsIt) {
  HttpStream stream(ours_.get(), nullptr, {.silence = std::chrono::milliseconds(1), .patience = kHour});
  EXPECT_EQ(ReadAll(stream), 0u);
}

TEST_F(HttpStreamTest, OneThatDripsIsCutOff) {
  HttpStream stream(ours_.get(), nullptr, {.silence = kHour, .patience = std::chrono::milliseconds(50)});
  stream.HeadIsRead(-1);
  std::thread drips = Drip();
  EXPECT_LT(ReadAll(stream), size_t{kDrops});
  shutdown(ours_.get(), SHUT_RDWR);
  drips.join();
}

TEST_F(HttpStreamTest, OneThatCarriesMuchMayTakeItsTime) {
  HttpStream stream(ours_.get(), nullptr,
                    {.silence = kHour, .patience = std::chrono::milliseconds(1), .least_bytes_per_second = 1});
  stream.HeadIsRead(-1);
  Say(std::string(10'000, 'b'));  // worth hours
  std::thread slow([this] {
    poll(nullptr, 0, 20);
    Say("late");
    shutdown(theirs_.get(), SHUT_WR);
  });
  EXPECT_EQ(ReadAll(stream), 10'004u);
  slow.join();
}

TEST_F(HttpStreamTest, OneThatReadsNothingIsCutOffToo) {
  HttpStream stream(ours_.get(), nullptr, {.silence = std::chrono::milliseconds(1), .patience = kHour});
  const std::string block(100'000, 'w');
  while (stream.write(block.data(), block.size()) > 0) continue;  // and it ends
}

TEST_F(HttpStreamTest, TheRestOfABodyIsReadSoThatTheAnswerArrives) {
  HttpStream stream(ours_.get(), nullptr);
  char head[4];
  Say("headbody");
  EXPECT_EQ(stream.read(head, 4), 4);
  stream.HeadIsRead(8);
  Say("more");
  EXPECT_EQ(stream.write("no", 2), 2);
  std::thread client([this] {
    char answer[3];
    EXPECT_EQ(recv(theirs_.get(), answer, 3, MSG_WAITALL), 2);
    shutdown(theirs_.get(), SHUT_WR);
  });
  stream.Finish();
  client.join();
  EXPECT_EQ(recv(ours_.get(), head, 4, MSG_DONTWAIT), 0) << "nothing is left unread";
}

}  // namespace
}  // namespace downpour
