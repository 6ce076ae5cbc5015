#include "job/job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace downpour {

// slowMomentum spreads a stale gradient over the updates to come, for which sgd needs a velocity. Of a momentum of 0
// that holds the last gradient alone, and so nothing changes where nothing is stale.
OptimizerSpec TrainingSpec::servers_optimizer() const {
  if (local_steps > 0) return outer;
  OptimizerSpec spec = optimizer;
  if (spec.kind == OptimizerKind::kSgd && MethodOf(*this) == StalenessMethod::kSlowMomentum) {
    spec.kind = OptimizerKind::kMomentum;
    spec.momentum = 0;
  }
  return spec;
}

StalenessMethod MethodOf(const TrainingSpec& training) {
  if (training.staleness_method != StalenessMethod::kAuto) return training.staleness_method;
  if (training.consistency == Consistency::kSync) return StalenessMethod::kNone;  // nothing is stale
  if (training.local_steps > 0) return StalenessMethod::kRate;
  switch (training.optimizer.kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return StalenessMethod::kSlowMomentum;
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kRmsProp:
    case OptimizerKind::kFtrl:
      return StalenessMethod::kSteepRate;
  }
  return StalenessMethod::kNone;
}

int SlotCount(const TrainingSpec& training) { return static_cast<int>(SlotNames(training).size()); }

std::vector<std::string> SlotNames(const TrainingSpec& training) {
  std::vector<std::string> names = SlotNames(training.servers_optimizer().kind);
  if (training.consistency == Consistency::kSync) names.push_back("sum of the group's gradients");
  return names;
}

namespace {

// What rates are does not belong to the plan, of rows either: those of `of`, where it has the same rule.
std::vector<ModelTable> WithRatesOf(std::vector<ModelTable> tables, const std::vector<ModelTable>& of) {
  for (size_t i = 0; i < std::min(tables.size(), of.size()); ++i) {
    if (tables[i].optimizer.kind == of[i].optimizer.kind) tables[i].optimizer = of[i].optimizer;
  }
  return tables;
}

}  // namespace

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
  compare(job.training.local_steps == before.training.local_steps, "training.localSteps");
  compare(job.training.outer.kind == before.training.outer.kind, "training.outer.name");
  compare(job.training.wire == before.training.wire, "training.wire");
  compare(job.training.staleness_method == before.training.staleness_method, "training.staleness.method");
  compare(job.training.optimizer.kind == before.training.optimizer.kind, "training.optimizer.name");
  compare(job.training.epochs >= before.training.epochs, "training.epochs (may be raised, not lowered)");
  compare(job.data.order == before.data.order, "data.order");
  compare(job.data.block_examples == before.data.block_examples, "data.blockExamples");
  compare(job.data.columns == before.data.columns, "data.columns");
  compare(job.data.label == before.data.label, "data.label");
  compare(job.data.weight == before.data.weight, "data.weight");
  compare(job.data.fields == before.data.fields, "data.fields");
  // What counts is the copy in the job folder: the file may have moved since.
  ModelSpec model = job.model;
  model.initialize_from = before.model.initialize_from;
  compare(WithRatesOf(model.tables, before.model.tables) == before.model.tables, "model.tables");
  model.tables = before.model.tables;
  compare(model.table_buckets == before.model.table_buckets, "model.tableBuckets");
  model.table_buckets = before.model.table_buckets;
  compare(model == before.model, "model");
  compare(job.model.initialize_from.empty() == before.model.initialize_from.empty(), "model.initializeFrom");
  return keys;
}

}  // namespace downpour
