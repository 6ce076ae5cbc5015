// What the main functions of the three roles share: logging, traces, signals, notices of the machine's cloud, the
// driver.
//
//   if (auto exit_code = ParseFlags(argc, argv, usage)) return *exit_code;
//   if (auto exit_code = BeginTask(usage, "chief")) return *exit_code;
//   Mailbox mailbox;
//   return RunRole(role, PeerRole::kChief, "127.0.0.1:0", {.mailbox = &mailbox});
//
// Errors: one sentence in the log; exit code 2 for what the command line is to blame for, else 1.
#pragma once

#include <optional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/posix/keys.h"
#include "runtime/process/flags.h"
#include "runtime/role.h"
#include "runtime/zmq/driver.h"

ABSL_DECLARE_FLAG(std::string, keys);
ABSL_DECLARE_FLAG(std::string, log_dir);

namespace downpour {

// Sets up logging under the task's name; the exit code if the process is to end now.
std::optional<int> BeginTask(const Usage& usage, const std::string& task);

// What the flags say that RunRole goes by, checked. INVALID_ARGUMENT for one that it would refuse.
struct SharedFlags {
  std::string keys_folder;  // the KeysFolder (runtime/posix/keys.h) of --keys and the job folder
  std::optional<KeyRing> keys;
  std::string metadata_server;
};
absl::StatusOr<SharedFlags> ReadSharedFlags(PeerRole self, const std::string& job_dir = "");

// Runs the role to its end, by the SharedFlags of `self`, and returns its exit code. `listen` and `chief` are those of
// DriverOptions.
int RunRole(Role& role, PeerRole self, const std::string& listen, DriverWorld world, const std::string& job_dir = "",
            const std::string& chief = "");

// Logs why the process cannot go on and returns the exit code.
int EndMain(const absl::Status& status);

}  // namespace downpour
