// StatusReport: what a chief says of its job. SummaryReport: how the job ended, in summary.json. docs/STATUS.md tells
// what each field means.
//
//   StatusReport report;
//   report.state = "RUNNING";
//   const std::string json = ToJson(report);                        // the chief
//   const absl::StatusOr<StatusReport> read = ParseStatus(json);    // a tool
//
// Each struct lists its members once, with their keys. Writing and reading both go by that list. Members that the list
// calls UnlessEmpty are absent where they are empty, as an object without members is.
//
// Units: seconds, bytes, and shares of 1.
// Order: an object's members are written in the order of their keys.
// Errors: Parse gives INVALID_ARGUMENT where the text is no JSON object. All else is read leniently, so that a newer or
//   older chief can be asked: a member that is absent or of another type is unknown, and a number that is no count is
//   the nearest one. Words that are read are one line each and safe for a terminal, since a task, or a chief, may say
//   anything. No number that is written is infinite.
// Tests: tests/unit/schema/status_report_test.cc, tests/unit/chief/status_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/message.h"
#include "schema/task_report.h"

namespace downpour {

// A process that asks to join, and finds all places taken.
struct SpareReport {
  std::string role, host, why;
  MaybeCount pid;

  static void List(auto& fields, auto& self) {
    fields("role", self.role);
    fields("host", self.host);
    fields("why", self.why);
    fields("pid", self.pid);
  }
};

// A task that does not run yet, or not any more.
struct PendingReport {
  std::string task, why;

  static void List(auto& fields, auto& self) {
    fields("task", self.task);
    fields("why", self.why);
  }
};

struct WaitReport {
  std::string task, on, why;  // an empty why: nothing more is known
  MaybeNumber seconds;

  static void List(auto& fields, auto& self) {
    fields("task", self.task);
    fields("for", self.on);
    fields("why", self.why);
    fields("seconds", self.seconds);
  }
};

struct FailureReport {
  std::string task, what;
  MaybeNumber age;     // seconds
  MaybeCount unix_ms;  // when

  static void List(auto& fields, auto& self) {
    fields("task", self.task);
    fields("what", self.what);
    fields("ageSeconds", self.age);
    fields("unixMs", self.unix_ms);
  }
};

// What the job has outlived, whichever chief led it.
struct RecoveryReport {
  MaybeCount chief_restarts, workers_lost, ps_lost, leases_handed_on, batches_recomputed;

  static void List(auto& fields, auto& self);
};

// Its counts, in the order of tables, which say `one` or `many` after the number.
struct RecoveryCount {
  MaybeCount RecoveryReport::*count;
  const char* key;  // in `recovery`, and in summary.json
  const char* one;
  const char* many;
};
inline constexpr RecoveryCount kRecoveryCounts[] = {
    {&RecoveryReport::chief_restarts, "chiefRestarts", "chief restart", "chief restarts"},
    {&RecoveryReport::workers_lost, "workersLost", "worker lost", "workers lost"},
    {&RecoveryReport::ps_lost, "psLost", "ps lost", "ps lost"},
    {&RecoveryReport::leases_handed_on, "leasesHandedOn", "lease reassigned", "leases reassigned"},
    {&RecoveryReport::batches_recomputed, "batchesRecomputed", "batch recomputed", "batches recomputed"},
};

void RecoveryReport::List(auto& fields, auto& self) {
  for (const RecoveryCount& row : kRecoveryCounts) fields(row.key, self.*row.count);
}

// By the rows of kPushCounts (message_membership.h).
struct PushReport {
  std::array<MaybeCount, std::size(kPushCounts)> counts;

  // The one that adds up that count of tasks.
  MaybeCount& Of(uint64_t TaskStats::*count) {
    const auto row = std::find_if(std::begin(kPushCounts), std::end(kPushCounts),
                                  [count](const PushCount& push) { return push.count == count; });
    return counts.at(static_cast<size_t>(row - std::begin(kPushCounts)));
  }
  const MaybeCount& Of(uint64_t TaskStats::*count) const { return const_cast<PushReport*>(this)->Of(count); }

  static void List(auto& fields, auto& self) {
    for (size_t row = 0; row < self.counts.size(); ++row) fields(kPushCounts[row].in_status, self.counts[row]);
  }
  static void ListForSummary(auto& fields, auto& self) {
    for (size_t row = 0; row < self.counts.size(); ++row) fields(kPushCounts[row].in_summary, self.counts[row]);
  }
};

// Of some slices; nothing: not known. A VersionSpan in JSON.
struct VersionReport {
  MaybeCount oldest, newest;

