#include "runtime/process/group_guard.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace downpour {
namespace {

// A word means that there is nothing left to kill; the number may be another group's by then.
constexpr char kGuard[] = "read word && exit 0; kill -KILL -$1";

}  // namespace

void GroupGuard::Watch(pid_t group) {
  Dismiss();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const UniqueFd heard(ends[0]);
  life_ = UniqueFd(ends[1]);
  std::string number = std::to_string(group), shell = "/bin/sh", option = "-c", script = kGuard, name = "guard";
  char* argv[] = {shell.data(), option.data(), script.data(), name.data(), number.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, heard.get(), STDIN_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);  // no Ctrl-C reaches it
  if (posix_spawn(&shell_, argv[0], &files, &attributes, argv, environ) != 0) shell_ = 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
}

void GroupGuard::Dismiss() {
  if (shell_ == 0) return;
  (void)send(life_.get(), "\n", 1, MSG_NOSIGNAL);
  life_ = UniqueFd();
  waitpid(shell_, nullptr, 0);
  shell_ = 0;
}

}  // namespace downpour
