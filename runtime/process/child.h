// A child process, started without a shell, that does not outlive this one.
//
//   absl::StatusOr<pid_t> pid = StartChild({.argv = {"/opt/downpour-ps", "--chief=..."}, .out = log_fd});
//
// Order: a child gets a process group of its own, so that Ctrl-C reaches this process alone, and SIGKILL from the
//   kernel when the thread that started it ends. No signal is blocked in it, whatever its caller had blocked, and
//   SIGINT and SIGTERM are not ignored.
// Errors: NOT_FOUND and such for a program that cannot be started, by its name. Nothing is left running.
// Threads: any.
// Tests: tests/unit/cluster/supervisor_test.cc.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

struct ChildSpec {
  std::vector<std::string> argv;                                      // argv[0]: a path, or a name that PATH finds
  std::vector<std::pair<std::string, std::string>> environment = {};  // beside this process's own; these win
  int out = -1;                                                       // its stdout and stderr; -1: this one's stderr
  std::vector<int> kept = {};                                         // descriptors that it gets, by their numbers here
};

absl::StatusOr<pid_t> StartChild(const ChildSpec& spec);

// As waitpid tells it.
std::string DescribeEnd(int wait_status);  // "exit code 1", "signal 9 (SIGKILL)"
std::string DescribeSignal(int signal);    // "signal 9 (SIGKILL)"

}  // namespace downpour
