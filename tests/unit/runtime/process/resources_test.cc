#include "runtime/process/resources.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <functional>

namespace downpour {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
constexpr double kSeconds = 0.3;

double OwnSeconds() { return static_cast<double>(clock()) / CLOCKS_PER_SEC; }

void Burn() {
  const double begun = OwnSeconds();
  while (OwnSeconds() < begun + kSeconds) {
  }
}

void* Fill(int sharing) {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, kBytes);
  return memory;
}

// A child that has done this and waits; and, if `deep`, a child of its own which has.
class WaitingChild {
 public:
  explicit WaitingChild(const std::function<void()>& act, bool deep = false) {
    int said[2];
    EXPECT_EQ(pipe(said), 0);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      if (!deep || fork() == 0) {
        act();
        [[maybe_unused]] const ssize_t told = write(said[1], "x", 1);
      }
      for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(said[0], &byte, 1), 1);
    close(said[0]);
    close(said[1]);
  }
  ~WaitingChild() {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

TEST(ResourceMeterTest, AChildsTimeAndMemoryCountAndThatOfItsChildren) {
  for (const bool deep : {false, true}) {
    ResourceMeter meter;
    const ResourceSample before = meter.Sample();
    const WaitingChild child([] { Burn(), Fill(MAP_PRIVATE); }, deep);
    const ResourceSample with = meter.Sample();
    EXPECT_GT(with.cpu_seconds, before.cpu_seconds + 0.9 * kSeconds);
    EXPECT_GT(with.resident_bytes, before.resident_bytes + kBytes / 2);
    EXPECT_LT(with.resident_bytes, before.resident_bytes + kBytes * 3 / 2);
  }
}

TEST(ResourceMeterTest, WhatAChildSharesIsNotCountedTwice) {
  void* shared = Fill(MAP_SHARED);
  void* own = Fill(MAP_PRIVATE);  // until it is written the child has the same pages
  ResourceMeter meter;
  const ResourceSample before = meter.Sample();
  const WaitingChild child([&] { std::memset(shared, 2, kBytes); });
  EXPECT_LT(meter.Sample().resident_bytes, before.resident_bytes + kBytes / 2);
  munmap(shared, kBytes);
  munmap(own, kBytes);
}

TEST(ResourceMeterTest, TheTimeNeverFallsAndGoesOnOnceAChildHasGone) {
  ResourceMeter meter;
  double with = 0;
  {
    const WaitingChild child([] { Burn(); }, /*deep=*/true);  // whose child nobody here waits for
    with = meter.Sample().cpu_seconds;
  }
  const double without = meter.Sample().cpu_seconds;
  EXPECT_GE(without, with);
  Burn();
  EXPECT_GT(meter.Sample().cpu_seconds, without + 0.9 * kSeconds);
}

}  // namespace
}  // namespace downpour
