// A small job's optimizer and slices for it, for tests of ps/optimizer.h.
#pragma once

#include <vector>

#include "ps/optimizer.h"

namespace downpour {

inline Payload Floats(const std::vector<float>& values) { return Payload::CopyOf(values.data(), values.size() * 4); }
inline std::vector<float> ValuesOf(const Payload& payload) {
  return {payload.floats().begin(), payload.floats().end()};
}

inline TrainingSpec Spec(OptimizerKind kind) {
  TrainingSpec spec;
  spec.optimizer.kind = kind;
  spec.optimizer.learning_rate = 0.5;
  return spec;
}

// A variable's slice as the optimizer sees it: its envelope, and what the envelope is around.
struct DenseSlice : SliceEnvelope, DenseValues {};

class SliceOptimizer : public Optimizer {
 public:
  using Optimizer::Optimizer;
  bool Apply(SliceId id, GradientSpan gradient, std::optional<uint64_t> staleness, DenseSlice& slice) const {
    return Optimizer::Apply(id, gradient, staleness, slice, slice);
  }
  bool ApplyGathered(SliceId id, DenseSlice& slice) const { return Optimizer::ApplyGathered(id, slice, slice); }
};

// Of a job of one step for each of 100 examples, whose slice 0 is of y/kernel and 1 of y/bias.
inline SliceOptimizer MakeOptimizer(const TrainingSpec& training, int64_t workers = 1) {
  JobSpec job;
  job.cluster.worker_count = workers;
  job.model.inputs = {{"x", {2}}};
  job.model.layers = {{"y", {"x"}, DenseSpec{.units = 2}}};
  job.training = training;
  job.training.batch_size = 1;
  return SliceOptimizer(job, *GridOf(job.model), Plan(job, 100));
}

inline constexpr SliceId kKernelSlice{0}, kBiasSlice{1};

inline DenseSlice SliceWith(OptimizerKind kind, const std::vector<float>& values) {
  DenseSlice slice;
  slice.values = Floats(values);
  for (int i = 0; i < SlotCount(Spec(kind)); ++i) slice.slots.push_back(Payload::Zeros(values.size() * 4));
  return slice;
}

}  // namespace downpour
