#include "chief/status.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "chief/next_commands.h"
#include "chief/waits.h"
#include "runtime/staleness.h"
#include "schema/codec.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

void Set(Json& object, const char* key, std::optional<double> number) {
  if (number && std::isfinite(*number)) object[key] = *number;
}

// Peers' words are cleaned on arrival; what is not UTF-8 even so must not end the chief.
std::string Dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

Json OfStaleness(const Staleness& staleness) {
  Json json = {{"unknown", staleness.unknown}};
  uint64_t counted = 0;
  for (const uint64_t bucket : staleness.histogram) counted += bucket;
  if (counted == 0) return json;
  json["mean"] = MeanStaleness(staleness);
  json["max"] = staleness.max;
  uint64_t below = 0;
  for (size_t i = 0; i < staleness.histogram.size() && !json.contains("p99"); ++i) {
    below += staleness.histogram[i];
    if (below >= counted - counted / 100) json["p99"] = i;
  }
  return json;
}

// Living workers by GPU: its host and its address there.
using GpuSharers = std::map<std::pair<std::string, std::string>, int>;

GpuSharers CountGpuSharers(const ChiefView& chief) {
  GpuSharers sharers;
  for (const Task& task : chief.members.tasks()) {
    if (task.alive() && !task.stats.gpu.address.empty()) ++sharers[{task.process.host, task.stats.gpu.address}];
  }
  return sharers;
}

Json OfGpu(const GpuStats& gpu, int workers) {
  Json json = {{"address", gpu.address}, {"workers", workers}};
  if (!gpu.name.empty()) json["name"] = gpu.name;
  if (gpu.utilisation >= 0) json["utilisation"] = gpu.utilisation / 100.0;
  if (gpu.celsius >= 0) json["celsius"] = gpu.celsius;
  if (gpu.memory_total > 0) {
    json["memoryUsedBytes"] = gpu.memory_used;
    json["memoryTotalBytes"] = gpu.memory_total;
  }
  return json;
}

Json OfTask(const ChiefView& chief, const Task& task, const GpuSharers& sharers) {
  const Time now = chief.context.now;
  Json json = {{"name", task.name},
               {"role", NameOf(task.role)},
               {"state", NameOf(task.state)},
               {"rejected", task.rejected + task.stats.messages_rejected}};
  if (task.incarnation == Incarnation::kNone) return json;
  json["host"] = task.process.host;
  json["pid"] = task.process.pid;
  json["incarnation"] = ToNumber(task.incarnation);
  json["device"] = task.process.device;
  json["endpoint"] = task.process.endpoint;
  json["attempt"] = task.process.attempt;
  json["step"] = task.stats.steps;
  // Of a task that is gone nothing moves.
  const auto rate = [&](const RateWindow& count) { return task.alive() ? count.PerSecond(now) : 0.0; };
  json["stepsPerSecond"] = rate(task.steps);
  json["examplesPerSecond"] = rate(task.examples);
  json["staleness"] = OfStaleness(task.stats.staleness);
  json["cpuSeconds"] = task.stats.cpu_seconds;
  json["cpuShare"] = rate(task.cpu_seconds);
  json["residentBytes"] = task.stats.resident_bytes;
  json["bytesIn"] = task.stats.bytes_in;
  json["bytesOut"] = task.stats.bytes_out;
  json["refused"] = task.stats.handshakes_refused;
  json["refusedFrom"] = task.stats.refused_from;
  const GpuStats& gpu = task.stats.gpu;
  if (!gpu.address.empty()) {
    const auto shared = sharers.find({task.process.host, gpu.address});
    json["gpu"] = OfGpu(gpu, shared == sharers.end() ? 0 : shared->second);
  }
  json["lastHeartbeatSeconds"] = Seconds(now - task.heard);
  json["waitingFor"] = task.alive() ? task.stats.waiting_for : "";
  json["leaving"] = task.leaving;
  json["spare"] = IsSpare(chief, task);
  json["warning"] = task.warning;
  if (!task.warning.empty()) json["warningAgeSeconds"] = std::max(0.0, Seconds(now - task.warned_at));
  Json leases = Json::array();
  for (const LeaseId lease : chief.ledger.HeldBy(task.incarnation)) leases.push_back(ToNumber(lease));
  json["leases"] = std::move(leases);
  return json;
}

