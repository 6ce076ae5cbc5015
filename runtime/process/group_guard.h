// GroupGuard: no process of a group outlives this process, however that ends.
//
//   GroupGuard guard;
//   guard.Watch(pid);       // the leader of a group of its own (child.h)
//   guard.Dismiss();        // whoever killed the group by itself
//
// Shapes: a shell waits for the end of this process, which has the other end of a socket, and then kills the group.
//   What the kernel does for a child (PR_SET_PDEATHSIG) it does not do for the child's own children.
// Cost: a shell that sleeps.
// Errors: where no shell can be started nothing is guarded.
// Tests: tests/unit/runtime/process/group_guard_test.cc.
#pragma once

#include <sys/types.h>

#include "runtime/posix/fd.h"

namespace downpour {

class GroupGuard {
 public:
  GroupGuard() = default;
  ~GroupGuard() { Dismiss(); }
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  void Watch(pid_t group);
  void Dismiss();

 private:
  UniqueFd life_;
  pid_t shell_ = 0;
};

}  // namespace downpour
