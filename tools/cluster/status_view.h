// What a chief says of its job, read leniently: the fields of docs/STATUS.md, absent where the chief left them out or
// gave them another type, so that a newer or older chief can be asked. Words are one line each and safe for a terminal
// (Printable in human_units.h), since a task, or a chief, may say anything.
//
// Errors: INVALID_ARGUMENT where the text is no JSON object.
// Tests: tests/unit/tools/cluster/status_view_test.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

using MaybeNumber = std::optional<double>;  // counts are exact up to 2^53

struct StalenessView {
  MaybeNumber mean, p99, max;
};

struct GpuView {
  std::string address, name;
  MaybeNumber utilisation, celsius, memory_used, memory_total, workers;
};

struct TaskView {
  std::string name, role, state, host, endpoint, waiting_for, warning, refused_from;
  bool is_spare = false;
  MaybeNumber pid, step, examples_per_second, cpu_share, resident_bytes, bytes_in, bytes_out, heartbeat_age;
  MaybeNumber rejected, refused, warning_age;
  StalenessView staleness;
  GpuView gpu;  // without an address: none
};

// That asks to join, and finds all places taken.
struct SpareView {
  std::string role, host, why;
  MaybeNumber pid;
};

struct PendingView {
  std::string task, why;
};
struct WaitView {
  std::string task, on, why;
  MaybeNumber seconds;
};
struct FailureView {
  std::string task, what;
  MaybeNumber age;      // seconds
  MaybeNumber unix_ms;  // when
};

// What the job has outlived.
struct RecoveryView {
  MaybeNumber chief_restarts, workers_lost, ps_lost, leases_handed_on, batches_recomputed;
};

using MetricViews = std::vector<std::pair<std::string, double>>;  // by name

// The checkpoint that is kept since its evaluation was the best; without a path: none was named yet.
struct BestView {
  std::string path, metric;
  MaybeNumber value, epoch;
};

struct StatusView {
  std::string job, run, state, error;
  std::string chief_endpoint, chief_host, job_dir;
  std::string refused_from;
  MaybeNumber chief_pid, chief_term, chief_protocol, chief_rejected, chief_refused;
  MaybeNumber commands;                     // of people, that this chief has heeded
  MaybeNumber workers, workers_in_file;     // how many the job wants, and what its file says
  std::vector<std::string> changes;         // of settings, by the start of this chief
  MaybeNumber elapsed, remaining, allowed;  // seconds
  MaybeNumber epoch, epochs, leases_committed, leases, examples_committed, train_examples;
  MaybeNumber commits;  // of this chief
  MaybeNumber examples_per_second, loss;
  MaybeNumber evaluation_epoch, evaluation_loss, evaluation_accuracy;
  MetricViews evaluation_metrics;
  std::string checkpoint_round, checkpoint_path, checkpoint_writing;
  std::string checkpoint_error, checkpoint_error_cause;
  std::string checkpoint_interval_why;
  BestView best;
  MaybeNumber checkpoint_interval, checkpoint_age, checkpoint_bytes, checkpoint_leases;
  MaybeNumber pushes_acknowledged, pushes_consumed, pushes_resent, pushes_refused, pushes_duplicate, pushes_dropped,
      pushes_skipped;
  RecoveryView recovery;
  StalenessView staleness;
  std::vector<TaskView> tasks;
  MaybeNumber tasks_omitted;
  std::string stalled;        // why nothing moves; empty: it does
  std::string stopped_early;  // why the job ends before the epochs of its file; empty: it does not
  std::string diverging;      // why the model does not learn; empty: it does, as far as can be told
  std::vector<SpareView> spares;
  MaybeNumber exit_code;      // of its chief, once it has ended
  bool is_elsewhere = false;  // the chief's host is another one, with its folders; not a field of the status
  std::vector<PendingView> pending;
  std::vector<WaitView> waits;
  std::vector<FailureView> failures;
  std::vector<std::string> next;  // commands to type
};

// summary.json of an ended job.
struct SummaryView {
  std::string job, run, state, error, checkpoint, diverging, stopped_early;
  MaybeNumber term;  // of the chief that wrote it
  MaybeNumber epochs, examples, eval_loss, eval_accuracy;
  MetricViews eval_metrics;
  BestView best;
  MaybeNumber wall_seconds, examples_per_second;  // while its last chief ran
  MaybeNumber elapsed;                            // seconds since the job began
  MaybeNumber pushes_skipped;
  MaybeNumber exit_code;  // of its chief
  RecoveryView recovery;
  StalenessView staleness;
};

absl::StatusOr<StatusView> ParseStatus(std::string_view json);
absl::StatusOr<SummaryView> ParseSummary(std::string_view json);

// Waiting, preparing, running or succeeded; nobody missing while it runs, and something moves; training gets on; no
// failure within kLately.
inline constexpr double kLately = 60;  // seconds
bool IsHealthy(const StatusView& status);
bool HasEnded(const StatusView& status);
// Whether two views are of different runs, by their `run`. One that is empty is not known, and may be the same.
bool IsAnotherRun(const std::string& run, const std::string& other);

// Those who wait for one thing, in the order of the first of each.
struct WaitGroup {
  std::vector<std::string> tasks;
  std::string on, why;
  MaybeNumber seconds;  // the longest
};
std::vector<WaitGroup> GroupWaits(const std::vector<WaitView>& waits);

// Epochs done, with their fraction: 3.24 of 10.
MaybeNumber EpochsDone(const StatusView& status);

}  // namespace downpour