  static void List(auto& fields, auto& self) {
    fields("oldestVersion", self.oldest);
    fields("newestVersion", self.newest);
  }
};
VersionReport ReportOf(const VersionSpan& span);
VersionSpan SpanOf(const VersionReport& report);

// The checkpoint that is kept since its evaluation was the best; without a path: none was named yet.
struct BestReport {
  std::string round, path, metric;
  MaybeNumber value;
  MaybeCount epoch;
  VersionReport evaluated, kept;  // what the value is of, and what the checkpoint holds

  static void List(auto& fields, auto& self) {
    fields.UnlessEmpty("round", self.round);
    fields.UnlessEmpty("path", self.path);
    fields.UnlessEmpty("metric", self.metric);
    fields("value", self.value);
    fields("epoch", self.epoch);
    fields.UnlessEmpty("evaluated", self.evaluated);
    fields.UnlessEmpty("kept", self.kept);
  }
};

struct ChiefReport {
  std::string endpoint, host, job_dir, refused_from;
  MaybeCount pid, term, protocol, unix_ms, commands, rejected, refused;

  static void List(auto& fields, auto& self) {
    fields("endpoint", self.endpoint);
    fields("host", self.host);
    fields("jobDir", self.job_dir);
    fields("refusedFrom", self.refused_from);
    fields("pid", self.pid);
    fields("term", self.term);
    fields("protocol", self.protocol);
    fields("unixMs", self.unix_ms);
    fields("commands", self.commands);
    fields("rejected", self.rejected);
    fields("refused", self.refused);
  }
};

struct ProgressReport {
  MaybeCount epoch, epochs, leases_committed, leases, examples_committed, examples, train_examples, commits;
  MaybeNumber examples_per_second, loss;

  static void List(auto& fields, auto& self) {
    fields("epoch", self.epoch);
    fields("epochs", self.epochs);
    fields("leasesCommitted", self.leases_committed);
    fields("leases", self.leases);
    fields("examplesCommitted", self.examples_committed);
    fields("examples", self.examples);
    fields("trainExamples", self.train_examples);
    fields("commits", self.commits);
    fields("examplesPerSecond", self.examples_per_second);
    fields("loss", self.loss);
  }
};

struct EvaluationReport {
  MaybeCount round, epoch, examples, oldest_version, newest_version;
  MaybeNumber loss, accuracy;
  MetricValueList metrics;

  static void List(auto& fields, auto& self) {
    fields("round", self.round);
    fields("epoch", self.epoch);
    fields("examples", self.examples);
    fields("oldestVersion", self.oldest_version);
    fields("newestVersion", self.newest_version);
    fields("loss", self.loss);
    fields("accuracy", self.accuracy);
    fields.UnlessEmpty("metrics", self.metrics);
  }
};

struct CheckpointReport {
  std::string round, path;  // of the last durable one; empty: there is none
  std::string writing, error, error_cause, interval_why;
  MaybeNumber interval, age, round_seconds, round_cost;
  MaybeCount bytes, leases_committed;
  BestReport best;

  static void List(auto& fields, auto& self) {
    fields.UnlessEmpty("round", self.round);
    fields.UnlessEmpty("path", self.path);
    fields("writing", self.writing);
    fields("lastError", self.error);
    fields("lastErrorCause", self.error_cause);
    fields("intervalWhy", self.interval_why);
    fields("intervalSeconds", self.interval);
    fields("roundSeconds", self.round_seconds);
    fields("roundCostSeconds", self.round_cost);
    fields("ageSeconds", self.age);
    fields("bytes", self.bytes);
    fields("leasesCommitted", self.leases_committed);
    fields.UnlessEmpty("best", self.best);
  }
};

// How many workers the job wants, and what its file says.
struct WorkersReport {
  MaybeCount wanted, in_file;

