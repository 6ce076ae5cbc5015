#include "cluster/status_table.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cluster/human_units.h"
#include "cluster/text_table.h"
#include "schema/checkpoint_format.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kGood = "\x1b[32m";
constexpr const char* kBad = "\x1b[31m";
constexpr const char* kUnknown = "-";

std::string Paint(bool color, const char* how, const std::string& words) {
  return color ? absl::StrCat(how, words, "\x1b[0m") : words;
}

template <typename Show>
std::string OrUnknown(const MaybeNumber& value, Show show) {
  return value ? std::string(show(*value)) : std::string(kUnknown);
}

std::string StalenessCell(const StalenessReport& s) {
  if (!s.mean) return kUnknown;
  return absl::StrCat(absl::StrFormat("%.1f", *s.mean), "/", OrUnknown(s.p99, HumanCount), "/",
                      OrUnknown(s.max, HumanCount));
}

std::vector<std::string> TaskRow(const TaskReport& task) {
  const auto words = [](const std::string& w) { return w.empty() ? std::string(kUnknown) : w; };
  const auto number = [](double n) { return absl::StrFormat("%.0f", n); };
  const auto percent = [](double share) { return absl::StrFormat("%.0f%%", 100 * share); };
  const auto ago = [](double seconds) { return HumanSeconds(seconds) + " ago"; };
  return {words(task.name) + (task.is_master ? " (master)" : ""),
          words(task.state),
          words(task.host),
          OrUnknown(task.pid, number),
          OrUnknown(task.role == "ps" ? std::nullopt : task.step, HumanCount),
          OrUnknown(task.role == "worker" ? task.examples_per_second : std::nullopt, HumanCount),
          StalenessCell(task.staleness),
          OrUnknown(task.cpu_share, percent),
          OrUnknown(task.resident_bytes, HumanBytes),
          OrUnknown(task.bytes_in, HumanBytes),
          OrUnknown(task.bytes_out, HumanBytes),
          OrUnknown(task.heartbeat_age, ago),
          task.waiting_for + (task.is_spare ? " (spare: others hold all leases)" : "")};
}

std::string TaskTable(const StatusReport& status) {
  std::vector<std::vector<std::string>> rows = {{"TASK", "STATE", "HOST", "PID", "STEP", "EXAMPLES/S", "STALENESS",
                                                 "CPU", "MEMORY", "IN", "OUT", "HEARTBEAT", "WAITING FOR"}};
  for (const TaskReport& task : status.tasks) rows.push_back(TaskRow(task));
  const double omitted = status.tasks_omitted.value_or(0);
  return TextTable(rows, /*first_number=*/3, /*last_number=*/11) +
         (omitted > 0 ? absl::StrFormat("and %.0f more tasks\n", omitted) : "");
}

std::vector<std::string> GpuLines(const StatusReport& status) {
  std::vector<std::string> lines;
  for (const TaskReport& task : status.tasks) {
    const GpuReport& gpu = task.gpu;
    if (gpu.address.empty()) continue;
    std::vector<std::string> parts = {gpu.name.empty() ? gpu.address : gpu.name};
    if (gpu.utilisation) parts.push_back(HumanPercent(*gpu.utilisation, 0) + " busy");
    if (gpu.memory_used && gpu.memory_total) {
      parts.push_back(HumanBytes(*gpu.memory_used) + " of " + HumanBytes(*gpu.memory_total));
    }
    if (gpu.celsius) parts.push_back(absl::StrFormat("%.0f °C", *gpu.celsius));
    if (gpu.workers.value_or(1) > 1) parts.push_back(absl::StrFormat("shared by %.0f workers", *gpu.workers));
    lines.push_back(absl::StrCat(task.name, ": ", absl::StrJoin(parts, ", ")));
  }
  return lines;
}

std::vector<std::string> TableLines(const StatusReport& status) {
  const TablesReport& tables = status.tables;
  if (!tables.rows || !tables.bytes) return {};
  const auto servers = std::count_if(status.tasks.begin(), status.tasks.end(),
                                     [](const TaskReport& task) { return task.tables.rows.has_value(); });
  std::string line = absl::StrCat(HumanCount(*tables.rows), *tables.rows == 1 ? " row, " : " rows, ",
                                  HumanBytes(*tables.bytes), servers > 0 ? absl::StrCat(" on ", servers, " ps") : "");
  if (const uint64_t unborn = tables.keys_unborn.value_or(0); unborn > 0) {
    absl::StrAppend(&line, "; ", HumanCount(unborn), unborn == 1 ? " push" : " pushes", " of keys without room");
  }
  return {line};
}

