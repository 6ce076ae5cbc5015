// A job small enough to reckon with by hand: two slices (a kernel of 4 elements and a bias of 2), two epochs of two
// leases of three steps each, plain SGD with a learning rate of 1.
#pragma once

#include <cstdint>

#include "job/job.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "schema/codec.h"
#include "schema/sha256.h"
#include "tests/scenario/script.h"

namespace downpour {

inline constexpr uint64_t kTinyExamples = 6;
inline constexpr SliceId kKernel{0};
inline constexpr SliceId kBias{1};

// The Python code of its python=1, two blocks.
inline Payload TinyCode() { return Payload::Zeros(kCodeBlockBytes + 5); }

inline JobSpec TinyJob(OptimizerKind optimizer = OptimizerKind::kSgd) {
  JobSpec job;
  job.name = "tiny";
  job.cluster.parameter_server_count = 2;
  job.model.inputs = {{"x", {2}}};
  job.model.layers = {{"y", {"x"}, DenseSpec{.units = 2}}};
  job.model.loss = Loss::kMeanSquaredError;
  job.training.batch_size = 1;
  job.training.epochs = 2;
  job.training.lease_batches = 3;
  job.training.optimizer.kind = optimizer;
  job.training.optimizer.learning_rate = 1;
  job.training.staleness_method = StalenessMethod::kNone;  // values are then plain sums
  job.data.train = {"train-images", "train-labels"};
  job.data.eval = {"eval-images", "eval-labels"};
  return job;
}

// With what a command names.
inline JobSpec TinyJobOf(const Command& command) {
  JobSpec job = TinyJob();
  job.training.epochs = static_cast<int64_t>(command.Number("epochs", job.training.epochs));
  job.seed = command.Number("seed", job.seed);
  if (command.Has("earlier")) {  // so many epochs keep the six examples
    job.training.earlier = {{static_cast<int64_t>(command.Number("earlier")), kTinyExamples, 7}};
  }
  job.training.pull_ahead = command.Has("pull_ahead");
  if (command.Has("max_staleness")) job.training.max_staleness = command.Number("max_staleness");
  if (command.Has("sync")) {  // so many leases, of one step each, in a group
    job.training.consistency = Consistency::kSync;
    job.training.group_size = static_cast<int64_t>(command.Number("sync"));
    job.training.lease_batches = 1;
  }
  job.data.train.images = command.Text("images", job.data.train.images);
  if (command.Has("records")) {  // which have two numbers each
    job.model.inputs = {{"x", {2}, {"a", "b"}}};
    job.data = {.format = kCsvFormat};
    job.data.train.files = {"/a.csv"};
    job.data.columns = {{.name = "a", .from = {"a"}}, {.name = "b", .from = {"b"}}};
    job.data.label.column = "y";
    job.data.block_examples = 128;
  }
  if (command.Has("python")) {  // of the same slices
    job.python = {.module = "task", .sha256 = Sha256Of({TinyCode()}), .bytes = kCodeBlockBytes + 5, .args = {}};
    job.model = {.inputs = {},
                 .layers = {},
                 .loss = Loss::kOwn,
                 .variables = {{"kernel", {2, 2}}, {"bias", {2}}},
                 .initialize_from = "initial"};
    job.data = DataSpec();
    job.data.format = kPythonFormat;
    job.data.train_examples = kTinyExamples;
    job.data.eval_examples = 4;
  }
  return job;
}

inline Plan TinyPlan() { return Plan(TinyJob(), kTinyExamples); }
inline SliceGrid TinyGrid() { return *GridOf(TinyJob().model); }

}  // namespace downpour
