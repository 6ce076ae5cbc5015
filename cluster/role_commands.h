// The command lines of a cluster on one machine.
//
// Order: the chief writes where it listens into the job folder's chief.json; everybody else is told that
//   address, at which a chief that takes its place listens too. One thread of arithmetic for each
//   worker, unless the environment says otherwise.
// Tests: tests/unit/cluster/role_commands_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/supervisor.h"

namespace downpour {

struct LocalCluster {
  std::string chief_program;
  std::string ps_program;
  std::string worker_program;
  std::string job_file;
  std::string job_dir;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string command = {};            // that people type to start it again
  bool resume = false;
  std::string give_up = {};                   // as the chief's flag; empty: nothing
  bool trace = false;                         // into JOB_DIR/trace
  std::vector<std::string> chief_flags = {};  // others of the chief's alone
  int servers = 1;
  int workers = 1;
  std::string listen = "127.0.0.1:0";  // of the chief
  std::string sockets = {};            // the folder of the servers' sockets; empty: they listen beside the chief
  std::string keys = {};               // their folder; empty: none
  std::chrono::nanoseconds server_wait = std::chrono::minutes(10);  // how long the job stands for want of a ps
  std::string python = {};                                          // the workers' Python; empty: their own default
  std::string launcher;  // the same for all tasks of this run, and for no other run
};

inline constexpr const char* kChiefTask = "chief";

// Finds the three programs beside the running one: in its folder, as installed, or where the build puts them.
// Errors: NOT_FOUND naming what is missing.
absl::Status FindPrograms(const std::string& own_folder, LocalCluster* cluster);

// `before`: where the chief whose place it takes was reached; empty: there was none.
ProcessSpec ChiefProcess(const LocalCluster& cluster, const std::string& before = "");

// `task` is one of MemberTasks; `attempt` counts how often it was started before.
ProcessSpec MemberProcess(const LocalCluster& cluster, const std::string& task, const std::string& chief_endpoint,
                          uint32_t attempt);

// OK if that many ps can have their sockets in `folder`. FAILED_PRECONDITION with the remedy where their paths are
// longer than a socket's may be.
absl::Status CheckSockets(const std::string& folder, int servers);

std::vector<std::string> MemberTasks(const LocalCluster& cluster);  // ps-0, ps-1, worker-0 and so on
bool IsServerTask(const std::string& task);

}  // namespace downpour
