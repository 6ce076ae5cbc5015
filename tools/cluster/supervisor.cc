#include "tools/cluster/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/cluster/poll_timeout.h"

namespace downpour {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kEndsWithin{5};  // of SIGKILL, also with much memory to give back

// What the child needs, laid out before the fork: between fork and exec nothing may allocate.
struct ExecImage {
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
};

ExecImage MakeImage(const ProcessSpec& spec) {
  ExecImage image;
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const size_t equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  for (const auto& [key, value] : spec.environment) variables[key] = value;
  for (const auto& [key, value] : variables) image.environment.push_back(absl::StrCat(key, "=", value));
  for (std::string& line : image.environment) image.envp.push_back(line.data());
  for (const std::string& word : spec.argv) image.argv.push_back(const_cast<char*>(word.c_str()));
  image.argv.push_back(nullptr);
  image.envp.push_back(nullptr);
  return image;
}

// Runs in the child; only async-signal-safe calls. Reports errno through `failure_fd`, which exec closes.
[[noreturn]] void Become(const ExecImage& image, pid_t parent, int log_fd, int failure_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(image.argv[0], image.argv.data(), image.envp.data());
  const int error = errno;
  const ssize_t ignored = write(failure_fd, &error, sizeof(error));
  static_cast<void>(ignored);
  _exit(127);
}

absl::Status ErrnoStatus(int error, const std::string& what) { return absl::ErrnoToStatus(error, what); }

}  // namespace

std::string DescribeSignal(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("signal ", signal, " (SIG", name, ")");
}

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) return DescribeSignal(WTERMSIG(wait_status));
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
}

bool MayPass(const absl::Status& start) { return absl::IsUnavailable(start) || absl::IsResourceExhausted(start); }

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create() {
  sigset_t wanted, before;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  signal(SIGCHLD, SIG_DFL);  // ignored by the caller, it would take the children's ends from waitpid
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // Under nohup, or in a script's background, the caller has chosen that some are ignored; a blocked signal is not.
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&wanted, signal);
  }
  sigprocmask(SIG_BLOCK, &wanted, &before);
  const int fd = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "signalfd");
  return std::unique_ptr<Supervisor>(new Supervisor(fd, before));
}

Supervisor::~Supervisor() {
  KillAll();
  close(signal_fd_);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

absl::Status Supervisor::Start(const ProcessSpec& spec) {
  const ExecImage image = MakeImage(spec);
  const int log_fd = open(spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", spec.log));
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) {
    const int error = errno;
    close(log_fd);
    return ErrnoStatus(error, "pipe");
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) Become(image, parent, log_fd, failure[1]);
  close(log_fd);
  close(failure[1]);
  int error = pid < 0 ? fork_error : 0;
  if (pid > 0 && read(failure[0], &error, sizeof(error)) > 0) waitpid(pid, nullptr, 0);
  close(failure[0]);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("cannot start ", spec.argv[0]));
  children_[spec.name] = {pid, Clock::now()};
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
