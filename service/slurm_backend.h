// SlurmBackend: runs in a Slurm cluster. Slurm does the scheduling, and its queue is the queue.
//
// Shapes: each run is one batch job on one node, which runs `downpour run` (slurm_batch.h). The root must lie where all
//   nodes see it under the same path, since the job folder is what service and run have in common.
// Order: sbatch is run by a shell that holds the run's lock. What it submitted is found again by the job's name,
//   whether or not the shell lived to write down its number. Where the name is not in the queue, and neither a number
//   nor the script's mark is there, nothing was submitted, or nothing that ever runs: the mark lets only one submission
//   run.
// Errors: while the controller does not answer nothing is decided.
// Tests: tests/unit/service/slurm_backend_test.cc, tests/process/test_service_slurm.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "service/backend.h"
#include "service/slurm_queue.h"

namespace downpour {

class SlurmBackend : public RunBackend {
 public:
  explicit SlurmBackend(BackendSettings settings, SlurmQueue queue = SlurmQueue())
      : settings_(std::move(settings)), queue_(std::move(queue)) {}
  void Refresh() override;
  Turns Queue(const std::vector<Job>& unfinished) override;
  RunSeen Look(const Job& job, const RunFolder& folder) override;
  absl::Status Start(const RunOrder& order, const RunFolder& folder) override;
  absl::Status Stop(const Job& job, const RunFolder& folder) override;

 private:
  const BackendSettings settings_;
  SlurmQueue queue_;
  bool has_jobs_ = false;  // without any Slurm is not asked
  // The answer in which a job was first seen to be absent, with or without a mark in its folder.
  struct Absence {
    int64_t round;
    bool marked;
  };
  std::map<std::string, Absence> absent_;  // by name
  std::map<std::string, int64_t> begun_;   // by name: the answer in which its script was first seen to have begun
};

// What Slurm's queue, and what lies in the folder, say of a run that nobody submits just now. `job`: null where the
// queue does not have it. `left`: what RunFolder saw.
RunSeen SeenInSlurm(const SlurmJob* job, const RunSeen& left, const RunFolder& folder);

// Whether these words of sbatch's say that it did not reach the controller, and not that the job is wrong.
bool SaysNoContact(const std::string& words);

}  // namespace downpour
