// Child processes of this one: started without a shell, none of which outlives it.
//
//   auto supervisor = Supervisor::Create();
//   (*supervisor)->Start({.name = "ps-0", .argv = {"/opt/downpour-ps", "--chief=..."}, .log = "logs/ps-0.log"});
//   ...poll (*supervisor)->fd() for reading...
//   for (const Exited& exited : (*supervisor)->Collect().exited) ...
//
// Order: a child gets a process group of its own, so that Ctrl-C reaches this process alone, and SIGKILL from the
//   kernel when this process dies. No signal is blocked in it, whatever its caller had blocked.
// Threads: one; SIGCHLD and SIGTERM, and SIGINT and SIGHUP unless they are ignored, are blocked in it while a
//   Supervisor lives, and read by Collect. Create it before any other thread starts.
// Tests: tests/unit/cluster/supervisor_test.cc.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace downpour {

struct ProcessSpec {
  std::string name;                                              // unique among the living
  std::vector<std::string> argv;                                 // argv[0]: path of the program
  std::vector<std::pair<std::string, std::string>> environment;  // beside this process's own; these win
  std::string log;                                               // stdout and stderr are appended to this file
};

struct Exited {
  std::string name;
  pid_t pid = 0;
  int wait_status = 0;  // of waitpid
  std::chrono::nanoseconds lived{};
};

// Whether a start that failed may succeed soon: no memory, process or descriptor was to be had.
bool MayPass(const absl::Status& start);

class Supervisor {
 public:
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create();
  ~Supervisor();  // kills what is left
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Errors: NOT_FOUND and such for a program or log file that cannot be opened, by its name; those of MayPass where
  // there is no room for it now. Nothing is left running.
  absl::Status Start(const ProcessSpec& spec);

  int fd() const { return signal_fd_; }
  struct News {
    std::vector<Exited> exited;
    std::vector<int> signals;  // SIGINT, SIGTERM, SIGHUP sent to this process
  };
  News Collect();  // never waits

  bool IsRunning(const std::string& name) const { return children_.contains(name); }
  size_t running() const { return children_.size(); }
  pid_t PidOf(const std::string& name) const;  // 0 if it does not run
  void Send(const std::string& name, int signal);
  // SIGKILL to every child. Waits for their ends, but for no more than a few seconds: one that stands in the kernel, as
  // on a disk that hangs, ends when that answers.
  void KillAll();

 private:
  struct Child {
    pid_t pid = 0;
    std::chrono::steady_clock::time_point since;
  };
  Supervisor(int signal_fd, const sigset_t& mask_before) : signal_fd_(signal_fd), mask_before_(mask_before) {}

  int signal_fd_;
  sigset_t mask_before_;
  std::map<std::string, Child> children_;
};

}  // namespace downpour
