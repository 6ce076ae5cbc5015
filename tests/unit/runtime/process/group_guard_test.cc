#include "runtime/process/group_guard.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "runtime/process/child.h"

namespace downpour {
namespace {

// A leader with a child of its own, whose number it says.
std::pair<pid_t, pid_t> StartGroup() {
  int said[2];
  EXPECT_EQ(pipe(said), 0);
  const auto leader = StartChild({.argv = {"/bin/sh", "-c", "sleep 1000 & echo $! >&2; wait"}, .out = said[1]});
  EXPECT_TRUE(leader.ok()) << leader.status();
  close(said[1]);
  std::string number(32, '\0');
  const ssize_t got = read(said[0], number.data(), number.size());
  EXPECT_GT(got, 0);
  close(said[0]);
  return {*leader, static_cast<pid_t>(std::stoi(number))};
}

void AwaitEnd(pid_t pid) {
  const UniqueFd life(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd on_end = {life.get(), POLLIN, 0};
  if (life.ok()) poll(&on_end, 1, -1);  // else it has gone
}

TEST(GroupGuardTest, KillsTheGroupOfAProcessThatWasKilled) {
  int said[2];
  ASSERT_EQ(pipe(said), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const std::pair<pid_t, pid_t> group = StartGroup();
    GroupGuard guard;
    guard.Watch(group.first);
    const ssize_t ignored = write(said[1], &group.second, sizeof(group.second));
    static_cast<void>(ignored);
    raise(SIGKILL);
  }
  pid_t helper = 0;
  ASSERT_EQ(read(said[0], &helper, sizeof(helper)), static_cast<ssize_t>(sizeof(helper)));
  waitpid(owner, nullptr, 0);
  AwaitEnd(helper);  // for ever, if nobody kills it
  close(said[0]);
  close(said[1]);
}

TEST(GroupGuardTest, OneThatIsDismissedKillsNobody) {
  const std::pair<pid_t, pid_t> group = StartGroup();
  {
    GroupGuard guard;
    guard.Watch(group.first);
  }
  EXPECT_EQ(kill(group.second, 0), 0);
  EXPECT_EQ(waitpid(group.first, nullptr, WNOHANG), 0);
  kill(-group.first, SIGKILL);
  waitpid(group.first, nullptr, 0);
}

}  // namespace
}  // namespace downpour
