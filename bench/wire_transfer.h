// Measuring one side of wire_sides.h against the other: the server in a process of its own, the client in this one.
//
// Order: every server starts before the first thread of this process.
// Errors: whatever goes wrong ends the process: there is nothing to measure then.
#pragma once

#include <glog/logging.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "bench/wire_sides.h"
#include "runtime/posix/fd.h"

namespace downpour {

inline double SecondsOf(clockid_t clock) {
  timespec now;
  PCHECK(clock_gettime(clock, &now) == 0);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A server in a child process, which ends with this object or this process.
class ServerProcess {
 public:
  ServerProcess(const WireSides& sides, const WireLoad& load, const std::string& listen) {
    int ends[2];
    PCHECK(pipe(ends) == 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    pid_ = fork();
    PCHECK(pid_ >= 0) << "fork";
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      sides.serve(load, listen, [&](const std::string& endpoint) {
        PCHECK(write(write_end.get(), endpoint.data(), endpoint.size()) == static_cast<ssize_t>(endpoint.size()));
      });
      _exit(1);
    }
    write_end = UniqueFd();  // so that a server that ends without a word is noticed
    char endpoint[256];
    const ssize_t bytes = read(read_end.get(), endpoint, sizeof(endpoint));
    PCHECK(bytes > 0) << "the server did not start";
    endpoint_.assign(endpoint, static_cast<size_t>(bytes));
  }
  ~ServerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  const std::string& endpoint() const { return endpoint_; }
  double CpuSeconds() const {
    clockid_t clock;
    CHECK_EQ(clock_getcpuclockid(pid_, &clock), 0);
    return SecondsOf(clock);
  }

 private:
  pid_t pid_ = 0;
  std::string endpoint_;
};

// Does so many units, `in_flight` of them at a time.
inline void Transfer(WireClient& client, const WireLoad& load, size_t units, size_t in_flight) {
  for (size_t i = 0; i < units + in_flight; ++i) {
    if (i >= in_flight) client.End();
    if (i < units) client.Begin(i % load.slices);
  }
}

}  // namespace downpour
