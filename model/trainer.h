// The device side of a worker: data set, plan and model behind the Computer interface.
//
//   ComputeThread thread(std::make_unique<Trainer>(std::move(device->backend)), ...);
//
// Order: Prepare first; it may come again, with another job, and forgets everything. Before the first step every slice
//   must have come in some request's updates. Where the model has tables, FindKeys comes before each step and before
//   each part of an evaluation, which then brings their rows. Gradients of rows leave with the last ones of a step.
// Cost: the data set decodes the examples of a lease, and of the one behind it, on threads of its own (batch_reader.h).
//   While a device computes a step, the first batch of the one that is said to be next is laid out and comes up;
//   without that, and where the host computes, that is done when the batch is asked for. A step copies each updated
//   slice once into its variable; from those that PrefetchParameters was given a device copies without a pass on the
//   CPU. Results depend on none of this. Gradients are cut into slices (model/gradient_slicer.h), not copied.
// Errors: of Prepare: the data set's, with file and offset; INVALID_ARGUMENT naming both sides where data and model
//   differ. Of steps: INVALID_ARGUMENT or OUT_OF_RANGE for what is not the plan's or the grid's, FAILED_PRECONDITION
//   where Prepare, FindKeys, a slice or a bucket's rows are missing. A failed step may be asked for again. What keeps a
//   batch from being read ahead is told when that batch is asked for.
// Threads: one at a time; PrefetchParameters another one, beside it; device() any.
// Tests: tests/unit/model/trainer*_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/parameter_loader.h"
#include "runtime/compute.h"
#include "tensor/backend.h"

namespace downpour {

class Trainer final : public Computer {
 public:
  explicit Trainer(std::unique_ptr<Backend> backend);
  ~Trainer() override;

  std::string device() const { return backend_->name(); }  // for people
  void Run(const ComputeRequest& request, const Done& done) override;
  bool loads_ahead() const override { return !backend_->memory_is_host(); }
  void PrefetchParameters(const SliceValues& values) override;

 private:
  class Session;  // what Prepare made

  std::unique_ptr<Backend> backend_;
  ParameterLoader parameters_;  // outlives sessions: PrefetchParameters comes whatever Run is at
  std::unique_ptr<Session> session_;
};

}  // namespace downpour
