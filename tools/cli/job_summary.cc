#include "tools/cli/job_summary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "chief/known/checkpoint_interval.h"
#include "chief/known/slice_placement.h"
#include "cluster/human_units.h"
#include "job/job_names.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "runtime/world_time.h"
#include "schema/text.h"

namespace downpour {
namespace {

std::string Count(uint64_t n, const std::string& one) {
  return absl::StrCat(HumanCount(static_cast<double>(n)), " ", one, n == 1 ? "" : "s");
}

std::string ModelText(const SliceGrid& grid) {
  int64_t parameters = 0;
  std::vector<int64_t> slices(grid.variables.size());
  for (size_t s = 0; s < grid.dense(); ++s) ++slices[grid.slices[s].variable];
  std::string lines;
  for (size_t v = 0; v < grid.variables.size(); ++v) {
    const VariableSpec& variable = grid.variables[v];
    parameters += variable.elements();
    absl::StrAppendFormat(&lines, "              %-24s %-16s %10s  %s\n", variable.name,
                          "[" + absl::StrJoin(variable.shape, ", ") + "]",
                          HumanBytes(4.0 * static_cast<double>(variable.elements())), Count(slices[v], "slice"));
  }
  return absl::StrCat("Model         ", Count(parameters, "parameter"), " in ",
                      Count(grid.variables.size(), "variable"), ", ", Count(grid.dense(), "slice"), "\n", lines);
}

std::string TablesText(const ModelSpec& model) {
  if (!model.has_tables()) return "";
  std::string text = absl::StrCat("Tables        ", model.tables.size(), ", whose rows lie in ",
                                  Count(model.table_buckets, "bucket"), "; they grow as keys come\n");
  for (const ModelTable& table : model.tables) {
    absl::StrAppendFormat(&text, "              %-24s %-16s %s%s at %g%s\n", table.name,
                          absl::StrCat("[", table.width, "]"), NameIn(kTableOptimizers, table.optimizer.kind),
                          table.row_wise ? ", row-wise," : "", table.optimizer.learning_rate,
                          table.halves ? ", in bf16" : "");
  }
  return text;
}

struct ServerLoad {
  int64_t slices = 0;   // of variables
  int64_t buckets = 0;  // of tables, whose bytes nobody knows yet
  int64_t bytes = 0;    // of values
  int64_t rounded = 0;  // of the same values, as they travel in bfloat16
};
std::vector<ServerLoad> LoadsOf(const JobSpec& job, const SliceGrid& grid) {
  const auto servers = static_cast<uint32_t>(job.cluster.parameter_server_count);
  std::vector<ServerLoad> loads(servers);
  const std::vector<uint32_t> placement = SpreadSlices(grid, servers);
  for (const Slice& slice : grid.slices) {
    ServerLoad& load = loads[placement[ToNumber(slice.id)]];
    ++(grid.IsBucket(slice.id) ? load.buckets : load.slices);
    load.bytes += slice.bytes();
    load.rounded += grid.wire == WireFormat::kBf16 ? static_cast<int64_t>(grid.WireBytes(slice.id)) : 0;
  }
  return loads;
}

// What each worker keeps of its gradients' rounding, in bytes.
int64_t ResidualBytes(const SliceGrid& grid) {
  int64_t bytes = 0;
  for (const Slice& slice : grid.slices) bytes += grid.wire == WireFormat::kBf16 ? slice.bytes() : 0;
  return bytes;
}

std::string ServersText(const JobSpec& job, const SliceGrid& grid) {
  const int slots = SlotCount(job.training);
  const std::vector<ServerLoad> loads = LoadsOf(job, grid);
  std::string text = "Servers";
  for (size_t s = 0; s < loads.size(); ++s) {
    const auto values = static_cast<double>(loads[s].bytes);
    const auto rounded = static_cast<double>(loads[s].rounded);
    absl::StrAppend(&text, s == 0 ? "       " : "              ", "ps-", s, ": ", Count(loads[s].slices, "slice"), ", ",
                    HumanBytes(values * (1 + slots) + rounded), " (values ", HumanBytes(values), ", optimizer's slots ",
                    HumanBytes(values * slots), rounded > 0 ? ", values in bf16 " + HumanBytes(rounded) : "", ")",
                    loads[s].buckets > 0 ? " and " + Count(loads[s].buckets, "bucket") : "", "\n");
  }
  return text;
}

// With sync: a group's leases take their steps together, and none has more of them than the first.
uint64_t UpdatesPerEpoch(const Plan& plan) {
  uint64_t updates = 0;
  for (uint64_t group = 0; plan.GroupBegin(group) < plan.leases_per_epoch(); ++group) {
    updates += plan.StepsOf(LeaseId{plan.GroupBegin(group)});
  }
  return updates;
}

std::string TrainingText(const JobSpec& job, const SliceGrid& grid, const DataFacts& facts) {
  const TrainingSpec& training = job.training;
  const ScheduleSpec& schedule = training.optimizer.schedule;
  const bool is_constant = schedule.kind == ScheduleKind::kConstant;
  std::string text =
      absl::StrCat("Training      ", NameIn(kConsistencies, training.consistency), ", ",
                   NameIn(kOptimizers, training.optimizer.kind), " at ", training.optimizer.learning_rate,
                   is_constant ? "" : absl::StrCat(" by schedule ", NameIn(kSchedules, schedule.kind)), ", batches of ",
                   training.batch_size, ", ", Count(training.epochs, "epoch"), "\n");
  if (training.local_steps > 0) {
    absl::StrAppend(&text, "              of which a worker takes ", training.local_steps,
                    " alone and pushes what they changed;\n              servers apply that by ",
                    NameIn(kOuterOptimizers, training.outer.kind), " at ", training.outer.learning_rate, "\n");
  }
  if (training.push_every > 1) {
    absl::StrAppend(&text, "              a push for every ", training.push_every, " batches\n");
  }
  if (training.consistency != Consistency::kAsync) {
    absl::StrAppend(
        &text, "              in groups of ", training.group_size, " pushes",
        training.consistency == Consistency::kSync
            ? absl::StrCat(", each one update, with ", Count(training.backup_workers, "backup worker"), "\n")
            : absl::StrCat(", of which ", training.ssp_bound, " more may be begun before one is finished\n"));
  }
  if (training.max_staleness) {
    absl::StrAppend(&text, "              pushes staler than ", *training.max_staleness, " are computed again\n");
  }
  if ((job.cluster.worker_count > 1 || training.pull_ahead) && training.consistency != Consistency::kSync) {
    absl::StrAppend(&text, "              stale pushes are damped by method ",
                    NameIn(kStalenessMethods, training.staleness_method), " (docs/LEARNING.md)\n");
  }
  if (training.pull_ahead) {
    absl::StrAppend(&text,
                    "              parameters are pulled while the step before is computed: they are staler,\n"
                    "              about as with twice the workers where steps are short\n");
  }
  absl::StrAppend(&text, "              products in ", NameIn(kPrecisions, training.precision),
                  ", pushes and pulls in ", NameIn(kWireFormats, training.wire), "\n");
  if (const int64_t bytes = ResidualBytes(grid); bytes > 0) {
    absl::StrAppend(&text, "              each worker keeps ", HumanBytes(static_cast<double>(bytes)),
                    " of what rounding took from its gradients\n");
  }
  if (facts.train_examples) {
    const Plan plan(job, *facts.train_examples);
    absl::StrAppend(&text, "              ", Count(*facts.train_examples, "example"), ": ",
                    Count(plan.steps_per_epoch(), "step"), " in ", Count(plan.leases_per_epoch(), "lease"),
                    " per epoch, ", Count(plan.total_steps(), "step"), " in all\n");
    if (training.consistency == Consistency::kSync) {
      absl::StrAppend(&text, "              steps of ", Count(training.group_size, "worker"),
                      " are one update: ", Count(UpdatesPerEpoch(plan), "update"), " per epoch\n");
    }
  }
  return text;
}

std::string EvaluationText(const JobSpec& job, const DataFacts& facts) {
  if (!job.data.has_eval()) {
    return absl::StrCat("Evaluation    none: ",
                        job.model.is_own() ? "downpour.fit is given no eval" : "the job names no data.eval", "\n");
  }
  const int64_t every = job.training.evaluate_every_epochs;
  return absl::StrCat(
      "Evaluation    ", facts.eval_examples ? "on " + Count(*facts.eval_examples, "example") + ", " : "",
      every == 0 ? "at the end" : "after every " + (every == 1 ? "epoch" : Count(every, "epoch")), "\n");
}

std::string KeptText(const JobSpec& job) {
  const bool has_best = job.data.has_eval() && job.checkpoint.best != kNoBest;
  return absl::StrCat("keeping ", job.checkpoint.keep, has_best ? " and the best by " + job.checkpoint.best : "");
}

std::string CheckpointTimes(const CheckpointSpec& checkpoint) {
  if (!checkpoint.every) {
    return absl::StrFormat("as often as they take %.0f %% of the throughput at most, %s to %s apart",
                           100 * CheckpointInterval::kMostShare, HumanSeconds(Seconds(CheckpointInterval::kLeast)),
                           HumanSeconds(Seconds(CheckpointInterval::kMost)));
  }
  return *checkpoint.every == Duration::zero() ? "at the end" : "every " + HumanSeconds(Seconds(*checkpoint.every));
}

}  // namespace

std::string JobSummary(const JobSpec& job, const DataFacts& facts) {
  const SliceGrid grid = *GridOf(job.model, job.training.wire);
  const CheckpointSpec& checkpoint = job.checkpoint;
  std::string text = absl::StrCat(
      "Job           ", job.name, ", seed ", job.seed, "\nCluster       ", job.cluster.scale_tier, ": 1 chief, ",
      Count(job.cluster.parameter_server_count, "parameter server"), ", ", Count(job.cluster.worker_count, "worker"),
      "\n", ModelText(grid), TablesText(job.model), ServersText(job, grid), TrainingText(job, grid, facts),
      EvaluationText(job, facts), "Checkpoints   ", CheckpointTimes(checkpoint), ", ", KeptText(job), ", written by ",
      checkpoint.via == CheckpointVia::kChief ? "the chief" : "the servers into a shared folder", "\n");
  if (!facts.initial_values.empty()) absl::StrAppend(&text, "Begins with   ", facts.initial_values, "\n");
  for (const std::string& file : facts.absent) {
    absl::StrAppend(&text, "Not here      ", file, "; the workers' hosts must have it\n");
  }
  return text;
}

nlohmann::json JobSummaryJson(const JobSpec& job, const DataFacts& facts) {
  const SliceGrid grid = *GridOf(job.model, job.training.wire);
  const int slots = SlotCount(job.training);
  nlohmann::json servers = nlohmann::json::array();
  for (const ServerLoad& load : LoadsOf(job, grid)) {
    servers.push_back({{"slices", load.slices},
                       {"valueBytes", load.bytes},
                       {"slotBytes", load.bytes * slots},
                       {"roundedBytes", load.rounded}});
    if (grid.buckets > 0) servers.back()["buckets"] = load.buckets;
  }
  nlohmann::json summary = {{"job", nlohmann::json::parse(CanonicalJob(job))},
                            {"slices", grid.dense()},
                            {"servers", std::move(servers)},
                            {"residualBytes", ResidualBytes(grid)},
                            {"absentFiles", facts.absent}};
  if (grid.buckets > 0) summary["buckets"] = grid.buckets;
  if (!facts.initial_values.empty()) summary["initialValues"] = facts.initial_values;
  if (facts.eval_examples) summary["evalExamples"] = *facts.eval_examples;
  if (facts.train_examples) {
    const Plan plan(job, *facts.train_examples);
    summary["trainExamples"] = *facts.train_examples;
    summary["leases"] = plan.total_leases();
    summary["steps"] = plan.total_steps();
  }
  return summary;
}

}  // namespace downpour