std::string JobLine(const StatusReport& status) {
  std::vector<std::string> parts = {absl::StrCat(status.job, " ", status.state)};
  const MaybeNumber done = EpochsDone(status);
  if (done && status.progress.epochs.value_or(0) > 0) {
    parts.push_back(absl::StrFormat("epoch %.1f of %.0f (%s)", *done, *status.progress.epochs,
                                    HumanPercent(std::min(1.0, *done / *status.progress.epochs))));
  }
  if (status.progress.loss) parts.push_back("loss " + HumanLoss(*status.progress.loss));
  if (status.progress.examples_per_second)
    parts.push_back(HumanCount(*status.progress.examples_per_second) + " examples/s");
  if (status.elapsed) parts.push_back(HumanSeconds(*status.elapsed) + " elapsed");
  if (status.remaining) parts.push_back(HumanSeconds(*status.remaining) + " left");
  if (status.allowed) parts.push_back(HumanSeconds(*status.allowed) + " until scheduling.maxRunningTime ends it");
  return absl::StrJoin(parts, ", ");
}

// What the job has outlived; nothing where there was nothing.
std::vector<std::string> RecoveryLines(const RecoveryReport& recovery) {
  std::vector<std::string> parts;
  for (const RecoveryCount& row : kRecoveryCounts) {
    const uint64_t count = (recovery.*row.count).value_or(0);
    if (count > 0) parts.push_back(absl::StrCat(HumanCount(count), " ", count == 1 ? row.one : row.many));
  }
  if (parts.empty()) return {};
  return {absl::StrJoin(parts, ", ")};
}

std::vector<std::string> ScaledLines(const StatusReport& status) {
  if (!status.workers.wanted || status.workers.wanted == status.workers.in_file) return {};
  return {absl::StrFormat("to %.0f worker%s; the job file says %s", *status.workers.wanted,
                          *status.workers.wanted == 1 ? "" : "s", OrUnknown(status.workers.in_file, HumanCount))};
}

std::string PushLine(const StatusReport& status) {
  std::vector<std::string> parts;
  for (size_t row = 0; row < status.pushes.counts.size(); ++row) {
    const MaybeCount& count = status.pushes.counts[row];
    const bool is_shown = count && (*count > 0 || !kPushCounts[row].shown_if_any);
    if (is_shown) parts.push_back(absl::StrCat(HumanCount(*count), " ", kPushCounts[row].words));
  }
  uint64_t rejected = status.chief.rejected.value_or(0);
  for (const TaskReport& task : status.tasks) rejected += task.rejected.value_or(0);
  if (rejected > 0) parts.push_back(HumanCount(rejected) + (rejected == 1 ? " message" : " messages") + " ignored");
  return parts.empty() ? kUnknown : absl::StrJoin(parts, ", ");
}

// "the best: checkpoints/1-4, loss 0.0712 after 3 epochs"; nothing where there is none.
void AddBest(const BestReport& best, std::vector<std::string>* lines) {
  if (best.path.empty() || !best.value) return;
  const std::string when =
      best.epoch ? absl::StrCat(" after ", Counted(static_cast<uint64_t>(*best.epoch), "epoch")) : "";
  lines->push_back(absl::StrFormat("the best: %s, %s %.4g%s%s", best.path, best.metric, *best.value, when,
                                   DescribeVersions(SpanOf(best.evaluated), SpanOf(best.kept))));
}

std::vector<std::string> CheckpointLines(const StatusReport& status) {
  std::vector<std::string> lines;
  if (status.checkpoint.round.empty()) {
    lines.push_back("none yet");
  } else {
    std::vector<std::string> parts = {status.checkpoint.round};
    if (status.checkpoint.age) parts.push_back(HumanSeconds(*status.checkpoint.age) + " ago");
    if (status.checkpoint.bytes) parts.push_back(HumanBytes(*status.checkpoint.bytes));
    if (status.checkpoint.leases_committed && status.progress.leases) {
      parts.push_back(absl::StrCat(HumanCount(*status.checkpoint.leases_committed), " of ",
                                   HumanCount(*status.progress.leases), " leases"));
    }
    lines.push_back(absl::StrCat(absl::StrJoin(parts, ", "), " (", status.checkpoint.path, ")"));
  }
  AddBest(status.checkpoint.best, &lines);
  if (status.checkpoint.interval) {
    lines.push_back(
        absl::StrCat("every ", HumanSeconds(*status.checkpoint.interval), " (", status.checkpoint.interval_why, ")"));
  }
  if (!status.checkpoint.writing.empty()) lines.push_back("writing " + status.checkpoint.writing);
  if (!status.checkpoint.error.empty()) lines.push_back("last error: " + status.checkpoint.error);
  return lines;
}

