// Applies a job's optimizer to gradients that come from outside: clipped as by a worker, applied as by a ps. Where the
// job has local steps, a worker takes them.
//
//   replay_optimizer JOB_TEXT BATCHES < GRADIENTS > VALUES
//
// Shapes: the floats of all variables, one behind the other: for each batch the gradient; of the values those at the
//   beginning, and then those after each step. The job is taken to have so many batches in all.
// Used by tests/optimizers/torch_test.py.
#include <glog/logging.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "job/job_file.h"
#include "job/slice_grid.h"
#include "model/gradient_clip.h"
#include "model/local_steps.h"
#include "ps/optimizer.h"
#include "runtime/initial_values.h"
#include "runtime/plan.h"

namespace downpour {
namespace {

class Replay {
 public:
  Replay(const JobSpec& job, uint64_t batches)
      : job_(job),
        grid_(GridOf(job.model).value()),
        plan_(job, batches * static_cast<uint64_t>(job.training.batch_size)),
        clip_(job.training.optimizer),
        local_(job, &grid_, plan_),
        servers_(job, grid_, plan_),
        slices_(grid_.size()) {
    CHECK_EQ(plan_.total_batches(), batches);
    for (const Slice& slice : grid_.slices) {
      DenseValues& served = slices_[ToNumber(slice.id)].dense;
      served.values = Payload::Allocate(static_cast<size_t>(slice.bytes()));
      InitialValues(job.seed, grid_, slice.id, served.values.mutable_floats().data());
      for (int slot = 0; slot < SlotCount(job.training); ++slot) {
        served.slots.push_back(Payload::Zeros(static_cast<size_t>(slice.bytes())));
      }
    }
  }

  void Run() {
    Write();
    std::vector<Settled> settled;
    for (LeaseId lease{0}; plan_.Contains(lease); lease = LeaseId{ToNumber(lease) + 1}) {
      for (Step step = 1; step <= plan_.StepsOf(lease); ++step) {
        Apply(job_.training.local_steps > 0 ? TakenAlone(lease, step, std::exchange(settled, {})) : Clipped());
        for (const Slice& slice : grid_.slices) settled.push_back({lease, step, slice.id, true});
        Write();
      }
    }
  }

 private:
  VariableGradients Read() const {
    VariableGradients gradients;
    for (size_t v = 0; v < grid_.variables.size(); ++v) {
      Payload gradient = Payload::Allocate(static_cast<size_t>(grid_.variables[v].elements()) * sizeof(float));
      CHECK_EQ(std::fread(gradient.mutable_data(), 1, gradient.size(), stdin), gradient.size());
      gradients.emplace_back(v, std::move(gradient));
    }
    return gradients;
  }

  VariableGradients Clipped() const {
    VariableGradients gradients = Read();
    clip_.Apply(&gradients);
    return gradients;
  }

  VariableGradients TakenAlone(LeaseId lease, Step step, std::vector<Settled> settled) {
    for (const Slice& slice : grid_.slices) local_.Set(slice.id, slices_[ToNumber(slice.id)].dense.values);
    local_.Begin({.lease = lease, .step = step, .updates = {}, .settled = std::move(settled)});
    const uint64_t batches = plan_.ExamplesOf(lease, step) / static_cast<uint64_t>(job_.training.batch_size);
    for (uint64_t batch = 0; batch < batches; ++batch) local_.Take(Read());
    return local_.End();
  }

  void Apply(const VariableGradients& gradients) {
    for (const Slice& slice : grid_.slices) {
      auto& [envelope, dense] = slices_[ToNumber(slice.id)];
      const Payload part = gradients[slice.variable].second.Sub(static_cast<size_t>(slice.offset) * sizeof(float),
                                                                static_cast<size_t>(slice.bytes()));
      CHECK(servers_.Apply(slice.id, part.floats(), /*staleness=*/0, envelope, dense));
      ++envelope.consumed;
    }
  }

  void Write() const {
    for (const auto& [_, slice] : slices_) {
      CHECK_EQ(std::fwrite(slice.values.data(), 1, slice.values.size(), stdout), slice.values.size());
    }
  }

  const JobSpec job_;
  const SliceGrid grid_;
  const Plan plan_;
  const GradientClip clip_;
  LocalSteps local_;
  const Optimizer servers_;
  struct DenseSlice {
    SliceEnvelope envelope;
    DenseValues dense;
  };
  std::vector<DenseSlice> slices_;
};

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CHECK_EQ(argc, 3) << "replay_optimizer JOB_TEXT BATCHES";
  const downpour::JobFileResult parsed = downpour::ParseJob(argv[1], "job");
  for (const downpour::JobError& error : parsed.errors) LOG(ERROR) << ToString(error);
  CHECK(parsed.ok());
  downpour::Replay(parsed.job, std::strtoull(argv[2], nullptr, 10)).Run();
  return 0;
}
