// What the main functions of ps and worker share beyond posix_main.h: the flags that say which member of which job this is.
//
//   if (auto exit_code = BeginMember(argc, argv, usage, "ps")) return *exit_code;
//   PsRole role(MemberOptionsFromFlags<PsOptions>());
//
// Errors: one sentence on stderr and exit code 2 for a chief that cannot be dialled or an index that no task has.
// Tests: tests/unit/runtime/posix_member_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/flags.h"

namespace downpour {

// Parses the flags, checks them and begins the task (posix_main.h); the exit code if the process is to end now. `kind`:
// ps or worker.
std::optional<int> BeginMember(int argc, const char* const* argv, const Usage& usage, const std::string& kind);

// What the flags and the system say of a ps or worker. Options: PsOptions or WorkerOptions.
template <typename Options>
Options MemberOptionsFromFlags();

// ---- Details --------------------------------------------------------------------------------------------------------

struct MemberFacts {
  std::string chief;
  int32_t index = -1;
  std::string host;
  uint32_t pid = 0;
  std::string launcher;
  uint32_t attempt = 0;
  uint64_t nonce = 0;
  bool forward_logs = true;
};
MemberFacts MemberFactsFromFlags();

template <typename Options>
Options MemberOptionsFromFlags() {
  MemberFacts facts = MemberFactsFromFlags();
  Options options;
  options.chief = facts.chief;
  options.index = facts.index;
  options.host = facts.host;
  options.pid = facts.pid;
  options.launcher = facts.launcher;
  options.attempt = facts.attempt;
  options.nonce = facts.nonce;
  options.forward_logs = facts.forward_logs;
  return options;
}

}  // namespace downpour
