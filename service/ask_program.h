// AskProgram: what another program prints, within a time.
//
//   const Said said = AskProgram({"squeue", "--noheader"}, 30);
//   if (said.code == 0) ...said.out...
//
// Shapes: found in the PATH, with nothing to read.
// Errors: `code` is none where it was killed, which also happens to what takes longer. 127: there is no such program.
// Threads: any. SIGCHLD may be ignored.
// Tests: tests/unit/service/ask_program_test.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace downpour {

struct Said {
  std::string out;
  std::optional<int> code;
};
enum class Errors { kDropped, kBesideOut };
Said AskProgram(const std::vector<std::string>& command, int seconds, Errors errors = Errors::kBesideOut);

}  // namespace downpour