Json OfProgress(const ChiefView& chief) {
  const Plan& plan = chief.data.plan();
  const LeaseLedger& ledger = chief.known();
  Json json = {{"epochs", chief.Epochs()},
               {"epoch", ledger.EpochsCommitted()},
               {"leasesCommitted", ledger.committed().Count()},
               {"examplesCommitted", ledger.examples_committed()},
               {"commits", chief.ledger.commits()}};
  if (chief.data.fixed()) {
    json["leases"] = plan.leases_per_epoch() * chief.Epochs();
    json["trainExamples"] = plan.train_examples();
    json["examples"] = plan.train_examples() * chief.Epochs();
  }
  Set(json, "examplesPerSecond", chief.progress.ExamplesPerSecond(chief.context.now));
  Set(json, "loss", chief.progress.Loss());
  return json;
}

std::optional<double> RemainingSeconds(const ChiefView& chief) {
  if (chief.life.state != JobState::kRunning) return std::nullopt;
  const uint64_t all = chief.data.plan().train_examples() * chief.Epochs();
  return chief.progress.RemainingSeconds(chief.context.now, all - chief.ledger.examples_committed());
}

// Until scheduling.maxRunningTime ends it.
std::optional<double> AllowedSeconds(const ChiefView& chief) {
  const Duration limit = chief.job.scheduling.max_running_time;
  if (chief.life.state != JobState::kRunning || limit == Duration::zero()) return std::nullopt;
  return std::max(0.0, Seconds(limit) - chief.progress.SecondsSinceBegin(chief.context.now));
}

bool HasAccuracy(const ChiefView& chief) { return chief.job.model.has_accuracy(); }

// One that is not defined, such as the AUC of a single class, is absent.
Json OfMetrics(const Evaluation::Result& result) {
  Json json = Json::object();
  for (const auto& [name, value] : result.metrics) Set(json, name.c_str(), value);
  return json;
}

Json OfEvaluation(const ChiefView& chief, const Evaluation::Result& result) {
  Json json = {{"round", result.round},
               {"epoch", result.epoch},
               {"examples", result.examples},
               {"oldestVersion", result.oldest_version},
               {"newestVersion", result.newest_version}};
  Set(json, "loss", result.loss);
  if (HasAccuracy(chief)) Set(json, "accuracy", result.accuracy);
  if (!result.metrics.empty()) json["metrics"] = OfMetrics(result);
  return json;
}

std::string Divergence(const ChiefView& chief) {
  return WhyItDiverges(chief.learning, chief.job, chief.members.Totals(TaskRole::kPs).staleness);
}

double AgeSeconds(const ChiefView& chief, int64_t unix_ms) {
  return static_cast<double>(std::max<int64_t>(0, chief.context.UnixMs() - unix_ms)) / 1000;
}

// As in the status and in summary.json; null: none was named yet.
Json OfBest(const ChiefView& chief) {
  const BestRecord& best = chief.journal.record().best;
  if (best == BestRecord()) return nullptr;
  return {{"round", ToString(best.round)},
          {"path", CheckpointDir(best.round)},
          {"metric", best.metric},
          {"value", best.value},
          {"epoch", best.epoch}};
}

Json OfCheckpoint(const ChiefView& chief) {
  const auto cause = chief.rounds.last_error_cause();
  Json json = {{"lastError", chief.rounds.last_error()},
               {"lastErrorCause", !cause                                    ? ""
                                  : cause == CheckpointRounds::Cause::kDisk ? "disk"
                                                                            : "ps"},
               {"writing", chief.rounds.writing()}};
  const CheckpointInterval& interval = chief.interval;
  json["intervalWhy"] = interval.Why();
  if (const auto length = interval.Interval()) json["intervalSeconds"] = Seconds(*length);
  Set(json, "roundSeconds", interval.RoundSeconds());
  Set(json, "roundCostSeconds", interval.CostSeconds());
  if (Json best = OfBest(chief); !best.is_null()) json["best"] = std::move(best);
  const auto& durable = chief.rounds.durable();
  if (!durable) return json;
  json["round"] = ToString(durable->round);
  json["path"] = CheckpointDir(durable->round);
  json["ageSeconds"] = AgeSeconds(chief, durable->unix_ms);
  json["bytes"] = durable->bytes;
  json["leasesCommitted"] = durable->committed.Count();
  return json;
}

