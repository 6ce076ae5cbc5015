#include "chief/status.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "chief/next_commands.h"
#include "chief/waits.h"
#include "runtime/staleness.h"
#include "schema/codec.h"

namespace downpour {
namespace {

StalenessReport OfStaleness(const Staleness& staleness) {
  StalenessReport report{.mean = {}, .p99 = {}, .max = {}, .unknown = staleness.unknown};
  uint64_t counted = 0;
  for (const uint64_t bucket : staleness.histogram) counted += bucket;
  if (counted == 0) return report;
  report.mean = MeanStaleness(staleness);
  report.max = staleness.max;
  uint64_t below = 0;
  for (size_t i = 0; i < staleness.histogram.size() && !report.p99; ++i) {
    below += staleness.histogram[i];
    if (below >= counted - counted / 100) report.p99 = i;
  }
  return report;
}

// Living workers by GPU: its host and its address there.
using GpuSharers = std::map<std::pair<std::string, std::string>, uint64_t>;

GpuSharers CountGpuSharers(const ChiefView& chief) {
  GpuSharers sharers;
  for (const Task& task : chief.members.tasks()) {
    if (task.alive() && !task.stats.gpu.address.empty()) ++sharers[{task.process.host, task.stats.gpu.address}];
  }
  return sharers;
}

GpuReport OfGpu(const GpuStats& gpu, uint64_t workers) {
  GpuReport report;
  report.address = gpu.address;
  report.name = gpu.name;
  report.workers = workers;
  if (gpu.utilisation >= 0) report.utilisation = gpu.utilisation / 100.0;
  if (gpu.celsius >= 0) report.celsius = static_cast<uint64_t>(gpu.celsius);
  if (gpu.memory_total > 0) {
    report.memory_used = gpu.memory_used;
    report.memory_total = gpu.memory_total;
  }
  return report;
}

// Of a job without tables empty: any table takes memory.
TablesReport OfTables(const TaskStats& stats) {
  if (stats.table_bytes == 0) return {};
  return {.rows = stats.table_rows, .bytes = stats.table_bytes, .keys_unborn = stats.keys_unborn};
}

// Of all ps that live: what another one held is with them now, or will be.
TablesReport OfAllTables(const ChiefView& chief) {
  TaskStats all;
  for (const Task& task : chief.members.tasks()) {
    if (task.role != TaskRole::kPs || !task.alive()) continue;
    all.table_rows += task.stats.table_rows;
    all.table_bytes += task.stats.table_bytes;
    all.keys_unborn += task.stats.keys_unborn;
  }
  return OfTables(all);
}

TaskReport OfTask(const ChiefView& chief, const Task& task, const GpuSharers& sharers, const Task* master) {
  const Time now = chief.context.now;
  TaskReport report;
  report.name = task.name;
  report.role = NameOf(task.role);
  report.state = NameOf(task.state);
  report.rejected = task.rejected + task.stats.messages_rejected;
  if (task.incarnation == Incarnation::kNone) return report;
  report.incarnation = ToNumber(task.incarnation);
  report.host = task.process.host;
  report.device = task.process.device;
  report.endpoint = task.process.endpoint;
  report.pid = task.process.pid;
  report.attempt = task.process.attempt;
  report.step = task.stats.steps;
  // Of a task that is gone nothing moves.
  const auto rate = [&](const RateWindow& count) { return task.alive() ? count.PerSecond(now) : 0.0; };
  report.steps_per_second = rate(task.steps);
  report.examples_per_second = rate(task.examples);
  report.staleness = OfStaleness(task.stats.staleness);
  report.cpu_seconds = task.stats.cpu_seconds;
  report.cpu_share = rate(task.cpu_seconds);
  report.resident_bytes = task.stats.resident_bytes;
  report.bytes_in = task.stats.bytes_in;
  report.bytes_out = task.stats.bytes_out;
  report.refused = task.stats.handshakes_refused;
  report.refused_from = task.stats.refused_from;
  if (const GpuStats& gpu = task.stats.gpu; !gpu.address.empty()) {
    const auto shared = sharers.find({task.process.host, gpu.address});
    report.gpu = OfGpu(gpu, shared == sharers.end() ? 0 : shared->second);
  }
  if (task.role == TaskRole::kPs) report.tables = OfTables(task.stats);
  report.heartbeat_age = Seconds(now - task.heard);
  report.waiting_for = task.alive() ? task.stats.waiting_for : "";
  report.leaving = task.leaving;
  report.is_spare = IsSpare(chief, task);
  report.is_master = &task == master;
  report.warning = task.warning;
  if (!task.warning.empty()) report.warning_age = std::max(0.0, Seconds(now - task.warned_at));
  for (const LeaseId lease : chief.ledger.HeldBy(task.incarnation)) report.leases.push_back(ToNumber(lease));
  return report;
}

ProgressReport OfProgress(const ChiefView& chief) {
  const Plan& plan = chief.data.plan();
  const LeaseLedger& ledger = chief.known();
  ProgressReport report;
  report.epochs = chief.Epochs();
  report.epoch = ledger.EpochsCommitted();
  report.leases_committed = ledger.committed().Count();
  report.examples_committed = ledger.examples_committed();
  report.commits = chief.ledger.commits();
  if (chief.data.fixed()) {
    report.leases = plan.EpochBegin(chief.Epochs());
    report.train_examples = plan.train_examples();
    report.examples = plan.ExamplesBefore(plan.EpochBegin(chief.Epochs()));
  }
  report.examples_per_second = chief.progress.ExamplesPerSecond(chief.context.now);
  // The last that a job shows is its last epoch's, as fit() returns it.
  report.loss = chief.ledger.AllCommitted() ? chief.progress.EpochLoss() : chief.progress.Loss();
  return report;
}

std::optional<double> RemainingSeconds(const ChiefView& chief) {
  if (chief.life.state != JobState::kRunning) return std::nullopt;
  const Plan& plan = chief.data.plan();
  const uint64_t all = plan.ExamplesBefore(plan.EpochBegin(chief.Epochs()));
  return chief.progress.RemainingSeconds(chief.context.now, all - chief.ledger.examples_committed());
}

// Until scheduling.maxRunningTime ends it.
std::optional<double> AllowedSeconds(const ChiefView& chief) {
  const Duration limit = chief.job.scheduling.max_running_time;
  if (chief.life.ended() || limit == Duration::zero()) return std::nullopt;
  return std::max(0.0, Seconds(limit - chief.context.Ran()));
}

EvaluationReport OfEvaluation(const ChiefView& chief) {
  const auto& result = chief.evaluation.result();
  EvaluationReport report;
  if (!result) return report;
  report.round = result->round;
  report.epoch = result->epoch;
  report.examples = result->examples;
  report.oldest_version = result->oldest_version;
  report.newest_version = result->newest_version;
  report.loss = result->loss;
  if (chief.job.model.has_accuracy()) report.accuracy = result->accuracy;
  report.metrics = result->metrics;
  return report;
}

std::string Divergence(const ChiefView& chief) {
  return WhyItDiverges(chief.learning, chief.job, chief.members.worker_count(), chief.members.Totals(TaskRole::kPs));
}

double AsSeconds(int64_t ms) { return static_cast<double>(ms) / 1000; }

// Of one that another chief wrote its calendar tells, which may have been another one: it was written before this chief
// came, and not before the job began.
double AgeOf(const ChiefView& chief, const CheckpointRounds::Durable& durable) {
  const StepContext& context = chief.context;
  const int64_t age = context.UnixMs() - durable.unix_ms;
  if (durable.round.term == chief.life.term) return AsSeconds(age);
  return AsSeconds(std::clamp(age, context.UnixMs() - context.started_unix_ms, context.JobAgeMs()));
}

BestReport OfBest(const ChiefView& chief) {
  const BestRecord& best = chief.journal.record().best;
  if (best == BestRecord()) return {};
  return {.round = ToString(best.round),
          .path = CheckpointDir(best.round),
          .metric = best.metric,
          .value = best.value,
          .epoch = best.epoch,
          .evaluated = ReportOf(best.evaluated),
          .kept = ReportOf(best.kept)};
}

CheckpointReport OfCheckpoint(const ChiefView& chief) {
  const auto cause = chief.rounds.last_error_cause();
  const CheckpointInterval& interval = chief.interval;
  CheckpointReport report;
  report.error = chief.rounds.last_error();
  report.error_cause = !cause ? "" : cause == CheckpointRounds::Cause::kDisk ? "disk" : "ps";
  report.writing = chief.rounds.writing();
  report.interval_why = interval.Why();
  if (const auto length = interval.Interval()) report.interval = Seconds(*length);
  report.round_seconds = interval.RoundSeconds();
  report.round_cost = interval.CostSeconds();
  report.best = OfBest(chief);
  const auto& durable = chief.rounds.durable();
  if (!durable) return report;
  report.round = ToString(durable->round);
  report.path = CheckpointDir(durable->round);
  report.age = AgeOf(chief, *durable);
  report.bytes = durable->bytes;
  report.leases_committed = durable->committed.Count();
  return report;
}

PushReport OfPushes(const ChiefView& chief) {
  const TaskStats servers = chief.members.Totals(TaskRole::kPs);
  const TaskStats workers = chief.members.Totals(TaskRole::kWorker);
  PushReport report;
  for (size_t row = 0; row < report.counts.size(); ++row) {
    const PushCount& of = kPushCounts[row];
    report.counts[row] = (of.role == TaskRole::kPs ? servers : workers).*of.count;
  }
  return report;
}

// Since the job began in its folder, whichever chief led it then.
int64_t BeganUnixMs(const ChiefView& chief) {
  return chief.life.ready() ? chief.journal.record().began_unix_ms : chief.context.started_unix_ms;
}

// What names the job's run in every message; empty: it still reads its folder, and may begin another one.
std::string RunOf(const ChiefView& chief) {
  const uint64_t run = chief.journal.record().run;
  const bool is_known = run != 0 && (chief.life.ready() || chief.life.ended());
  return is_known ? NameOfRun(run) : "";
}

RecoveryReport OfRecovery(const ChiefView& chief) {
  const uint64_t chiefs = chief.journal.record().chiefs;
  RecoveryReport report;
  report.chief_restarts = chiefs - std::min<uint64_t>(1, chiefs);
  for (const JobCostCount& row : kJobCostCounts) report.*row.in_status = chief.journal.costs().*row.count;
  return report;
}

std::vector<SpareReport> OfSpares(const ChiefView& chief) {
  std::vector<SpareReport> spares;
  for (const Spare& spare : chief.spares.Waiting(chief.context.now)) {
    spares.push_back({NameOf(spare.role), spare.host, spare.why, spare.pid});
  }
  return spares;
}

std::vector<FailureReport> OfFailures(const ChiefView& chief) {
  std::vector<FailureReport> failures;
  for (const Failure& failure : chief.failures.list()) {
    const int64_t age = std::max<int64_t>(0, chief.context.JobAgeMs() - failure.at_ms);
    failures.push_back(
        {failure.task, failure.what, AsSeconds(age), static_cast<uint64_t>(std::max<int64_t>(0, failure.unix_ms))});
  }
  return failures;
}

ChiefReport OfChief(const ChiefView& chief) {
  ChiefReport report;
  report.endpoint = chief.life.endpoint;
  report.host = chief.options.host;
  report.pid = chief.options.pid;
  report.term = chief.life.term;
  report.protocol = kProtocolVersion;
  report.job_dir = chief.options.job_dir;
  report.unix_ms = static_cast<uint64_t>(std::max<int64_t>(0, chief.context.UnixMs()));
  report.commands = chief.counts.commands;
  report.rejected = chief.counts.rejected;
  report.refused = chief.counts.refused;
  report.refused_from = chief.counts.refused_from;
  return report;
}

StatusReport ReportOf(const ChiefView& chief) {
  StatusReport report;
  report.job = chief.job.name;
  report.run = RunOf(chief);
  report.state = NameOf(chief.life.state);
  report.error = chief.life.error;
  report.chief = OfChief(chief);
  report.start_unix_ms = static_cast<uint64_t>(std::max<int64_t>(0, BeganUnixMs(chief)));
  report.elapsed = AsSeconds(chief.context.JobAgeMs());
  report.remaining = RemainingSeconds(chief);
  report.allowed = AllowedSeconds(chief);
  report.progress = OfProgress(chief);
  report.evaluation = OfEvaluation(chief);
  report.checkpoint = OfCheckpoint(chief);
  report.workers = {.wanted = static_cast<uint64_t>(chief.members.worker_count()),
                    .in_file = static_cast<uint64_t>(chief.job.cluster.worker_count)};
  report.changes = chief.life.changes;
  report.recovery = OfRecovery(chief);
  report.pushes = OfPushes(chief);
  report.staleness = OfStaleness(chief.members.Totals(TaskRole::kPs).staleness);
  report.tables = OfAllTables(chief);
  const GpuSharers sharers = CountGpuSharers(chief);
  const Task* const master = chief.epilogue.master();
  for (const Task& task : chief.members.tasks()) report.tasks.push_back(OfTask(chief, task, sharers, master));
  report.pending = PendingOf(chief);
  report.waits = WaitsOf(chief);
  report.stalled = WhyItStandsStill(chief);
  report.diverging = Divergence(chief);
  report.stopped_early = WhyItStopsEarly(chief.job.training, chief.journal.record().early);
  report.spares = OfSpares(chief);
  report.failures = OfFailures(chief);
  report.next = NextCommands(chief);
  if (chief.life.ended()) report.exit_code = static_cast<uint64_t>(chief.life.exit_code);
  return report;
}

// As text that one message can carry: lists that grow with the tasks lose rows from their ends, half of them at a time.
std::string Fitted(StatusReport report) {
  report.tasks_omitted = report.pending_omitted = report.waits_omitted = 0;
  std::string text = ToJson(report);
  const auto shorten = [&](auto& rows, MaybeCount& omitted) {
    while (text.size() > kMaxStatusBytes && !rows.empty()) {
      const size_t retained = rows.size() / 2;
      *omitted += rows.size() - retained;
      rows.resize(retained);
      text = ToJson(report);
    }
  };
  shorten(report.tasks, report.tasks_omitted);
  shorten(report.pending, report.pending_omitted);
  shorten(report.waits, report.waits_omitted);
  return text;
}

}  // namespace

std::string NameOfRun(uint64_t run) { return absl::StrFormat("%016x", run); }

std::string StatusText(const ChiefView& chief) { return Fitted(ReportOf(chief)); }

std::string SummaryText(const ChiefView& chief) {
  StatusReport status = ReportOf(chief);
  SummaryReport summary;
  summary.job = status.job;
  summary.run = status.run;
  summary.state = status.state;
  summary.term = status.chief.term;
  summary.error = status.error;
  summary.diverging = status.diverging;
  summary.stopped_early = status.stopped_early;
  summary.exit_code = static_cast<uint64_t>(chief.life.exit_code);
  summary.epochs = status.progress.epoch;
  summary.steps = chief.known().steps_committed();
  summary.examples = summary.samples_committed = status.progress.examples_committed;
  summary.wall_seconds = chief.progress.SecondsSinceBegin(chief.context.now);
  summary.start_unix_ms = status.start_unix_ms;
  summary.elapsed = status.elapsed;
  summary.failures = std::move(status.failures);
  summary.staleness = status.staleness;
  summary.pushes = status.pushes;
  summary.recovery = status.recovery;
  summary.examples_per_second = chief.progress.MeanExamplesPerSecond();
  summary.train_loss = status.progress.loss;
  summary.eval_loss = status.evaluation.loss;
  summary.eval_accuracy = status.evaluation.accuracy;
  summary.eval_metrics = status.evaluation.metrics;
  summary.checkpoint = status.checkpoint.path;
  summary.best = status.checkpoint.best;
  return ToJson(summary);
}

}  // namespace downpour
