#include "runtime/process/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"

namespace downpour {
namespace {

// What the child needs, laid out before the fork: between fork and exec nothing may allocate.
struct ExecImage {
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
};

ExecImage MakeImage(const ChildSpec& spec) {
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
[[noreturn]] void Become(const ChildSpec& spec, const ExecImage& image, pid_t parent, int failure_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null_fd, STDIN_FILENO);
  if (spec.out >= 0) dup2(spec.out, STDERR_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  for (const int fd : spec.kept) fcntl(fd, F_SETFD, 0);
  // What the caller ignores, as under `trap '' TERM`, is for this process: it ends its children by these.
  for (const int inherited : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD}) signal(inherited, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(image.argv[0], image.argv.data(), image.envp.data());
  const int error = errno;
  const ssize_t ignored = write(failure_fd, &error, sizeof(error));
  static_cast<void>(ignored);
  _exit(127);
}

}  // namespace

absl::StatusOr<pid_t> StartChild(const ChildSpec& spec) {
  const ExecImage image = MakeImage(spec);
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const UniqueFd failure_is_read(failure[0]);
  UniqueFd failure_is_told(failure[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  int error = pid < 0 ? errno : 0;
  if (pid == 0) Become(spec, image, parent, failure_is_told.get());
  failure_is_told = UniqueFd();
  if (pid > 0 && read(failure_is_read.get(), &error, sizeof(error)) > 0) waitpid(pid, nullptr, 0);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", spec.argv[0]));
  return pid;
}

std::string DescribeSignal(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("signal ", signal, " (SIG", name, ")");
}

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) return DescribeSignal(WTERMSIG(wait_status));
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
}

}  // namespace downpour
