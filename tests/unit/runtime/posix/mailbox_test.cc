#include "runtime/posix/mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <thread>
#include <variant>
#include <vector>

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kMailWaitMs = 30'000;

bool IsReadable(const Mailbox& mailbox, int at_most_ms) {
  pollfd mail{mailbox.fd(), POLLIN, 0};
  return poll(&mail, 1, at_most_ms) == 1;
}

void Post(Mailbox& mailbox, int64_t number) { mailbox.Post(Started{.unix_ms = number, .endpoint = {}}); }

std::vector<int64_t> Take(Mailbox& mailbox) {
  std::vector<int64_t> numbers;
  for (const Input& input : mailbox.Take()) numbers.push_back(std::get<Started>(input).unix_ms);
  return numbers;
}

TEST(MailboxTest, HoldsWhatWasPostedUntilItIsTaken) {
  Mailbox mailbox;
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(mailbox.has_mail());
    EXPECT_FALSE(IsReadable(mailbox, 0));
    Post(mailbox, 1);
    Post(mailbox, 2);
    EXPECT_TRUE(mailbox.has_mail());
    EXPECT_TRUE(IsReadable(mailbox, 0));
    EXPECT_THAT(Take(mailbox), ElementsAre(1, 2));
    EXPECT_THAT(Take(mailbox), IsEmpty());
  }
}

TEST(MailboxTest, LosesNothingThatManyThreadsPostWhileItIsEmptied) {
  constexpr int64_t kThreads = 4, kEach = 10'000;
  Mailbox mailbox;
  std::vector<std::thread> posters;
  for (int64_t thread = 0; thread < kThreads; ++thread) {
    posters.emplace_back([&mailbox, thread] {
      for (int64_t i = 0; i < kEach; ++i) Post(mailbox, thread * kEach + i);
    });
  }
  std::vector<int64_t> next(kThreads);  // of each thread
  for (int64_t taken = 0; taken < kThreads * kEach && IsReadable(mailbox, kMailWaitMs);) {
    const std::vector<int64_t> numbers = Take(mailbox);
    EXPECT_THAT(numbers, ::testing::Not(IsEmpty())) << "readable without mail";
    for (const int64_t number : numbers) EXPECT_EQ(number % kEach, next[number / kEach]++);
    taken += static_cast<int64_t>(numbers.size());
  }
  for (std::thread& poster : posters) poster.join();
  EXPECT_THAT(next, ::testing::Each(kEach));
  EXPECT_FALSE(mailbox.has_mail());
  EXPECT_FALSE(IsReadable(mailbox, 0));
}

}  // namespace
}  // namespace downpour
