// The lock on a file by which one process at a time is at work in a folder. The kernel gives it back when its holder
// ends, by SIGKILL too.
//
//   if (KeepLock(file.get()) == EWOULDBLOCK) return absl::AlreadyExistsError("another one is at work");
//
// Errors: 0, or what flock(2) says; EWOULDBLOCK is of a lock that somebody else keeps.
// Cost: of KeepLock a second where it is held.
// Tests: tests/unit/runtime/posix/lock_test.cc.
#pragma once

#include "absl/functional/function_ref.h"

namespace downpour {

int TakeLock(int fd);  // in one look

// Looks again for a second, since two hold a lock for a moment alone. One is a tool that looks whether it is held. The
// other is the child of a holder that was killed, until it has become its own program.
int KeepLock(int fd);

// `wait` comes between two looks.
int KeepLock(int fd, absl::FunctionRef<void()> wait);

}  // namespace downpour
