// Which process of this host listens at a port.
//
//   if (const std::optional<Listener> who = ListenerAt(7001)) ...who->program is "downpour-ps"...
//
// Cost: reads /proc/net/tcp and the open files of every process. Milliseconds on most hosts; for people's tools only.
// Errors: nothing where no process does, or the kernel does not tell: a user sees only processes of its own.
// Threads: any.
// Tests: tests/unit/runtime/posix/listener_test.cc.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace downpour {

struct Listener {
  pid_t pid = 0;
  std::string program;             // its file's name, without folders
  std::vector<std::string> words;  // its command line
};
std::optional<Listener> ListenerAt(int port);

}  // namespace downpour
