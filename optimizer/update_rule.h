// UpdateRule: from the job's optimizer to the update of its kernel, for servers and for workers that take steps alone.
//
//   const std::vector<OptimizerSpec> specs = SpecsOf(grid.variables, job.training.servers_optimizer());
//   const Update update = UpdateFor(specs[v], damping, version + 1, RateShare(specs[v].schedule, step, job_steps));
//
// Order: the same bits on every CPU: computed in double, rounded once (tensor/apply_kernels.h).
// Cost: some roots for each update.
// Tests: tests/unit/ps/optimizer_test.cc; against torch tests/optimizers/torch_test.py.
#pragma once

#include <cstdint>
#include <vector>

#include "job/optimizer_spec.h"
#include "job/variables.h"
#include "tensor/apply_kernels.h"

namespace downpour {

// Factors of one update; as they stand here, of the plain optimizer.
struct Damping {
  double share = 1;        // of the whole effect that a gradient has, while it is remembered
  double memory = 1;       // the momentum's, in multiples of what the job says, but at least one update
  double fresh = 0;        // of this gradient's whole effect, applied at once beside the momentum
  double steep_least = 1;  // of the step's part along the direction in which it is largest: between these, the less the
  double steep_most = 1;   // more it outweighs the rest (tensor/deflation.h)
  double beside = 1;       // of all but its part along some such directions; only without momentum
  bool operator==(const Damping&) const = default;
};

// Of each variable its own numbers. What is not trained is no parameter: its gradient is the change itself, whose sign
// alone differs.
std::vector<OptimizerSpec> SpecsOf(const std::vector<VariableSpec>& variables, const OptimizerSpec& optimizer);

// The update number `version` of some values, counted from 1. `spec`: of their variable; `share`: RateShare's.
Update UpdateFor(const OptimizerSpec& spec, const Damping& damping, uint64_t version, double share);

}  // namespace downpour
