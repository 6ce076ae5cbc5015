// What the main functions of the three roles share: flags that every role has, logging, traces, signals, the driver.
//
//   if (auto exit_code = BeginMain(argc, argv, usage, TaskRole::kPs)) return *exit_code;
//   Mailbox mailbox;
//   return RunRole(role, absl::GetFlag(FLAGS_listen), {.mailbox = &mailbox});
//
// Errors: one sentence in the log; exit code 2 for what the command line is to blame for, else 1.
#pragma once

#include <optional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "runtime/flags.h"
#include "runtime/role.h"
#include "runtime/zmq_driver.h"

ABSL_DECLARE_FLAG(std::string, chief);
ABSL_DECLARE_FLAG(std::string, job_dir);
ABSL_DECLARE_FLAG(std::string, listen);
ABSL_DECLARE_FLAG(std::string, log_dir);

namespace downpour {

// Parses the flags and sets up logging; the exit code if the process is to end now.
std::optional<int> BeginMain(int argc, const char* const* argv, const Usage& usage, TaskRole role);

// What the flags and the system say of a ps or worker. Options: PsOptions or WorkerOptions.
template <typename Options>
Options MemberOptionsFromFlags();

// Runs the role to its end and returns its exit code.
int RunRole(Role& role, const std::string& listen, DriverWorld world);

// Logs why the process cannot go on and returns the exit code.
int EndMain(const absl::Status& status);

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
