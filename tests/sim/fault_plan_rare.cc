// Draws beyond one undisturbed folder, one job text, small models and few workers.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_names.h"
#include "schema/codec.h"
#include "schema/sha256.h"
#include "tests/sim/fault_plan.h"

namespace downpour {
namespace {

// Big ones are few: a thousand seeds are to take seconds.
constexpr double kBig = 0.01;

void DrawManySlices(Prng& prng, FaultPlan& plan) {
  JobSpec& job = plan.job;
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
  plan.train_examples = std::min<uint64_t>(plan.train_examples, 8 * static_cast<uint64_t>(job.training.batch_size));
  plan.disk_delay = std::min<Duration>(plan.disk_delay, 5ms);  // records are written one after the other
}

void DrawManyWorkers(Prng& prng, FaultPlan& plan) {
  plan.job.cluster.worker_count = DrawNumber(prng, 12, 48);
  plan.job.training.epochs = std::min<int64_t>(plan.job.training.epochs, 2);
  plan.job.training.lease_batches = std::min<int64_t>(plan.job.training.lease_batches, 2);
  plan.job.training.push_every = std::min(plan.job.training.push_every, plan.job.training.lease_batches);
  plan.timing.tick = std::max<Duration>(plan.timing.tick, 20ms);
}

void DrawDisks(Prng& prng, FaultPlan& plan) {
  const bool is_shared = plan.job.checkpoint.via == CheckpointVia::kShared;
  if (prng.Chance(is_shared ? 0.3 : 0.05)) plan.disk = {prng.Chance(0.5) ? 0.02 : 0.2, prng.Chance(0.5) ? 0.02 : 0.2};
  if (prng.Chance(0.5)) plan.failing = prng.Chance(0.5) ? DiskOf::kChief : DiskOf::kPs;
  if (prng.Chance(is_shared ? 0.2 : 0.05)) plan.stalls = prng.Chance(0.5) ? 0.005 : 0.05;
}

void DrawConsistency(Prng& prng, FaultPlan& plan) {
  TrainingSpec& training = plan.job.training;
  if (prng.Chance(0.25)) training.max_staleness = DrawNumber(prng, 0, 6);
  if (!prng.Chance(0.3)) return;
  training.consistency = prng.Chance(0.5) ? Consistency::kSsp : Consistency::kSync;
  training.group_size = DrawNumber(prng, 1, std::min<int64_t>(8, plan.job.cluster.worker_count + 1));
  training.ssp_bound = DrawNumber(prng, 1, 4);
  training.push_every = std::min<int64_t>(training.push_every, 2);
  training.lease_batches = training.push_every;
  if (training.consistency == Consistency::kSsp) return;
  training.backup_workers = DrawNumber(prng, 0, plan.job.cluster.worker_count - 1);
  training.max_staleness.reset();
  training.pull_ahead = false;
}

// Of one block, of several, and of blocks without a rest.
void DrawCode(Prng& prng, FaultPlan& plan) {
  const size_t blocks = prng.Below(3), rest = prng.Below(3) * 1000;
  plan.code.assign(std::max<size_t>(1, blocks * kCodeBlockBytes + rest), static_cast<char>('a' + prng.Below(26)));
  plan.job.python = {.module = "task",
                     .sha256 = Sha256Of({Payload::CopyOf(plan.code.data(), plan.code.size())}),
                     .bytes = static_cast<int64_t>(plan.code.size()),
                     .args = {}};
}

void DrawOptimizer(Prng& prng, FaultPlan& plan) {
  OptimizerSpec& optimizer = plan.job.training.optimizer;
  if (prng.Chance(0.4)) optimizer.kind = kOptimizers[prng.Below(std::size(kOptimizers))].value;
  if (plan.oracle.not_finite > 0) return;  // what overflows, as the oracle has it, does so at the whole rate
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

// Behind what decides how many batches a step has.
void DrawLocalSteps(Prng& prng, FaultPlan& plan) {
  TrainingSpec& training = plan.job.training;
  if (training.consistency == Consistency::kSync || !prng.Chance(0.25)) return;
  training.local_steps = std::exchange(training.push_every, 1);
  training.outer = OuterDefaultsOf(kOuterOptimizers[prng.Below(std::size(kOuterOptimizers))].value);
  if (plan.oracle.not_finite > 0) training.outer.learning_rate = 1;  // as above
}

// Not where a person may begin again, or a folder goes back to what it was: what the earlier epochs had is lost there.
void DrawMoreData(Prng& prng, FaultPlan& plan) {
  const FaultRates& faults = plan.faults;
  const bool keeps_folder = !plan.damage && !plan.lose && !plan.rot && !plan.end_trouble &&
                            faults.new_folder == Duration::zero() && faults.put_back == Duration::zero();
  if (!keeps_folder || !prng.Chance(0.4)) return;
  plan.more_epochs = DrawNumber(prng, 1, 2);
  if (prng.Chance(0.8)) plan.more_examples = 1 + prng.Below(2 * plan.train_examples);
  // Until then a schedule over all steps would have another end.
  ScheduleSpec& schedule = plan.job.training.optimizer.schedule;
  if (schedule.total_steps == 0) schedule.total_steps = schedule.warmup_steps + 50;
}

// A model that also reads tables. Its columns are there for the job's text alone: devices take keys from the oracle.
void DrawTables(Prng& prng, FaultPlan& plan) {
  JobSpec& job = plan.job;
  const TrainingSpec& training = job.training;
  const bool may_have = training.consistency != Consistency::kSync && training.local_steps == 0 && !training.pull_ahead;
  if (!may_have || !prng.Chance(0.4)) return;
  constexpr OptimizerKind kKinds[] = {OptimizerKind::kSgd, OptimizerKind::kAdagrad, OptimizerKind::kAdam,
                                      OptimizerKind::kFtrl};
  job.model.table_buckets = DrawNumber(prng, 1, 5);
  job.data = DataSpec();
  job.data.format = kJsonFormat;
  job.data.train.files = {"train.jsonl"};
  if (plan.eval_examples > 0) job.data.eval.files = {"eval.jsonl"};
  job.data.label.column = "y";
  ColumnSpec numbers;
  numbers.name = "x";
  numbers.from = {"x"};
  numbers.numbers = job.model.inputs[0].shape[0];
  job.model.inputs[0].columns = {"x"};
  job.data.columns = {numbers};
  std::vector<std::string> outputs = {job.model.layers.back().name};
  for (int64_t i = 0; i < DrawNumber(prng, 1, 3); ++i) {
    ModelTable table;
    table.name = absl::StrCat("t", i);
    table.width = DrawNumber(prng, 1, 6);
    table.optimizer = DefaultsOf(kKinds[prng.Below(std::size(kKinds))]);
    if (table.optimizer.kind == OptimizerKind::kSgd) table.optimizer.learning_rate = 1;
    if (prng.Chance(0.4)) table.admit_after = DrawNumber(prng, 2, 4);
    if (prng.Chance(0.4)) table.evict_after = DrawNumber(prng, 1, 30);
    if (prng.Chance(0.2)) table.max_rows = DrawNumber(prng, 4, 20);
    table.row_wise = table.optimizer.kind == OptimizerKind::kAdagrad && prng.Chance(0.5);
    table.halves = prng.Chance(0.2);
    job.model.tables.push_back(table);
    ColumnSpec keys;
    keys.name = absl::StrCat("k", i);
    keys.from = {keys.name};
    keys.kind = ColumnKind::kKey;
    job.data.columns.push_back(keys);
    outputs.push_back(absl::StrCat("e", i));
    job.model.layers.push_back(
        {.name = outputs.back(), .from = {}, .op = EmbeddingSpec{.table = table.name, .columns = {keys.name}}});
  }
  job.model.layers.push_back({.name = "all", .from = outputs, .op = ConcatSpec()});
  if (prng.Chance(0.7)) plan.record_part_bytes = static_cast<size_t>(DrawNumber(prng, 250, 600));
  if (prng.Chance(0.7)) plan.piece_bytes = static_cast<uint64_t>(DrawNumber(prng, 20, 600));
  plan.device.asks_amid = prng.Chance(0.4);
}

}  // namespace

void PlanReaders(FaultPlan& plan) {
  Prng prng(MixAll(plan.seed, 7));
  ReaderPlan& readers = plan.readers;
  if (!prng.Chance(0.25)) return;
  const auto sometimes = [&prng](Duration least, Duration most) {
    return prng.Chance(0.5) ? DrawTime(prng, least, most) : Duration::zero();
  };
  readers.count = static_cast<int>(DrawNumber(prng, 1, 3));
  readers.refresh = DrawTime(prng, 5ms, 500ms);
  readers.ask = DrawTime(prng, 5ms, 500ms);
  readers.forget = DrawTime(prng, 50ms, 2s);
  readers.crash = sometimes(500ms, 10s);
  readers.pause = sometimes(500ms, 5s);
  readers.cut = sometimes(200ms, 5s);
  readers.lie = sometimes(20ms, 1s);
  if (!prng.Chance(0.3)) return;
  // Mostly a job ends so soon after the faults that nobody could say whether its readers see it again.
  plan.device.least = DrawTime(prng, 200ms, 2s);
  plan.device.slow_worker = 1;
  plan.timing.tick = std::max<Duration>(plan.timing.tick, 20ms);
}

void PlanRareFaults(Prng& prng, FaultPlan& plan) {
  if (prng.Chance(kBig)) DrawManySlices(prng, plan);
  if (prng.Chance(kBig)) DrawManyWorkers(prng, plan);
  DrawDisks(prng, plan);
  plan.other_text = plan.generations > 1 && prng.Chance(0.4);
  if (prng.Chance(0.05)) plan.start_within = 30s;
  plan.end_trouble = prng.Chance(0.12);
  plan.rot = plan.end_trouble && !plan.power_failure && prng.Chance(0.5);
  if (plan.rot) plan.job.timing.server_wait = 20s + 2 * plan.start_within;  // for checkpoints that cannot be used
  if (prng.Chance(0.03)) plan.faults.lie = DrawTime(prng, 50ms, 1s);
  if (prng.Chance(0.03)) plan.device.no_room_for = DrawTime(prng, 2s, 10s);
  // Every other loss, or so, becomes no better: see the device.
  const TrainingSpec& training = plan.job.training;
  if (plan.eval_examples > 0 && training.evaluate_every_epochs == 1 && training.epochs > 2 && prng.Chance(0.5)) {
    plan.job.training.stop_early = {.metric = "loss", .patience = 1, .min_delta = 0};
  }
  // By the optimizer, so each rule. What overflows, as the oracle has it, does so at the whole rate.
  if (prng.Chance(0.5) && plan.oracle.not_finite == 0) plan.job.training.staleness_method = StalenessMethod::kAuto;
  DrawConsistency(prng, plan);
  DrawOptimizer(prng, plan);
  if (prng.Chance(0.1)) plan.faults.move = DrawTime(prng, 300ms, 5s);
  if (prng.Chance(0.2)) plan.job.model.initialize_from = "/models/m.safetensors";
  if (prng.Chance(0.2)) DrawCode(prng, plan);
  if (prng.Chance(0.1)) plan.job.checkpoint.best = kNoBest;
  DrawLocalSteps(prng, plan);
  plan.amid_restore = plan.by_signal && !plan.all_told && prng.Chance(0.5);
  if (!plan.faults.nameless && prng.Chance(0.12)) plan.faults.rival = DrawTime(prng, 500ms, 4s);
  if (prng.Chance(0.15)) plan.faults.ask = DrawTime(prng, 100ms, 3s);
  const bool one_folder = plan.faults.new_folder == Duration::zero() && plan.faults.put_back == Duration::zero();
  plan.forgetful = plan.by_signal && one_folder && prng.Chance(0.5);
  if (prng.Chance(0.12)) plan.faults.impostor = DrawTime(prng, 100ms, 2s);
  if (plan.faults.new_folder > Duration::zero() && prng.Chance(0.5)) plan.device.indexing = DrawNumber(prng, 10, 100);
  plan.last_chief = plan.by_signal && !plan.all_told && prng.Chance(0.4);
  plan.diverges = plan.eval_examples > 0 && prng.Chance(0.06);
  DrawTables(prng, plan);
  DrawMoreData(prng, plan);
}

}  // namespace downpour
