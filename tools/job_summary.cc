#include "tools/job_summary.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "chief/placement.h"
#include "runtime/plan.h"
#include "runtime/world_time.h"
#include "schema/job_names.h"
#include "schema/slice_grid.h"
#include "tools/human_units.h"
#include "worker/data/idx.h"

namespace downpour {
namespace {

std::string Count(uint64_t n, const std::string& one) {
  return absl::StrCat(HumanCount(static_cast<double>(n)), " ", one, n == 1 ? "" : "s");
}

int64_t WidthOf(const std::vector<int64_t>& shape) {
  int64_t width = 1;
  for (int64_t size : shape) width *= size;
  return width;
}

// The examples of one pair of files.
std::optional<uint64_t> LookAtPair(const FilePair& files, int64_t width, DataFacts* facts) {
  const auto images = ReadIdxSizes(files.images, 3);
  const auto labels = ReadIdxSizes(files.labels, 1);
  for (const auto& [file, status] :
       {std::pair(files.images, images.status()), std::pair(files.labels, labels.status())}) {
    if (absl::IsNotFound(status)) {
      facts->absent.push_back(file);
    } else if (!status.ok()) {
      facts->errors.push_back(std::string(status.message()));
    }
  }
  if (!images.ok() || !labels.ok()) return std::nullopt;
  const std::vector<uint32_t>& sizes = *images;
  if (sizes[0] != labels->at(0)) {
    facts->errors.push_back(
        absl::StrCat(files.images, " holds ", sizes[0], " images, but ", files.labels, " ", labels->at(0), " labels"));
  }
  if (int64_t{sizes[1]} * sizes[2] != width) {
    facts->errors.push_back(absl::StrCat(files.images, " holds images of ", sizes[1], "x", sizes[2],
                                         ", but the model's input takes ", width, " values"));
  }
  return sizes[0];
}

std::string ModelText(const SliceGrid& grid) {
  int64_t parameters = 0;
  std::vector<int64_t> slices(grid.variables.size());
  for (const Slice& slice : grid.slices) ++slices[slice.variable];
  std::string lines;
  for (size_t v = 0; v < grid.variables.size(); ++v) {
    const VariableSpec& variable = grid.variables[v];
    parameters += variable.elements();
    absl::StrAppendFormat(&lines, "              %-24s %-16s %10s  %s\n", variable.name,
                          "[" + absl::StrJoin(variable.shape, ", ") + "]",
                          HumanBytes(4.0 * static_cast<double>(variable.elements())), Count(slices[v], "slice"));
  }
  return absl::StrCat("Model         ", Count(parameters, "parameter"), " in ",
                      Count(grid.variables.size(), "variable"), ", ", Count(grid.size(), "slice"), "\n", lines);
}

std::string ServersText(const JobSpec& job, const SliceGrid& grid) {
  const int slots = SlotCount(job.training.optimizer.kind);
  const auto servers = static_cast<uint32_t>(job.cluster.parameter_server_count);
  std::vector<int64_t> bytes(servers), slices(servers);
  const std::vector<uint32_t> placement = PlaceSlices(grid, servers);
  for (const Slice& slice : grid.slices) {
    bytes[placement[ToNumber(slice.id)]] += slice.bytes();
    ++slices[placement[ToNumber(slice.id)]];
  }
  std::string text = "Servers";
  for (uint32_t s = 0; s < servers; ++s) {
    const auto values = static_cast<double>(bytes[s]);
    absl::StrAppend(&text, s == 0 ? "       " : "              ", "ps-", s, ": ", Count(slices[s], "slice"), ", ",
                    HumanBytes(values * (1 + slots)), " (values ", HumanBytes(values), ", optimizer's slots ",
                    HumanBytes(values * slots), ")\n");
  }
  return text;
}

std::string TrainingText(const JobSpec& job, const DataFacts& facts) {
  const TrainingSpec& training = job.training;
  std::string text =
      absl::StrCat("Training      ", NameIn(kConsistencies, training.consistency), ", ",
                   NameIn(kOptimizers, training.optimizer.kind), " at ", training.optimizer.learning_rate,
                   ", batches of ", training.batch_size, ", ", Count(training.epochs, "epoch"), "\n");
  if (facts.train_examples) {
    const Plan plan(job, *facts.train_examples);
    absl::StrAppend(&text, "              ", Count(*facts.train_examples, "example"), ": ",
                    Count(plan.batches_per_epoch(), "step"), " in ", Count(plan.leases_per_epoch(), "lease"),
                    " per epoch, ", Count(plan.total_steps(), "step"), " in all\n");
  }
  return text;
}

std::string EvaluationText(const JobSpec& job, const DataFacts& facts) {
  if (job.data.eval.empty()) return "Evaluation    none: the job names no data.eval\n";
  const int64_t every = job.training.evaluate_every_epochs;
  return absl::StrCat(
      "Evaluation    ", facts.eval_examples ? "on " + Count(*facts.eval_examples, "example") + ", " : "",
      every == 0 ? "at the end" : "after every " + (every == 1 ? "epoch" : Count(every, "epoch")), "\n");
}

}  // namespace

DataFacts LookAtData(const JobSpec& job) {
  DataFacts facts;
  const int64_t width = WidthOf(job.model.inputs[0].shape);
  facts.train_examples = LookAtPair(job.data.train, width, &facts);
  if (facts.train_examples == 0u) facts.errors.push_back(job.data.train.images + " holds no examples");
  if (!job.data.eval.empty()) facts.eval_examples = LookAtPair(job.data.eval, width, &facts);
  return facts;
}

std::string JobSummary(const JobSpec& job, const DataFacts& facts) {
  const SliceGrid grid = *GridOf(job.model);
  const CheckpointSpec& checkpoint = job.checkpoint;
  std::string text =
      absl::StrCat("Job           ", job.name, ", seed ", job.seed, "\nCluster       ", job.cluster.scale_tier,
                   ": 1 chief, ", Count(job.cluster.parameter_server_count, "parameter server"), ", ",
                   Count(job.cluster.worker_count, "worker"), "\n", ModelText(grid), ServersText(job, grid),
                   TrainingText(job, facts), EvaluationText(job, facts), "Checkpoints   ",
                   checkpoint.every.count() == 0 ? "at the end" : "every " + HumanSeconds(Seconds(checkpoint.every)),
                   ", keeping ", checkpoint.keep, ", written by ",
                   checkpoint.via == CheckpointVia::kChief ? "the chief" : "the servers into a shared folder", "\n");
  for (const std::string& file : facts.absent) {
    absl::StrAppend(&text, "Not here      ", file, "; the workers' hosts must have it\n");
  }
  return text;
}

}  // namespace downpour
