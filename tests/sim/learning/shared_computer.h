// SharedComputer: one real device that computes for all workers of a simulation, each on the values it was given.
//
//   SharedComputer device(std::make_unique<Trainer>(MakeHostBackend({})));
//   device.Run(/*worker=*/3, request, done);      // at once
//
// Order: as of Computer, for each worker by itself. The data are opened once, whoever asks.
// Cost: of a step, a copy of all parameters more than a worker's own device has. Gradients must travel as they are:
//   what rounding leaves out is one worker's own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/compute.h"

namespace downpour {

class SharedComputer {
 public:
  explicit SharedComputer(std::unique_ptr<Computer> computer) : computer_(std::move(computer)) {}
  void Run(size_t worker, const ComputeRequest& request, const Computer::Done& done);

 private:
  SliceValues Update(size_t worker, const SliceValues& updates);

  std::unique_ptr<Computer> computer_;
  std::optional<std::pair<absl::Status, ComputeResult>> prepared_;
  std::map<size_t, std::map<SliceId, Payload>> values_;  // that each worker has now
};

}  // namespace downpour
