// Applies a job's optimizer to gradients that come from outside: clipped as by a worker, applied as by a ps.
//
//   replay_optimizer JOB_TEXT STEPS < GRADIENTS > VALUES
//
// Shapes: the floats of all variables, one behind the other: for each step the gradient; of the values those at the
//   beginning, and then those after each step. The job is taken to have STEPS steps in all.
// Used by tests/optimizers/torch_test.py.
#include <glog/logging.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "job/job_file.h"
#include "job/slice_grid.h"
#include "ps/optimizer.h"
#include "runtime/initial_values.h"
#include "runtime/plan.h"
#include "worker/model/gradient_clip.h"

namespace downpour {
namespace {

void Write(const std::vector<ServedSlice>& slices) {
  for (const ServedSlice& slice : slices) {
    CHECK_EQ(std::fwrite(slice.values.data(), 1, slice.values.size(), stdout), slice.values.size());
  }
}

VariableGradients ReadGradients(const SliceGrid& grid) {
  VariableGradients gradients;
  for (size_t v = 0; v < grid.variables.size(); ++v) {
    Payload gradient = Payload::Allocate(static_cast<size_t>(grid.variables[v].elements()) * sizeof(float));
    CHECK_EQ(std::fread(gradient.mutable_data(), 1, gradient.size(), stdin), gradient.size());
    gradients.emplace_back(v, std::move(gradient));
  }
  return gradients;
}

int Main(const std::string& text, uint64_t steps) {
  const JobFileResult parsed = ParseJob(text, "job");
  for (const JobError& error : parsed.errors) LOG(ERROR) << ToString(error);
  CHECK(parsed.ok());
  const TrainingSpec& training = parsed.job.training;
  const SliceGrid grid = GridOf(parsed.job.model).value();
  const Plan plan(parsed.job, steps * static_cast<uint64_t>(training.batch_size));
  CHECK_EQ(plan.total_steps(), steps);
  std::vector<ServedSlice> slices(grid.size());
  for (const Slice& slice : grid.slices) {
    ServedSlice& served = slices[ToNumber(slice.id)];
    served.values = Payload::Allocate(static_cast<size_t>(slice.bytes()));
    InitialValues(parsed.job.seed, grid, slice.id, served.values.mutable_floats().data());
    for (int slot = 0; slot < SlotCount(training.optimizer.kind); ++slot) {
      served.slots.push_back(Payload::Zeros(static_cast<size_t>(slice.bytes())));
    }
  }
  const Optimizer optimizer(parsed.job, grid, plan);
  const GradientClip clip(training.optimizer);
  Write(slices);
  for (uint64_t step = 0; step < steps; ++step) {
    VariableGradients gradients = ReadGradients(grid);
    clip.Apply(&gradients);
    for (const Slice& slice : grid.slices) {
      ServedSlice& served = slices[ToNumber(slice.id)];
      const Payload part = gradients[slice.variable].second.Sub(static_cast<size_t>(slice.offset) * sizeof(float),
                                                                static_cast<size_t>(slice.bytes()));
      CHECK(optimizer.Apply(slice.id, part.floats(), /*staleness=*/0, served));
      ++served.consumed;
    }
    Write(slices);
  }
  return 0;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CHECK_EQ(argc, 3) << "replay_optimizer JOB_TEXT STEPS";
  return downpour::Main(argv[1], std::strtoull(argv[2], nullptr, 10));
}
