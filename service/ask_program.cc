#include "service/ask_program.h"

#include <cstdio>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr int kKilled = 128;  // as a shell tells signals

}  // namespace

Said AskProgram(const std::vector<std::string>& command, int seconds, Errors errors) {
  // By SIGKILL, since the service's threads, and so their children, have SIGTERM blocked. The shell prints the exit
  // code, since nobody can wait for a child where SIGCHLD is ignored.
  const std::string line = absl::StrCat("timeout -s KILL ", seconds, " ", ShellCommand(command), " </dev/null 2>",
                                        errors == Errors::kDropped ? "/dev/null" : "&1", "; printf '\\n%s' $?");
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(line.c_str(), "re"), pclose);
  Said said;
  char block[4096];
  for (size_t read = 0; child && (read = fread(block, 1, sizeof(block), child.get())) > 0;)
    said.out.append(block, read);
  const size_t end = said.out.rfind('\n');
  int code = 0;
  if (end == std::string::npos || !absl::SimpleAtoi(said.out.substr(end + 1), &code)) return said;
  said.out.erase(end);
  if (code < kKilled) said.code = code;
  return said;
}

}  // namespace downpour
