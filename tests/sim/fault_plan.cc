#include "tests/sim/fault_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "job/job_names.h"
#include "job/slice_grid.h"

namespace downpour {
namespace {

using std::chrono_literals::operator""us;

Duration Between(Prng& prng, Duration least, Duration most) { return DrawTime(prng, least, most); }
int64_t Between(Prng& prng, int64_t least, int64_t most) { return DrawNumber(prng, least, most); }

template <typename T, size_t n>
T OneOf(Prng& prng, const T (&choices)[n]) {
  return choices[prng.Below(n)];
}

LayerSpec Dense(int index, const std::string& from, int64_t units) {
  return {absl::StrCat("dense_", index), {from}, DenseSpec{.units = units, .activation = Activation::kRelu}};
}

JobSpec BaseJob(uint64_t seed) {
  JobSpec job;
  job.name = "simulated";
  job.seed = seed + 1;
  job.training.optimizer = {.kind = OptimizerKind::kSgd, .learning_rate = 1};
  job.data.train = {"train-images", "train-labels"};
  job.checkpoint.every = 1s;
  return job;
}

void DrawModel(Prng& prng, JobSpec& job) {
  const int64_t width = OneOf<int64_t>(prng, {3, 5, 17, 40});
  job.model.inputs = {{"x", {width}}};
  std::string from = "x";
  const int64_t layers = Between(prng, 1, 3);
  for (int i = 0; i < layers; ++i) {
    const int64_t units = OneOf<int64_t>(prng, {1, 2, 7, 33});
    job.model.layers.push_back(Dense(i, from, units));
    from = job.model.layers.back().name;
  }
  job.model.loss = Loss::kMeanSquaredError;  // any width of the output will do
}

void DrawJob(Prng& prng, FaultPlan& plan) {
  JobSpec& job = plan.job = BaseJob(plan.seed);
  DrawModel(prng, job);
  job.cluster.worker_count = Between(prng, 1, 5);
  job.cluster.parameter_server_count = Between(prng, 1, 4);
  job.training.batch_size = Between(prng, 1, 8);
  job.training.epochs = Between(prng, 1, 4);
  job.training.lease_batches = Between(prng, 1, 8);
  job.training.evaluate_every_epochs = Between(prng, 0, 2);
  job.training.max_skipped_pushes = kUnlimitedSkips;
  plan.train_examples = static_cast<uint64_t>(Between(prng, 1, 80 * job.training.batch_size));
  plan.eval_examples = prng.Chance(0.6) ? static_cast<uint64_t>(Between(prng, 1, 8 * job.training.batch_size)) : 0;
  if (plan.eval_examples > 0) job.data.eval = {"eval-images", "eval-labels"};
  job.training.staleness_method = StalenessMethod::kNone;
  if (prng.Chance(0.2)) job.training.optimizer.kind = OptimizerKind::kMomentum;
  if (prng.Chance(0.2)) job.training.optimizer.kind = OptimizerKind::kAdam;
  job.checkpoint.every = prng.Chance(0.1) ? Duration::zero() : Between(prng, 50ms, 3s);
  job.checkpoint.keep = Between(prng, 1, 3);
  job.checkpoint.via = prng.Chance(0.3) ? CheckpointVia::kShared : CheckpointVia::kChief;
  if (prng.Chance(0.3)) plan.oracle.empty = OneOf(prng, {0.02, 0.3});
  if (prng.Chance(0.1)) plan.oracle.not_finite = 0.02;
  plan.oracle.poison = prng.Chance(0.1);
}

void DrawOptions(Prng& prng, FaultPlan& plan) {
  Timing& timing = plan.timing;
  timing.tick = Between(prng, 5ms, 50ms);
  timing.heartbeat = Between(prng, 100ms, 1s);
  timing.dead_after = std::max<Duration>(Between(prng, 1s, 10s), 4 * timing.heartbeat);
  plan.job.timing.chief_wait = 4 * timing.dead_after;
  timing.control_retry = Between(prng, 50ms, 2s);
  timing.data_retry = Between(prng, 50ms, 2s);
  timing.join_retry = Between(prng, 50ms, 1s);
  plan.window.bytes = OneOf<uint64_t>(prng, {4, 200, 4096, uint64_t{8} << 20});
  plan.steps_in_flight = static_cast<int>(Between(prng, 1, 4));
  plan.leases_held = static_cast<int>(Between(prng, 1, 3));
  plan.device.least = Between(prng, 1ms, 50ms);
  plan.device.spread = Between(prng, 1ms, 50ms);
  if (prng.Chance(0.2)) plan.device.slow_worker = 20;
  plan.device.parts = static_cast<int>(Between(prng, 1, 3));
}

void DrawFaults(Prng& prng, FaultPlan& plan) {
  const auto sometimes = [&prng](double chance, Duration least, Duration most) {
    return prng.Chance(chance) ? Between(prng, least, most) : Duration::zero();
  };
  NetworkFaults& network = plan.network;
  network.delay = Between(prng, 100 * 1us, 5ms);
  network.spread = Between(prng, 100 * 1us, 10ms);
  network.straggle = OneOf(prng, {0.0, 0.0, 0.01, 0.1});
  network.loss = OneOf(prng, {0.0, 0.01, 0.05, 0.2});
  network.duplicate = OneOf(prng, {0.0, 0.01, 0.1, 0.3});
  network.echo = OneOf(prng, {0.0, 0.0, 0.01, 0.1});
  network.in_order = prng.Chance(0.4);
  network.codec = prng.Chance(0.4);
  network.outlive = prng.Chance(0.5);
  plan.disk_delay = Between(prng, 1ms, 100ms);
  if (prng.Chance(0.2)) plan.disk = {OneOf(prng, {0.01, 0.1}), OneOf(prng, {0.01, 0.1})};
  FaultRates& faults = plan.faults;
  faults.worker_crash = sometimes(0.7, 200ms, 5s);
  faults.ps_crash = sometimes(0.5, 500ms, 5s);
  faults.chief_crash = sometimes(0.5, 500ms, 5s);
  faults.worker_stop = sometimes(0.2, 500ms, 5s);
  faults.pause = sometimes(0.5, 500ms, 5s);
  faults.cut = sometimes(0.5, 200ms, 5s);
  faults.reset = sometimes(0.4, 100ms, 2s);
  faults.malformed = sometimes(0.2, 100ms, 1s);
  faults.stranger = sometimes(0.1, 20ms, 500ms);
  faults.nameless = prng.Chance(0.3);
  plan.calm_after = Between(prng, 1s, 20s);
  plan.generations = static_cast<int>(prng.Chance(0.4) ? Between(prng, 2, 4) : 1);
  plan.stop_after = Between(prng, 100ms, 3s);
  plan.power_failure = prng.Chance(0.4);
  plan.damage = prng.Chance(0.3);
  plan.by_signal = prng.Chance(0.15);
  plan.same_servers = prng.Chance(0.5);
  plan.odd_data = !faults.nameless && prng.Chance(0.07);
}

// Drawn last, so that a seed's other draws are what they were.
void DrawLater(Prng& prng, FaultPlan& plan) {
  if (prng.Chance(0.3)) plan.job.training.push_every = Between(prng, 1, plan.job.training.lease_batches);
  if (prng.Chance(0.3)) plan.job.training.wire = WireFormat::kBf16;
  if (prng.Chance(0.3)) plan.faults.ps_stop = Between(prng, 500ms, 10s);
  plan.all_told = prng.Chance(0.5);
  plan.lose = plan.generations > 1 && prng.Chance(0.15);
  plan.job.training.pull_ahead = prng.Chance(0.3);
  if (prng.Chance(0.1)) {
    plan.oracle.not_finite = OneOf(prng, {0.005, 0.02, 0.2});
    plan.job.training.max_skipped_pushes = Between(prng, 0, 30);
  }
  if (prng.Chance(0.25)) plan.job.checkpoint.every.reset();
  if (prng.Chance(0.1)) plan.faults.new_folder = Between(prng, 500ms, 10s);
  plan.clock_is_right = prng.Chance(0.5);
  // Else the folder's newest checkpoint, on which others of these rely, is another one after that.
  const bool may_be_put_back = !plan.damage && !plan.lose && !plan.all_told && plan.faults.ps_stop == Duration::zero();
  if (plan.clock_is_right && may_be_put_back && prng.Chance(0.4)) plan.faults.put_back = Between(prng, 500ms, 5s);
  // Who comes without a number cannot be told from whom the job does without. Another run does not know how many were
  // wanted, nor does a folder that was put back.
  const bool one_folder = plan.faults.new_folder == Duration::zero() && plan.faults.put_back == Duration::zero();
  const bool may_scale = !plan.faults.nameless && !plan.odd_data && one_folder;
  if (prng.Chance(0.25) && may_scale) plan.faults.scale = Between(prng, 300ms, 5s);
  plan.by_command = prng.Chance(0.5);
}

int64_t Ms(Duration d) { return d / 1ms; }

}  // namespace

Duration DrawTime(Prng& prng, Duration least, Duration most) {
  // The logarithm is uniform, in powers of two and evenly between them.
  Duration high = least;
  while (high * 2 < most && prng.Chance(0.6)) high *= 2;
  high = std::min(high * 2, most);
  return least + Duration(prng.Below(static_cast<uint64_t>((high - least).count()) + 1));
}

int64_t DrawNumber(Prng& prng, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(prng.Below(static_cast<uint64_t>(most - least) + 1));
}

FaultPlan FaultPlanOf(uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  Prng prng(MixAll(seed, 1));
  DrawJob(prng, plan);
  DrawOptions(prng, plan);
  DrawFaults(prng, plan);
  DrawLater(prng, plan);
  PlanRareFaults(prng, plan);
  PlanReaders(plan);
  return plan;
}

FaultPlan CalmPlan(uint64_t seed, int workers, int servers) {
  FaultPlan plan;
  plan.seed = seed;
  plan.job = BaseJob(seed);
  plan.job.cluster.worker_count = workers;
  plan.job.cluster.parameter_server_count = servers;
  plan.job.model.inputs = {{"x", {16}}};
  plan.job.model.layers = {Dense(0, "x", 16), Dense(1, "dense_0", 4)};
  plan.job.training.batch_size = 4;
  plan.job.training.lease_batches = 8;
  plan.train_examples = 4000;
  plan.network.spread = Duration::zero();
  return plan;
}

JobSpec FaultPlan::LastJob() const {
  JobSpec last = job;
  if (more_epochs == 0) return last;
  last.training.epochs += more_epochs;
  last.training.earlier = {{job.training.epochs, train_examples, 0}};
  return last;
}

std::string FaultPlan::ToString() const {
  const TrainingSpec& training = job.training;
  return absl::StrCat(
      "seed ", seed, "\n  cluster: workers=", job.cluster.worker_count, " servers=", job.cluster.parameter_server_count,
      " steps_in_flight=", steps_in_flight, " leases_held=", leases_held, " window=", window.bytes,
      "\n  job: layers=", job.model.layers.size(), " tables=", job.model.tables.size(),
      device.asks_amid ? " (asked for amid a step)" : "", " from_file=", !job.model.initialize_from.empty(),
      " code=", code.size(), " examples=", train_examples, " eval=", eval_examples, " batch=", training.batch_size,
      " lease_batches=", training.lease_batches, " push_every=", training.push_every,
      " local_steps=", training.local_steps, " outer=", NameIn(kOuterOptimizers, training.outer.kind),
      " pull_ahead=", training.pull_ahead, " wire_bf16=", training.wire == WireFormat::kBf16,
      " epochs=", training.epochs, " evaluate_every=", training.evaluate_every_epochs,
      " stop_early=", training.stop_early.has_value(), " optimizer=", NameIn(kOptimizers, training.optimizer.kind),
      " schedule=", NameIn(kSchedules, training.optimizer.schedule.kind),
      " overrides=", training.optimizer.overrides.size(),
      " staleness=", training.staleness_method == StalenessMethod::kNone ? "none" : "auto",
      " consistency=", NameIn(kConsistencies, training.consistency), " group=", training.group_size,
      " ssp_bound=", training.ssp_bound, " backups=", training.backup_workers,
      " max_staleness=", training.max_staleness.value_or(-1), " max_skipped=", training.max_skipped_pushes,
      " empty=", oracle.empty, " not_finite=", oracle.not_finite, " poison=", oracle.poison,
      "\n  checkpoint: every=", job.checkpoint.every ? absl::StrCat(Ms(*job.checkpoint.every), "ms") : "auto",
      " keep=", job.checkpoint.keep, " best=", job.checkpoint.best,
      " shared=", job.checkpoint.via == CheckpointVia::kShared, " disk_delay=", Ms(disk_delay),
      "ms no_space=", disk.no_space, " io_error=", disk.io_error, "\n  timing: tick=", Ms(timing.tick),
      "ms heartbeat=", Ms(timing.heartbeat), "ms dead_after=", Ms(timing.dead_after),
      "ms control_retry=", Ms(timing.control_retry), "ms data_retry=", Ms(timing.data_retry),
      "ms join_retry=", Ms(timing.join_retry), "ms\n  device: least=", Ms(device.least),
      "ms spread=", Ms(device.spread), "ms slow_worker=", device.slow_worker, " parts=", device.parts,
      "\n  network: ", network.ToString(), "\n  faults every: worker_crash=", Ms(faults.worker_crash),
      "ms ps_crash=", Ms(faults.ps_crash), "ms chief_crash=", Ms(faults.chief_crash),
      "ms worker_stop=", Ms(faults.worker_stop), "ms ps_stop=", Ms(faults.ps_stop), "ms pause=", Ms(faults.pause),
      "ms cut=", Ms(faults.cut), "ms reset=", Ms(faults.reset), "ms malformed=", Ms(faults.malformed),
      "ms stranger=", Ms(faults.stranger), "ms new_folder=", Ms(faults.new_folder), "ms put_back=", Ms(faults.put_back),
      "ms scale=", Ms(faults.scale), "ms ask=", Ms(faults.ask), "ms move=", Ms(faults.move),
      "ms rival=", Ms(faults.rival), "ms nameless=", faults.nameless, "\n  story: calm_after=", Ms(calm_after),
      "ms generations=", generations, " stop_after=", Ms(stop_after), "ms power_failure=", power_failure,
      " damage=", damage, " lose=", lose, " by_signal=", by_signal, " all_told=", all_told, " by_command=", by_command,
      " same_servers=", same_servers, " odd_data=", odd_data, " clock_is_right=", clock_is_right,
      "\n  rare: start_within=", Ms(start_within), "ms other_text=", other_text, " end_trouble=", end_trouble,
      " rot=", rot, " lie=", Ms(faults.lie), "ms impostor=", Ms(faults.impostor), "ms stalls=", stalls,
      " failing=", static_cast<int>(failing), " no_room_for=", Ms(device.no_room_for), "ms indexing=", device.indexing,
      " slices=", GridOf(job.model)->size(), " amid_restore=", amid_restore, " forgetful=", forgetful,
      " last_chief=", last_chief, " diverges=", diverges, " more_epochs=", more_epochs,
      " more_examples=", more_examples, "\n  readers: ", readers.count, " refresh=", Ms(readers.refresh),
      "ms ask=", Ms(readers.ask), "ms forget=", Ms(readers.forget), "ms crash=", Ms(readers.crash),
      "ms pause=", Ms(readers.pause), "ms cut=", Ms(readers.cut), "ms lie=", Ms(readers.lie), "ms");
}

}  // namespace downpour
