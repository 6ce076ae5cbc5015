#include <linux/close_range.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <new>
#include <string_view>

#include "runtime/exit_code.h"
#include "runtime/process/glog_setup.h"
#include "tools/cli/verbs.h"

namespace {

// Nothing here takes memory. An exception would not do: it meets destructors that take some.
[[noreturn]] void EndOutOfMemory() {
  constexpr std::string_view kSentence = "downpour: out of memory: give this process more (`ulimit -v`)\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
  _exit(downpour::kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(&EndOutOfMemory);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that `ulimit -f` ends is like a full disk
  // What it inherited is not for the tasks and the user's code that it starts. A job service knows by a lock among it
  // whether this process lives; a process of the user's that stays behind must not hold that.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  downpour::LogTroubleAlone("downpour");
  return downpour::RunTool(downpour::AllVerbs(), {argv + 1, argv + argc}, {std::cout, std::cerr});
}
