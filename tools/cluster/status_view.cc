#include "tools/cluster/status_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/cluster/human_units.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

const Json& At(const Json& object, const char* key) {
  static const Json kAbsent;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kAbsent;
}

MaybeNumber Number(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number() ? MaybeNumber(value.get<double>()) : std::nullopt;
}

std::string Words(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_string() ? Printable(value.get<std::string>()) : std::string();
}

std::vector<std::string> Sentences(const Json& list) {
  std::vector<std::string> sentences;
  for (const Json& entry : list) {
    if (entry.is_string()) sentences.push_back(Printable(entry.get<std::string>()));
  }
  return sentences;
}

StalenessView StalenessOf(const Json& object) {
  return {Number(object, "mean"), Number(object, "p99"), Number(object, "max")};
}

GpuView Gpu(const Json& gpu) {
  return {Words(gpu, "address"),          Words(gpu, "name"),
          Number(gpu, "utilisation"),     Number(gpu, "celsius"),
          Number(gpu, "memoryUsedBytes"), Number(gpu, "memoryTotalBytes"),
          Number(gpu, "workers")};
}

TaskView Task(const Json& task) {
  TaskView view;
  view.name = Words(task, "name");
  view.role = Words(task, "role");
  view.state = Words(task, "state");
  view.host = Words(task, "host");
  view.endpoint = Words(task, "endpoint");
  view.waiting_for = Words(task, "waitingFor");
  view.warning = Words(task, "warning");
  view.warning_age = Number(task, "warningAgeSeconds");
  view.is_spare = At(task, "spare") == true;
  view.pid = Number(task, "pid");
  view.step = Number(task, "step");
  view.examples_per_second = Number(task, "examplesPerSecond");
  view.cpu_share = Number(task, "cpuShare");
  view.resident_bytes = Number(task, "residentBytes");
  view.bytes_in = Number(task, "bytesIn");
  view.bytes_out = Number(task, "bytesOut");
  view.heartbeat_age = Number(task, "lastHeartbeatSeconds");
  view.rejected = Number(task, "rejected");
  view.refused = Number(task, "refused");
  view.refused_from = Words(task, "refusedFrom");
  view.staleness = StalenessOf(At(task, "staleness"));
  view.gpu = Gpu(At(task, "gpu"));
  return view;
}

// Of the status's `recovery`, or of a summary.
RecoveryView Recovery(const Json& json) {
  return {Number(json, "chiefRestarts"), Number(json, "workersLost"), Number(json, "psLost"),
          Number(json, "leasesHandedOn"), Number(json, "batchesRecomputed")};
}

MetricViews MetricsOf(const Json& json) {
  MetricViews metrics;
  if (!json.is_object()) return metrics;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) metrics.emplace_back(Printable(name), value.get<double>());
  }
  return metrics;
}

void ReadProgress(const Json& json, StatusView* view) {
  const Json& progress = At(json, "progress");
  view->epoch = Number(progress, "epoch");
  view->epochs = Number(progress, "epochs");
  view->leases_committed = Number(progress, "leasesCommitted");
  view->leases = Number(progress, "leases");
  view->examples_committed = Number(progress, "examplesCommitted");
  view->train_examples = Number(progress, "trainExamples");
  view->commits = Number(progress, "commits");
  view->examples_per_second = Number(progress, "examplesPerSecond");
  view->loss = Number(progress, "loss");
  const Json& evaluation = At(json, "evaluation");
  view->evaluation_epoch = Number(evaluation, "epoch");
  view->evaluation_loss = Number(evaluation, "loss");
  view->evaluation_accuracy = Number(evaluation, "accuracy");
  view->evaluation_metrics = MetricsOf(At(evaluation, "metrics"));
  const Json& pushes = At(json, "pushes");
  view->pushes_acknowledged = Number(pushes, "acknowledged");
  view->pushes_consumed = Number(pushes, "applied");
  view->pushes_resent = Number(pushes, "resent");
  view->pushes_refused = Number(pushes, "refused");
  view->pushes_duplicate = Number(pushes, "duplicate");
  view->pushes_dropped = Number(pushes, "dropped");
  view->pushes_skipped = Number(pushes, "skipped");
}

BestView ReadBest(const Json& best) {
  return {Words(best, "path"), Words(best, "metric"), Number(best, "value"), Number(best, "epoch")};
}

void ReadCheckpoint(const Json& checkpoint, StatusView* view) {
  view->checkpoint_round = Words(checkpoint, "round");
  view->checkpoint_path = Words(checkpoint, "path");
  view->checkpoint_error = Words(checkpoint, "lastError");
  view->checkpoint_error_cause = Words(checkpoint, "lastErrorCause");
  view->checkpoint_writing = Words(checkpoint, "writing");
  view->checkpoint_interval = Number(checkpoint, "intervalSeconds");
  view->checkpoint_interval_why = Words(checkpoint, "intervalWhy");
  view->checkpoint_age = Number(checkpoint, "ageSeconds");
  view->checkpoint_bytes = Number(checkpoint, "bytes");
  view->checkpoint_leases = Number(checkpoint, "leasesCommitted");
  view->best = ReadBest(At(checkpoint, "best"));
}

absl::StatusOr<Json> ParseObject(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  return json;
}

}  // namespace

