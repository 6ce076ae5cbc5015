#include "schema/job.h"

namespace downpour {

int SlotCount(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kMomentum:
      return 1;
    case OptimizerKind::kAdam:
      return 2;
  }
  return 0;
}

int SlotCount(const TrainingSpec& training) {
  return SlotCount(training.optimizer.kind) + (training.consistency == Consistency::kSync);
}

std::vector<std::string> PlanDifferences(const JobSpec& job, const JobSpec& before) {
  std::vector<std::string> keys;
  const auto compare = [&keys](bool same, const char* key) {
    if (!same) keys.push_back(key);
  };
  compare(job.seed == before.seed, "seed");
  compare(job.training.consistency == before.training.consistency, "training.consistency");
  compare(job.training.group_size == before.training.group_size, "training.groupSize");
  compare(job.training.batch_size == before.training.batch_size, "training.batchSize");
  compare(job.training.lease_batches == before.training.lease_batches, "training.leaseBatches");
  compare(job.training.push_every == before.training.push_every, "training.pushEvery");
  compare(job.training.wire == before.training.wire, "training.wire");
  compare(job.training.staleness_method == before.training.staleness_method, "training.staleness.method");
  compare(job.training.optimizer.kind == before.training.optimizer.kind, "training.optimizer.name");
  compare(job.training.epochs >= before.training.epochs, "training.epochs (may be raised, not lowered)");
  compare(job.model == before.model, "model");
  return keys;
}

}  // namespace downpour