  static void List(auto& fields, auto& self) {
    fields("wanted", self.wanted);
    fields("jobFile", self.in_file);
  }
};

struct StatusReport {
  MaybeCount schema_version = 1;
  std::string job, run, state, error;
  ChiefReport chief;
  MaybeCount start_unix_ms;
  MaybeNumber elapsed, remaining, allowed;  // seconds
  ProgressReport progress;
  EvaluationReport evaluation;  // without a round: none is finished yet
  CheckpointReport checkpoint;
  WorkersReport workers;
  std::vector<std::string> changes;  // of settings, by the start of this chief
  RecoveryReport recovery;
  PushReport pushes;
  StalenessReport staleness;
  TablesReport tables;
  std::vector<TaskReport> tasks;
  std::vector<PendingReport> pending;
  std::vector<WaitReport> waits;
  MaybeCount tasks_omitted, pending_omitted, waits_omitted;
  std::string stalled;        // why nothing moves; empty: it does
  std::string diverging;      // why the model does not learn; empty: it does, as far as can be told
  std::string stopped_early;  // why the job ends before the epochs of its file; empty: it does not
  std::vector<SpareReport> spares;
  std::vector<FailureReport> failures;
  std::vector<std::string> next;  // commands to type
  MaybeCount exit_code;           // of its chief, once it has ended

  static void List(auto& fields, auto& self) {
    fields("schemaVersion", self.schema_version);
    fields("job", self.job);
    fields("run", self.run);
    fields("state", self.state);
    fields("errorMessage", self.error);
    fields("chief", self.chief);
    fields("startTimeUnixMs", self.start_unix_ms);
    fields("elapsedSeconds", self.elapsed);
    fields("remainingSeconds", self.remaining);
    fields("allowedSeconds", self.allowed);
    fields("progress", self.progress);
    fields.UnlessEmpty("evaluation", self.evaluation);
    fields("checkpoint", self.checkpoint);
    fields("workers", self.workers);
    fields("changes", self.changes);
    fields("recovery", self.recovery);
    fields("pushes", self.pushes);
    fields("staleness", self.staleness);
    fields.UnlessEmpty("tables", self.tables);
    fields("tasks", self.tasks);
    fields("tasksOmitted", self.tasks_omitted);
    fields("pending", self.pending);
    fields("pendingOmitted", self.pending_omitted);
    fields("waits", self.waits);
    fields("waitsOmitted", self.waits_omitted);
    fields("stalled", self.stalled);
    fields("diverging", self.diverging);
    fields("stoppedEarly", self.stopped_early);
    fields("spares", self.spares);
    fields("failures", self.failures);
    fields("next", self.next);
    fields("exitCode", self.exit_code);
  }
};

struct SummaryReport {
  std::string job, run, state, error, diverging, stopped_early;
  std::string checkpoint;  // the path of the last one; empty: there is none
  MaybeCount term;         // of the chief that wrote it
  MaybeCount exit_code;    // of its chief
  MaybeCount epochs, steps, examples, samples_committed;
  MaybeCount start_unix_ms;
  MaybeNumber elapsed;                            // seconds since the job began
  MaybeNumber wall_seconds, examples_per_second;  // while its last chief ran
  MaybeNumber train_loss, eval_loss, eval_accuracy;
  MetricValueList eval_metrics;
  BestReport best;
  RecoveryReport recovery;
  PushReport pushes;
  StalenessReport staleness;
  std::vector<FailureReport> failures;

  static void List(auto& fields, auto& self) {
    fields("job", self.job);
    fields("run", self.run);
    fields("state", self.state);
    fields("errorMessage", self.error);
    fields("diverging", self.diverging);
    fields("stoppedEarly", self.stopped_early);
    fields.UnlessEmpty("checkpoint", self.checkpoint);
    fields("term", self.term);
    fields("exitCode", self.exit_code);
    fields("epochs", self.epochs);
    fields("steps", self.steps);
    fields("examples", self.examples);
    fields("samplesCommitted", self.samples_committed);
    fields("startTimeUnixMs", self.start_unix_ms);
    fields("elapsedSeconds", self.elapsed);
    fields("wallSeconds", self.wall_seconds);
    fields("examplesPerSecond", self.examples_per_second);
    fields("trainLoss", self.train_loss);
    fields("evalLoss", self.eval_loss);
    fields("evalAccuracy", self.eval_accuracy);
    fields.UnlessEmpty("evalMetrics", self.eval_metrics);
    fields.UnlessEmpty("bestCheckpoint", self.best);
    RecoveryReport::List(fields, self.recovery);
    PushReport::ListForSummary(fields, self.pushes);
    fields("staleness", self.staleness);
    fields("failures", self.failures);
  }
};

std::string ToJson(const StatusReport& report);   // on one line
std::string ToJson(const BestReport& report);     // on one line
std::string ToJson(const SummaryReport& report);  // a line for each member, and the last line's end

absl::StatusOr<StatusReport> ParseStatus(std::string_view json);
absl::StatusOr<SummaryReport> ParseSummary(std::string_view json);

}  // namespace downpour
