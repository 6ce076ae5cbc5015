// LocalBackend: runs on this machine, in a first-come queue that counts its cores, memory and GPUs.
//
// Shapes: JOB_DIR/service/gpus names the GPUs of a run, as CUDA_VISIBLE_DEVICES gives them to it. Where jobs may have
//   GPUs a job sees those that it asked for and no others.
// Order: what a run holds is on the disk before it starts.
// Tests: tests/unit/service/local_backend_test.cc, tests/process/test_job_service.py.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "service/backend.h"

namespace downpour {

// What this machine has: cores, nine tenths of the memory that it, or its control group, has, and its NVIDIA GPUs.
Room RoomOfThisMachine();

class LocalBackend : public RunBackend {
 public:
  explicit LocalBackend(BackendSettings settings);
  Turns Queue(const std::vector<Job>& unfinished) override;
  RunSeen Look(const Job& job, const RunFolder& folder) override;
  absl::Status Start(const RunOrder& order, const RunFolder& folder) override;
  absl::Status Stop(const Job& job, const RunFolder& folder) override;

 private:
  const Room& NeedOf(const Job& job);
  // Nothing where all are taken.
  std::vector<std::string> FreeGpus(size_t count) const;

  const BackendSettings settings_;
  std::vector<std::string> gpus_;                         // as CUDA_VISIBLE_DEVICES names them
  std::map<std::string, Room> needs_;                     // of unfinished jobs, by name and time of submission
  std::map<std::string, std::vector<std::string>> held_;  // GPUs, by job
};

}  // namespace downpour