absl::StatusOr<StatusView> ParseStatus(std::string_view text) {
  absl::StatusOr<Json> parsed = ParseObject(text);
  if (!parsed.ok()) return parsed.status();
  const Json& json = *parsed;
  StatusView view;
  view.job = Words(json, "job");
  view.run = Words(json, "run");
  view.state = Words(json, "state");
  view.error = Words(json, "errorMessage");
  view.chief_endpoint = Words(At(json, "chief"), "endpoint");
  view.chief_host = Words(At(json, "chief"), "host");
  view.job_dir = Words(At(json, "chief"), "jobDir");
  view.chief_pid = Number(At(json, "chief"), "pid");
  view.chief_term = Number(At(json, "chief"), "term");
  view.chief_protocol = Number(At(json, "chief"), "protocol");
  view.chief_rejected = Number(At(json, "chief"), "rejected");
  view.chief_refused = Number(At(json, "chief"), "refused");
  view.refused_from = Words(At(json, "chief"), "refusedFrom");
  view.commands = Number(At(json, "chief"), "commands");
  view.workers = Number(At(json, "workers"), "wanted");
  view.workers_in_file = Number(At(json, "workers"), "jobFile");
  view.elapsed = Number(json, "elapsedSeconds");
  view.remaining = Number(json, "remainingSeconds");
  view.allowed = Number(json, "allowedSeconds");
  ReadProgress(json, &view);
  ReadCheckpoint(At(json, "checkpoint"), &view);
  view.recovery = Recovery(At(json, "recovery"));
  view.staleness = StalenessOf(At(json, "staleness"));
  for (const Json& task : At(json, "tasks")) view.tasks.push_back(Task(task));
  view.tasks_omitted = Number(json, "tasksOmitted");
  view.stalled = Words(json, "stalled");
  view.diverging = Words(json, "diverging");
  view.stopped_early = Words(json, "stoppedEarly");
  view.exit_code = Number(json, "exitCode");
  for (const Json& spare : At(json, "spares")) {
    view.spares.push_back({Words(spare, "role"), Words(spare, "host"), Words(spare, "why"), Number(spare, "pid")});
  }
  for (const Json& entry : At(json, "pending")) view.pending.push_back({Words(entry, "task"), Words(entry, "why")});
  for (const Json& entry : At(json, "waits")) {
    view.waits.push_back({Words(entry, "task"), Words(entry, "for"), Words(entry, "why"), Number(entry, "seconds")});
  }
  for (const Json& entry : At(json, "failures")) {
    view.failures.push_back(
        {Words(entry, "task"), Words(entry, "what"), Number(entry, "ageSeconds"), Number(entry, "unixMs")});
  }
  view.next = Sentences(At(json, "next"));
  view.changes = Sentences(At(json, "changes"));
  return view;
}

absl::StatusOr<SummaryView> ParseSummary(std::string_view text) {
  absl::StatusOr<Json> parsed = ParseObject(text);
  if (!parsed.ok()) return parsed.status();
  const Json& json = *parsed;
  SummaryView view;
  view.job = Words(json, "job");
  view.run = Words(json, "run");
  view.state = Words(json, "state");
  view.error = Words(json, "errorMessage");
  view.checkpoint = Words(json, "checkpoint");
  view.best = ReadBest(At(json, "bestCheckpoint"));
  view.diverging = Words(json, "diverging");
  view.stopped_early = Words(json, "stoppedEarly");
  view.term = Number(json, "term");
  view.epochs = Number(json, "epochs");
  view.examples = Number(json, "examples");
  view.examples_per_second = Number(json, "examplesPerSecond");
  view.wall_seconds = Number(json, "wallSeconds");
  view.eval_loss = Number(json, "evalLoss");
  view.eval_accuracy = Number(json, "evalAccuracy");
  view.eval_metrics = MetricsOf(At(json, "evalMetrics"));
  view.pushes_skipped = Number(json, "pushesSkipped");
  view.exit_code = Number(json, "exitCode");
  view.elapsed = Number(json, "elapsedSeconds");
  view.recovery = Recovery(json);
  view.staleness = StalenessOf(At(json, "staleness"));
  return view;
}

bool IsHealthy(const StatusView& status) {
  const auto is = [&](const char* state) { return status.state == state; };
  if (!is("QUEUED") && !is("PREPARING") && !is("RUNNING") && !is("SUCCEEDED")) return false;
  // A job that has run before misses whom it waits for.
  const bool all_were_there = is("RUNNING") || status.recovery.chief_restarts.value_or(0) > 0;
  if (all_were_there && !status.pending.empty()) return false;
  if (!status.stalled.empty() || !status.diverging.empty()) return false;
  return std::none_of(status.failures.begin(), status.failures.end(),
                      [](const FailureView& f) { return f.age.value_or(0) <= kLately; });
}

bool HasEnded(const StatusView& status) {
  return status.state == "SUCCEEDED" || status.state == "FAILED" || status.state == "CANCELLED";
}

bool IsAnotherRun(const std::string& run, const std::string& other) {
  return !run.empty() && !other.empty() && run != other;
}

std::vector<WaitGroup> GroupWaits(const std::vector<WaitView>& waits) {
  std::vector<WaitGroup> groups;
  for (const WaitView& wait : waits) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const WaitGroup& g) { return g.on == wait.on && g.why == wait.why; });
    if (group == groups.end()) group = groups.insert(groups.end(), {{}, wait.on, wait.why, wait.seconds});
    group->tasks.push_back(wait.task);
    group->seconds = std::max(group->seconds, wait.seconds);
  }
  return groups;
}

MaybeNumber EpochsDone(const StatusView& status) {
  if (status.examples_committed && status.train_examples.value_or(0) > 0) {
    return *status.examples_committed / *status.train_examples;
  }
  return status.epoch;
}

}  // namespace downpour