// What tasks of one role count of pushes, and what it is called.
struct PushCount {
  TaskRole role;
  uint64_t TaskStats::*count;
  const char* in_status;
  const char* in_summary;
};
constexpr PushCount kPushCounts[] = {
    {TaskRole::kWorker, &TaskStats::pushes_acknowledged, "acknowledged", "pushesAcknowledged"},
    {TaskRole::kWorker, &TaskStats::pushes_resent, "resent", "pushesResent"},
    {TaskRole::kPs, &TaskStats::steps, "applied", "pushesApplied"},
    {TaskRole::kPs, &TaskStats::pushes_duplicate, "duplicate", "pushesDuplicate"},
    {TaskRole::kPs, &TaskStats::pushes_refused, "refused", "pushesRefused"},
    {TaskRole::kPs, &TaskStats::pushes_skipped, "skipped", "pushesSkipped"},
    {TaskRole::kPs, &TaskStats::pushes_dropped, "dropped", "pushesDropped"},
};

Json OfPushes(const ChiefView& chief, const char* PushCount::*key) {
  const TaskStats servers = chief.members.Totals(TaskRole::kPs);
  const TaskStats workers = chief.members.Totals(TaskRole::kWorker);
  Json json;
  for (const PushCount& of : kPushCounts) json[of.*key] = (of.role == TaskRole::kPs ? servers : workers).*of.count;
  return json;
}

// Since the job began in its folder, whichever chief led it then.
int64_t BeganUnixMs(const ChiefView& chief) {
  return chief.life.term == 0 ? chief.context.started_unix_ms : chief.journal.record().began_unix_ms;
}

double ElapsedSeconds(const ChiefView& chief) { return AgeSeconds(chief, BeganUnixMs(chief)); }

// What names the job's run in every message; empty: it still reads its folder, and may begin another one.
std::string RunOf(const ChiefView& chief) {
  const uint64_t run = chief.journal.record().run;
  const bool is_known = run != 0 && (chief.life.term != 0 || chief.life.ended());
  return is_known ? NameOfRun(run) : "";
}

Json OfRecovery(const ChiefView& chief) {
  const uint64_t chiefs = chief.journal.record().chiefs;
  const JobCosts& costs = chief.journal.costs();
  return {{"chiefRestarts", chiefs - std::min<uint64_t>(1, chiefs)},
          {"workersLost", costs.workers_lost},
          {"psLost", costs.servers_lost},
          {"leasesHandedOn", costs.leases_handed_on},
          {"batchesRecomputed", costs.batches_recomputed}};
}

Json OfPending(const ChiefView& chief) {
  Json pending = Json::array();
  for (const Pending& one : PendingOf(chief)) pending.push_back({{"task", one.task}, {"why", one.why}});
  return pending;
}

Json OfWaits(const ChiefView& chief) {
  Json waits = Json::array();
  for (const Wait& wait : WaitsOf(chief)) {
    Json json = {{"task", wait.task}, {"for", wait.on}, {"why", wait.why}};
    Set(json, "seconds", wait.seconds);
    waits.push_back(std::move(json));
  }
  return waits;
}

Json OfSpares(const ChiefView& chief) {
  Json spares = Json::array();
  for (const Spare& spare : chief.spares.Waiting(chief.context.now)) {
    spares.push_back({{"role", NameOf(spare.role)}, {"host", spare.host}, {"pid", spare.pid}, {"why", spare.why}});
  }
  return spares;
}

Json OfFailures(const ChiefView& chief) {
  Json failures = Json::array();
  for (const Failure& failure : chief.failures.list()) {
    failures.push_back({{"unixMs", failure.unix_ms},
                        {"ageSeconds", AgeSeconds(chief, failure.unix_ms)},
                        {"task", failure.task},
                        {"what", failure.what}});
  }
  return failures;
}

// As text that one message can carry: lists that grow with the tasks lose rows from their ends, half of them at a time.
std::string Fitted(Json json) {
  std::string text = Dump(json, -1);
  for (const std::string list : {"tasks", "pending", "waits"}) {
    Json& rows = json[list];
    Json& omitted = json[list + "Omitted"];
    while (text.size() > kMaxStatusBytes && !rows.empty()) {
      const size_t retained = rows.size() / 2;
      omitted = omitted.get<size_t>() + rows.size() - retained;
      rows.erase(rows.begin() + static_cast<ptrdiff_t>(retained), rows.end());
      text = Dump(json, -1);
    }
  }
  return text;
}

}  // namespace

std::string NameOfRun(uint64_t run) { return absl::StrFormat("%016x", run); }

