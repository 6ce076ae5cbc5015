#include "cluster/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cluster/poll_timeout.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/process.h"
#include "runtime/process/child.h"

namespace downpour {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kEndsWithin{5};  // of SIGKILL, also with much memory to give back

absl::Status ErrnoStatus(int error, const std::string& what) { return absl::ErrnoToStatus(error, what); }

}  // namespace

bool MayPass(const absl::Status& start) { return absl::IsUnavailable(start) || absl::IsResourceExhausted(start); }

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create() {
  sigset_t before, wanted = SigtermAnd({SIGINT, SIGHUP});
  sigaddset(&wanted, SIGCHLD);
  signal(SIGCHLD, SIG_DFL);  // ignored by the caller, it would take the children's ends from waitpid
  sigprocmask(SIG_BLOCK, &wanted, &before);
  const int fd = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "signalfd");
  return std::unique_ptr<Supervisor>(new Supervisor(fd, before));
}

Supervisor::~Supervisor() {
  KillAll();
  Collect();  // a second signal to stop would end this process now, in place of its exit code
  close(signal_fd_);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

absl::Status Supervisor::Start(const ProcessSpec& spec) {
  const UniqueFd log(open(spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.ok()) return ErrnoStatus(errno, absl::StrCat("cannot open ", spec.log));
  const absl::StatusOr<pid_t> pid = StartChild({.argv = spec.argv, .environment = spec.environment, .out = log.get()});
  if (!pid.ok()) return pid.status();
  children_[spec.name] = {*pid, Clock::now()};
  return absl::OkStatus();
}

Supervisor::News Supervisor::Collect() {
  News news;
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo != SIGCHLD) news.signals.push_back(static_cast<int>(info.ssi_signo));
  }
  // One SIGCHLD may stand for several children, so each is asked.
  for (auto child = children_.begin(); child != children_.end();) {
    int status = 0;
    if (waitpid(child->second.pid, &status, WNOHANG) == child->second.pid) {
      news.exited.push_back({child->first, child->second.pid, status, Clock::now() - child->second.since});
      child = children_.erase(child);
    } else {
      ++child;
    }
  }
  return news;
}

pid_t Supervisor::PidOf(const std::string& name) const {
  const auto found = children_.find(name);
  return found == children_.end() ? 0 : found->second.pid;
}

void Supervisor::Send(const std::string& name, int signal) {
  if (const pid_t pid = PidOf(name); pid > 0) kill(pid, signal);
}

void Supervisor::KillAll() {
  for (const auto& [name, child] : children_) kill(child.pid, SIGKILL);
  for (const auto deadline = Clock::now() + kEndsWithin; !children_.empty() && Clock::now() < deadline; Collect()) {
    pollfd ends{signal_fd_, POLLIN, 0};
    poll(&ends, 1, PollTimeout(deadline - Clock::now()));
  }
  children_.clear();
}

}  // namespace downpour
