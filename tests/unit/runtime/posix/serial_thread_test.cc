#include "runtime/posix/serial_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <thread>
#include <vector>

namespace downpour {
namespace {

TEST(SerialThreadTest, HandlesOneAfterTheOtherInOrder) {
  constexpr int kRequests = 1000;
  std::vector<int> handled;
  {
    SerialThread<int> thread(AtEnd::kFinish, [&](int request) { handled.push_back(request); });
    for (int i = 0; i < kRequests; ++i) thread.Submit(i);
  }
  std::vector<int> all(kRequests);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(handled, all);
}

TEST(SerialThreadTest, TakesRequestsFromAnyThread) {
  constexpr int kThreads = 4, kEach = 1000;
  std::vector<int> next(kThreads);  // of each thread
  {
    SerialThread<int> thread(AtEnd::kFinish, [&](int request) { EXPECT_EQ(request % kEach, next[request / kEach]++); });
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kThreads; ++caller) {
      callers.emplace_back([&thread, caller] {
        for (int i = 0; i < kEach; ++i) thread.Submit(caller * kEach + i);
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(next, std::vector<int>(kThreads, kEach));
}

TEST(SerialThreadTest, TheRequestAtHandIsFinishedWhicheverWayItEnds) {
  for (const AtEnd at_end : {AtEnd::kFinish, AtEnd::kAbandon}) {
    std::promise<void> begun, go_on;
    bool finished = false;
    std::thread caller([&go_on, started = begun.get_future()]() mutable {
      started.wait();
      go_on.set_value();
    });
    {
      SerialThread<int> thread(at_end, [&](int) {
        begun.set_value();
        go_on.get_future().wait();
        finished = true;
      });
      thread.Submit(0);
      caller.join();
    }
    EXPECT_TRUE(finished);
  }
}

}  // namespace
}  // namespace downpour
