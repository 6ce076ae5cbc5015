// The command lines of a cluster on one machine.
//
// Order: the chief listens on a port that the kernel chooses and writes it into the job folder's chief.json; everybody
//   else is told that address, and so is a chief that takes its place. One thread of arithmetic for each worker, unless the environment says otherwise.
// Tests: tests/unit/tools/role_commands_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/supervisor.h"

namespace downpour {

struct LocalCluster {
  std::string chief_program;
  std::string ps_program;
  std::string worker_program;
  std::string job_file;
  std::string job_dir;
  std::vector<std::string> overrides;  // KEY=VALUE
  bool resume = false;
  bool trace = false;  // into JOB_DIR/trace
  int servers = 1;
  int workers = 1;
  std::string launcher;  // the same for all tasks of this run, and for no other run
};

inline constexpr const char* kChiefTask = "chief";

// Finds the three programs beside the running one: in its folder, as installed, or where the build puts them.
// Errors: NOT_FOUND naming what is missing.
absl::Status FindPrograms(const std::string& own_folder, LocalCluster* cluster);

// `listen`: host:port.
ProcessSpec ChiefProcess(const LocalCluster& cluster, const std::string& listen = "127.0.0.1:0");

// `task` is one of MemberTasks; `attempt` counts how often it was started before.
ProcessSpec MemberProcess(const LocalCluster& cluster, const std::string& task, const std::string& chief_endpoint,
                          uint32_t attempt);

std::vector<std::string> MemberTasks(const LocalCluster& cluster);  // ps-0, ps-1, worker-0 and so on
bool IsServerTask(const std::string& task);

}  // namespace downpour
