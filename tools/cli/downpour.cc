#include <linux/close_range.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "tools/cli/verbs.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that `ulimit -f` ends is like a full disk
  // What it inherited is not for the tasks and the user's code that it starts. A job service knows by a lock among it
  // whether this process lives; a process of the user's that stays behind must not hold that.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  return downpour::RunTool(downpour::AllVerbs(), {argv + 1, argv + argc}, {std::cout, std::cerr});
}
