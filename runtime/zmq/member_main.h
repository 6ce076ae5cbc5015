// What the main functions of ps and worker share beyond role_main.h: the flags that say which member of which job this
// is.
//
//   if (auto exit_code = BeginMember(argc, argv, usage, "ps")) return *exit_code;
//   WorkerRole role({.member = MemberOptionsFromFlags()});
//
// Errors: one sentence on stderr and exit code 2 for a chief that cannot be dialled, an index that no task has, and
//   what ReadSharedFlags refuses.
// Tests: tests/unit/runtime/zmq/member_main_test.cc.
#pragma once

#include <optional>
#include <string>

#include "runtime/member_session.h"
#include "runtime/process/flags.h"

namespace downpour {

inline constexpr const char* kMemberExitCode = "69 no chief for timing.chiefWait";

// Parses the flags, checks them and begins the task (role_main.h); the exit code if the process is to end now. `kind`:
// ps or worker.
std::optional<int> BeginMember(int argc, const char* const* argv, const Usage& usage, const std::string& kind);

// A warning where a task would listen on its machine alone while its chief, by its address, is on another; else empty.
std::string OutOfReach(const std::string& chief, const std::string& listen);
// Logs it, for the chief of the flags.
void WarnIfOutOfReach(const std::string& listen);

// What the flags and the system say of this ps or worker.
MemberOptions MemberOptionsFromFlags();

}  // namespace downpour