std::string StatusText(const ChiefView& chief) {
  Json json = {{"schemaVersion", 1},
               {"job", chief.job.name},
               {"run", RunOf(chief)},
               {"state", NameOf(chief.life.state)},
               {"errorMessage", chief.life.error},
               {"chief",
                {{"endpoint", chief.life.endpoint},
                 {"host", chief.options.host},
                 {"pid", chief.options.pid},
                 {"term", chief.life.term},
                 {"protocol", kProtocolVersion},
                 {"jobDir", chief.options.job_dir},
                 {"commands", chief.counts.commands},
                 {"rejected", chief.counts.rejected},
                 {"refused", chief.counts.refused},
                 {"refusedFrom", chief.counts.refused_from}}},
               {"startTimeUnixMs", BeganUnixMs(chief)},
               {"elapsedSeconds", ElapsedSeconds(chief)},
               {"progress", OfProgress(chief)},
               {"workers", {{"wanted", chief.members.worker_count()}, {"jobFile", chief.job.cluster.worker_count}}},
               {"changes", chief.life.changes},
               {"recovery", OfRecovery(chief)},
               {"checkpoint", OfCheckpoint(chief)},
               {"pushes", OfPushes(chief, &PushCount::in_status)},
               {"staleness", OfStaleness(chief.members.Totals(TaskRole::kPs).staleness)},
               {"tasksOmitted", 0},
               {"pending", OfPending(chief)},
               {"pendingOmitted", 0},
               {"waits", OfWaits(chief)},
               {"waitsOmitted", 0},
               {"stalled", WhyItStandsStill(chief)},
               {"diverging", Divergence(chief)},
               {"stoppedEarly", WhyItStopsEarly(chief.job.training, chief.journal.record().early)},
               {"spares", OfSpares(chief)},
               {"failures", OfFailures(chief)},
               {"next", NextCommands(chief)}};
  if (chief.life.ended()) json["exitCode"] = chief.life.exit_code;
  Set(json, "remainingSeconds", RemainingSeconds(chief));
  Set(json, "allowedSeconds", AllowedSeconds(chief));
  if (const auto& result = chief.evaluation.result()) json["evaluation"] = OfEvaluation(chief, *result);
  Json tasks = Json::array();
  const GpuSharers sharers = CountGpuSharers(chief);
  for (const Task& task : chief.members.tasks()) tasks.push_back(OfTask(chief, task, sharers));
  json["tasks"] = std::move(tasks);
  return Fitted(std::move(json));
}

std::string SummaryText(const ChiefView& chief) {
  Json json = {{"job", chief.job.name},
               {"run", RunOf(chief)},
               {"state", NameOf(chief.life.state)},
               {"term", chief.life.term},
               {"errorMessage", chief.life.error},
               {"diverging", Divergence(chief)},
               {"stoppedEarly", WhyItStopsEarly(chief.job.training, chief.journal.record().early)},
               {"exitCode", chief.life.exit_code},
               {"epochs", chief.known().EpochsCommitted()},
               {"steps", chief.known().steps_committed()},
               {"examples", chief.known().examples_committed()},
               {"samplesCommitted", chief.known().examples_committed()},
               {"wallSeconds", chief.progress.SecondsSinceBegin(chief.context.now)},
               {"startTimeUnixMs", BeganUnixMs(chief)},
               {"elapsedSeconds", ElapsedSeconds(chief)},
               {"failures", OfFailures(chief)},
               {"staleness", OfStaleness(chief.members.Totals(TaskRole::kPs).staleness)}};
  json.update(OfPushes(chief, &PushCount::in_summary));
  json.update(OfRecovery(chief));
  Set(json, "examplesPerSecond", chief.progress.MeanExamplesPerSecond());
  Set(json, "trainLoss", chief.progress.Loss());
  if (const auto& result = chief.evaluation.result()) {
    Set(json, "evalLoss", result->loss);
    if (HasAccuracy(chief)) Set(json, "evalAccuracy", result->accuracy);
    if (!result->metrics.empty()) json["evalMetrics"] = OfMetrics(*result);
  }
  if (const auto& durable = chief.rounds.durable()) json["checkpoint"] = CheckpointDir(durable->round);
  if (Json best = OfBest(chief); !best.is_null()) json["bestCheckpoint"] = std::move(best);
  return Dump(json, 1) + "\n";
}

}  // namespace downpour
