// SshBackend: runs on hosts that are reached by ssh, by `deploy/cluster run`, one at a time.
//
// Shapes: a job holds all hosts of the HOSTS file. What is of it lies there in a folder of its own, and is brought into
//   the job folder while it runs and when it is over.
// Order: the shim of run_folder.h starts `deploy/cluster run`, which may be started again at any time: it leaves
//   alone what runs on the hosts, and starts nothing of a run that is over. So a run whose shim was killed is not
//   lost, and another shim is attached to it.
// Tests: tests/unit/service/ssh_backend_test.cc, tests/process/test_service_ssh.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "service/backend.h"

namespace downpour {

class SshBackend : public RunBackend {
 public:
  explicit SshBackend(BackendSettings settings) : settings_(std::move(settings)) {}
  Turns Queue(const std::vector<Job>& unfinished) override;
  RunSeen Look(const Job& job, const RunFolder& folder) override;
  absl::Status Start(const RunOrder& order, const RunFolder& folder) override;
  absl::Status Stop(const Job& job, const RunFolder& folder) override;

  std::vector<std::string> CommandOf(const RunOrder& order, const RunFolder& folder) const;

 private:
  const BackendSettings settings_;
};

}  // namespace downpour