std::vector<std::string> RefusedLines(const StatusReport& status) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& door, const MaybeCount& count, const std::string& from) {
    if (count.value_or(0) == 0) return;
    lines.push_back(absl::StrCat(HumanCount(*count), *count == 1 ? " handshake at " : " handshakes at ", door,
                                 " without a key of this cluster", from.empty() ? "" : ", the last from " + from));
  };
  add("the chief", status.chief.refused, status.chief.refused_from);
  for (const TaskReport& task : status.tasks) add(task.name, task.refused, task.refused_from);
  if (!lines.empty()) {
    lines.push_back(absl::StrCat("if it is to take part: downpour doctor --keys DIR --role ROLE --chief ",
                                 status.chief.endpoint, " on that host tells what its keys lack"));
  }
  return lines;
}

// Time and rate are of the last chief: of a job that had several they stand on a line of their own.
std::vector<std::string> TrainedLines(const SummaryReport& summary) {
  const bool had_several = summary.recovery.chief_restarts.value_or(0) > 0;
  std::vector<std::string> all, last;
  if (summary.epochs) all.push_back(absl::StrFormat("%.10g epoch%s", *summary.epochs, *summary.epochs == 1 ? "" : "s"));
  if (summary.examples) all.push_back(HumanCount(*summary.examples) + " examples");
  if (summary.elapsed && had_several) all.push_back("over " + HumanSeconds(*summary.elapsed));
  std::vector<std::string>& rate = had_several ? last : all;
  if (summary.wall_seconds) rate.push_back((had_several ? "" : "in ") + HumanSeconds(*summary.wall_seconds));
  if (summary.examples_per_second) rate.push_back(HumanCount(*summary.examples_per_second) + " examples/s");
  std::vector<std::string> lines;
  if (!all.empty()) lines.push_back(absl::StrJoin(all, ", "));
  if (!last.empty()) lines.push_back("under its last chief: " + absl::StrJoin(last, ", "));
  return lines;
}

// Those of long ago are only counted: what is wrong now shall be seen.
std::vector<std::string> FailureLines(const std::vector<FailureReport>& failures) {
  std::vector<std::string> lines;
  const FailureReport* last_before = nullptr;
  size_t before = 0;
  for (const FailureReport& f : failures) {
    if (f.age.value_or(0) > kLately) {
      last_before = &f;
      ++before;
      continue;
    }
    lines.push_back(absl::StrCat(f.task, ": ", f.what, f.age ? absl::StrCat(", ", HumanSeconds(*f.age), " ago") : ""));
  }
  if (lines.empty()) lines.push_back("none lately");
  if (before > 0) {
    lines.push_back(absl::StrCat(before, " before that, the last ", HumanSeconds(*last_before->age),
                                 " ago: ", last_before->task, ": ", last_before->what));
  }
  return lines;
}

std::vector<std::string> WarningLines(const StatusReport& status) {
  std::vector<std::string> lines;
  for (const TaskReport& task : status.tasks) {
    if (task.warning.empty() || task.warning_age.value_or(0) > kLately) continue;
    lines.push_back(
        absl::StrCat(task.name, ": ", task.warning, ", ", HumanSeconds(task.warning_age.value_or(0)), " ago"));
  }
  return lines;
}

std::vector<std::string> SpareLines(const StatusReport& status) {
  std::vector<std::string> lines;
  for (const SpareReport& spare : status.spares) {
    lines.push_back(absl::StrCat("a ", spare.role, " on ", spare.host, " (process ",
                                 absl::StrFormat("%.0f", spare.pid.value_or(0)), ") asks to join: ", spare.why));
  }
  return lines;
}

// The chief's folders are on its host: a reader elsewhere is told to type there what names one.
std::vector<std::string> NextLines(const StatusReport& status, bool is_elsewhere) {
  std::vector<std::string> lines;
  for (const std::string& command : status.next) {
    const bool of_its_host =
        command.find("--job-dir ") != std::string::npos || command.find("--job_dir=") != std::string::npos ||
        (command.find("--keys=") != std::string::npos && command.find("--keys=DIR") == std::string::npos);
    const std::string where = is_elsewhere && of_its_host ? "on " + status.chief.host + ": " : "";
    lines.push_back(where + command);
  }
  return lines;
}

