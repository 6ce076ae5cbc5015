#include "tools/cli/job_warnings.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "schema/text.h"
#include "tools/cli/learning_facts.h"

namespace downpour {
namespace {

std::optional<JobError> IdleServers(const JobFileResult& read) {
  const absl::StatusOr<SliceGrid> grid = GridOf(read.job.model, read.job.training.wire);
  const int64_t servers = read.job.cluster.parameter_server_count;
  if (!grid.ok() || static_cast<int64_t>(grid->size()) >= servers) return std::nullopt;
  const auto slices = static_cast<int64_t>(grid->size());
  return PlacedAt(read, "cluster.parameterServerCount",
                  absl::StrCat(Counted(servers, "parameter server"), " for a model of ", Counted(slices, "slice"), ": ",
                               Counted(servers - slices, "server"), " would hold nothing"),
                  absl::StrCat("take ", slices, " at most"));
}

std::optional<JobError> CrowdedEpochs(const JobFileResult& read, const Plan& plan) {
  const auto workers = static_cast<uint64_t>(read.job.cluster.worker_count);
  const uint64_t leases = plan.leases_per_epoch();
  if (workers <= leases) return std::nullopt;
  const TrainingSpec& training = read.job.training;
  const bool is_async = training.consistency == Consistency::kAsync;
  const uint64_t fitting = plan.total_batches() / static_cast<uint64_t>(training.epochs) / workers;
  const bool may_be_cut = is_async && fitting >= static_cast<uint64_t>(training.step_batches());  // no step is divided
  return PlacedAt(
      read, "cluster.workerCount",
      absl::StrCat(Counted(workers, "worker"), " share ", Counted(leases, "lease"), " an epoch: ",
                   is_async && training.epochs > 1 ? "they compute several epochs at once"
                                                   : absl::StrCat("at most ", leases, " have work at once")),
      absl::StrCat("take ", Counted(leases, "worker"), " at most",
                   may_be_cut ? absl::StrCat(", or --set training.leaseBatches=", fitting) : ""));
}

std::optional<JobError> BatchOfAll(const JobFileResult& read, const Plan& plan) {
  constexpr uint64_t kUsual = 64;
  if (static_cast<uint64_t>(read.job.training.batch_size) <= plan.train_examples()) return std::nullopt;
  return PlacedAt(read, "training.batchSize",
                  absl::StrCat("a batch of ", read.job.training.batch_size, " takes all ",
                               Counted(plan.train_examples(), "example"), ": an epoch is one step"),
                  absl::StrCat("take a smaller one", plan.train_examples() > kUsual ? ", such as 64" : ""));
}

}  // namespace

std::vector<JobError> WarningsOf(const JobFileResult& read, const DataFacts& facts) {
  std::vector<JobError> warnings = facts.warnings;
  if (!read.ok()) return warnings;
  const auto add = [&](std::optional<JobError> warning) {
    if (warning) warnings.push_back(*std::move(warning));
  };
  for (JobError& warning : UnstableSettings(read)) warnings.push_back(std::move(warning));
  add(IdleServers(read));
  if (!facts.train_examples) return warnings;
  const Plan plan(read.job, *facts.train_examples);
  add(WarmupBeyondTheEnd(read, *facts.train_examples));
  add(CrowdedEpochs(read, plan));
  add(BatchOfAll(read, plan));
  return warnings;
}

std::vector<JobError> TellWarnings(const std::string& verb, const JobFileResult& read, const DataFacts& facts,
                                   Streams streams) {
  std::vector<JobError> warnings = WarningsOf(read, facts);
  for (const JobError& warning : warnings) {
    streams.err << "downpour " << verb << ": warning: " << ToString(warning) << "\n";
  }
  return warnings;
}

}  // namespace downpour
