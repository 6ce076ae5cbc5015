// Draws beyond one undisturbed folder, one job text, small models and few workers.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "job/job_names.h"
#include "schema/codec.h"
#include "schema/sha256.h"
#include "tests/sim/draw.h"

namespace downpour {
namespace {

// Big ones are few: a thousand seeds are to take seconds.
constexpr double kBig = 0.01;

void DrawManySlices(Prng& prng, Draw& draw) {
  JobSpec& job = draw.job;
  job.model.inputs = {{"x", {2}}};
  job.model.layers.clear();
  std::string from = "x";
  const int64_t layers = DrawNumber(prng, 50, 150);  // two slices each
  for (int64_t i = 0; i < layers; ++i) {
    const DenseSpec dense{.units = DrawNumber(prng, 1, 2), .activation = Activation::kRelu};
    job.model.layers.push_back({absl::StrCat("dense_", i), {from}, dense});
    from = job.model.layers.back().name;
  }
  job.training.epochs = std::min<int64_t>(job.training.epochs, 2);
  draw.train_examples = std::min<uint64_t>(draw.train_examples, 8 * static_cast<uint64_t>(job.training.batch_size));
  draw.disk_delay = std::min<Duration>(draw.disk_delay, 5ms);  // records are written one after the other
}

void DrawManyWorkers(Prng& prng, Draw& draw) {
  draw.job.cluster.worker_count = DrawNumber(prng, 12, 48);
  draw.job.training.epochs = std::min<int64_t>(draw.job.training.epochs, 2);
  draw.job.training.lease_batches = std::min<int64_t>(draw.job.training.lease_batches, 2);
  draw.job.training.push_every = std::min(draw.job.training.push_every, draw.job.training.lease_batches);
  draw.timing.tick = std::max<Duration>(draw.timing.tick, 20ms);
}

void DrawDisks(Prng& prng, Draw& draw) {
  const bool is_shared = draw.job.checkpoint.via == CheckpointVia::kShared;
  if (prng.Chance(is_shared ? 0.3 : 0.05)) draw.disk = {prng.Chance(0.5) ? 0.02 : 0.2, prng.Chance(0.5) ? 0.02 : 0.2};
  if (prng.Chance(0.5)) draw.failing = prng.Chance(0.5) ? DiskOf::kChief : DiskOf::kPs;
  if (prng.Chance(is_shared ? 0.2 : 0.05)) draw.stalls = prng.Chance(0.5) ? 0.005 : 0.05;
}

void DrawConsistency(Prng& prng, Draw& draw) {
  TrainingSpec& training = draw.job.training;
  if (prng.Chance(0.25)) training.max_staleness = DrawNumber(prng, 0, 6);
  if (!prng.Chance(0.3)) return;
  training.consistency = prng.Chance(0.5) ? Consistency::kSsp : Consistency::kSync;
  training.group_size = DrawNumber(prng, 1, std::min<int64_t>(8, draw.job.cluster.worker_count + 1));
  training.ssp_bound = DrawNumber(prng, 1, 4);
  training.push_every = std::min<int64_t>(training.push_every, 2);
  training.lease_batches = training.push_every;
  if (training.consistency == Consistency::kSsp) return;
  training.backup_workers = DrawNumber(prng, 0, draw.job.cluster.worker_count - 1);
  training.max_staleness.reset();
  training.pull_ahead = false;
}

// Of one block, of several, and of blocks without a rest.
void DrawCode(Prng& prng, Draw& draw) {
  const size_t blocks = prng.Below(3), rest = prng.Below(3) * 1000;
  draw.code.assign(std::max<size_t>(1, blocks * kCodeBlockBytes + rest), static_cast<char>('a' + prng.Below(26)));
  draw.job.python = {.module = "task",
                     .sha256 = Sha256Of({Payload::CopyOf(draw.code.data(), draw.code.size())}),
                     .bytes = static_cast<int64_t>(draw.code.size()),
                     .args = {}};
}

void DrawOptimizer(Prng& prng, Draw& draw) {
  OptimizerSpec& optimizer = draw.job.training.optimizer;
  if (prng.Chance(0.4)) optimizer.kind = kOptimizers[prng.Below(std::size(kOptimizers))].value;
  if (draw.oracle.not_finite > 0) return;  // what overflows, as the oracle has it, does so at the whole rate
  if (prng.Chance(0.3)) optimizer.weight_decay = 0.01;
  if (prng.Chance(0.2)) optimizer.overrides = {{.variables = "dense_0/*", .learning_rate = 0.5, .weight_decay = {}}};
  if (!prng.Chance(0.4)) return;
  const int64_t warmup = DrawNumber(prng, 0, 20);
  optimizer.schedule = {.kind = kSchedules[prng.Below(std::size(kSchedules))].value,
                        .warmup_steps = warmup,
                        .step_every = DrawNumber(prng, 1, 20),
                        .decay = 0.5,
                        .final_share = 0.125,
                        .total_steps = prng.Chance(0.5) ? 0 : warmup + DrawNumber(prng, 1, 100)};
}

}  // namespace

void DrawRare(Prng& prng, Draw& draw) {
  if (prng.Chance(kBig)) DrawManySlices(prng, draw);
  if (prng.Chance(kBig)) DrawManyWorkers(prng, draw);
  DrawDisks(prng, draw);
  draw.other_text = draw.generations > 1 && prng.Chance(0.4);
  if (prng.Chance(0.05)) draw.start_within = 30s;
  draw.end_trouble = prng.Chance(0.12);
  draw.rot = draw.end_trouble && !draw.power_failure && prng.Chance(0.5);
  if (draw.rot) draw.job.timing.server_wait = 20s + 2 * draw.start_within;  // for checkpoints that cannot be used
  if (prng.Chance(0.03)) draw.faults.lie = DrawTime(prng, 50ms, 1s);
  if (prng.Chance(0.03)) draw.device.no_room_for = DrawTime(prng, 2s, 10s);
  // The loss never becomes better: see the device.
  const TrainingSpec& training = draw.job.training;
  if (draw.eval_examples > 0 && training.evaluate_every_epochs == 1 && training.epochs > 2 && prng.Chance(0.5)) {
    draw.job.training.stop_early = {.metric = "loss", .patience = 1, .min_delta = 0};
  }
  // By the optimizer, so each rule. What overflows, as the oracle has it, does so at the whole rate.
  if (prng.Chance(0.5) && draw.oracle.not_finite == 0) draw.job.training.staleness_method = StalenessMethod::kAuto;
  DrawConsistency(prng, draw);
  DrawOptimizer(prng, draw);
  if (prng.Chance(0.1)) draw.faults.move = DrawTime(prng, 300ms, 5s);
  if (prng.Chance(0.2)) draw.job.model.initialize_from = "/models/m.safetensors";
  if (prng.Chance(0.1)) DrawCode(prng, draw);
}

}  // namespace downpour