void AddHealth(const StatusReport& status, bool color, std::string* out) {
  const bool healthy = IsHealthy(status);
  const bool ended_badly = HasEnded(status) && status.state != "SUCCEEDED";
  const std::string verdict = healthy ? "healthy" : ended_badly ? status.state : "degraded";
  AddSection("Health", {Paint(color, healthy ? kGood : kBad, verdict)}, out);
  if (!status.error.empty()) AddSection("Error", {Paint(color, kBad, status.error)}, out);

  if (!status.stalled.empty()) AddSection("Stalled", {Paint(color, kBad, status.stalled)}, out);
  if (!status.diverging.empty()) AddSection("DIVERGING", {Paint(color, kBad, status.diverging)}, out);

  std::vector<std::string> pending, waits;
  for (const PendingReport& p : status.pending) pending.push_back(p.task + " " + p.why);
  for (const WaitGroup& w : GroupWaits(status.waits)) {
    waits.push_back(absl::StrCat(HumanNames(w.tasks), " for ", w.on, w.why.empty() ? "" : ": " + w.why,
                                 w.seconds ? absl::StrCat(", for ", HumanSeconds(*w.seconds)) : ""));
  }
  AddSection("Pending", pending.empty() ? std::vector<std::string>{"none"} : pending, out);
  AddSection("Failures", FailureLines(status.failures), out);
  AddSection("Waiting", waits, out);
  AddSection("Warnings", WarningLines(status), out);
  AddSection("Spare", SpareLines(status), out);
  AddSection("Refused", RefusedLines(status), out);
}

}  // namespace

std::string StatusTable(const StatusReport& status, bool color, bool is_elsewhere) {
  std::string out;
  AddHealth(status, color, &out);
  absl::StrAppend(&out, "\n");
  AddSection("Job", {JobLine(status)}, &out);
  if (status.evaluation.accuracy || status.evaluation.loss) {
    std::vector<std::string> parts;
    if (status.evaluation.accuracy) parts.push_back("accuracy " + HumanPercent(*status.evaluation.accuracy, 2));
    if (status.evaluation.loss) parts.push_back("loss " + HumanLoss(*status.evaluation.loss));
    for (const auto& metric : status.evaluation.metrics) parts.push_back(HumanMetric(metric));
    if (status.evaluation.epoch) parts.push_back(absl::StrFormat("after epoch %.0f", *status.evaluation.epoch));
    AddSection("Evaluation", {absl::StrJoin(parts, ", ")}, &out);
  }
  if (!status.stopped_early.empty()) AddSection("Stops", {"early: " + status.stopped_early}, &out);
  AddSection("Scaled", ScaledLines(status), &out);
  AddSection("Changed", status.changes, &out);
  AddSection("Recovered", RecoveryLines(status.recovery), &out);
  AddSection("Pushes", {PushLine(status)}, &out);
  AddSection("Staleness", {"mean/p99/max " + StalenessCell(status.staleness)}, &out);
  AddSection("Tables", TableLines(status), &out);
  absl::StrAppend(&out, "\n", TaskTable(status), "\n");
  AddSection("GPUs", GpuLines(status), &out);
  AddSection("Checkpoint", CheckpointLines(status), &out);
  AddSection("Next", NextLines(status, is_elsewhere), &out);
  return out;
}

std::string SummaryTable(const SummaryReport& summary, bool color) {
  std::string out;
  const bool good = summary.state == "SUCCEEDED";
  AddSection(
      "Job",
      {absl::StrCat(summary.job, summary.job.empty() ? "" : " ", Paint(color, good ? kGood : kBad, summary.state))},
      &out);
  if (!summary.error.empty()) AddSection("Error", {summary.error}, &out);
  if (!summary.diverging.empty()) AddSection("DIVERGING", {Paint(color, kBad, summary.diverging)}, &out);
  if (summary.eval_accuracy) {
    AddSection("Accuracy",
               {absl::StrCat(HumanPercent(*summary.eval_accuracy, 2), " on the eval data",
                             summary.eval_loss ? ", loss " + HumanLoss(*summary.eval_loss) : "")},
               &out);
  } else if (summary.eval_loss) {
    AddSection("Loss", {HumanLoss(*summary.eval_loss) + " on the eval data"}, &out);
  }
  std::vector<std::string> metrics;
  for (const auto& metric : summary.eval_metrics) metrics.push_back(HumanMetric(metric));
  if (!metrics.empty()) AddSection("Metrics", {absl::StrJoin(metrics, ", ")}, &out);
  if (!summary.stopped_early.empty()) AddSection("Stopped", {"early: " + summary.stopped_early}, &out);
  AddSection("Trained", TrainedLines(summary), &out);
  AddSection("Staleness", {"mean/p99/max " + StalenessCell(summary.staleness)}, &out);
  AddSection("Recovered", RecoveryLines(summary.recovery), &out);
  if (const uint64_t skipped = summary.pushes.Of(&TaskStats::pushes_skipped).value_or(0); skipped > 0) {
    AddSection("Skipped", {HumanCount(skipped) + " pushes, which changed nothing"}, &out);
  }
  std::vector<std::string> checkpoints;
  if (!summary.checkpoint.empty()) checkpoints.push_back(summary.checkpoint);
  AddBest(summary.best, &checkpoints);
  if (!checkpoints.empty()) AddSection("Checkpoint", checkpoints, &out);
  return out;
}

}  // namespace downpour
