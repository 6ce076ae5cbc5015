#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "checkpoint/table_reader.h"
#include "cluster/human_units.h"
#include "cluster/output_options.h"
#include "job/job_file.h"
#include "model/trainer.h"
#include "runtime/metrics.h"
#include "runtime/posix/job_file.h"
#include "tensor/host_backend.h"
#include "tools/cli/checkpoint_option.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct EvaluateOptions {
  CheckpointOption checkpoint;
  std::vector<std::string> overrides;
  bool json = false;
};

// The last word of a request of which one answer is wanted.
template <typename Result>
absl::StatusOr<Result> Ask(Computer& computer, const ComputeRequest& request) {
  absl::StatusOr<Result> answer = absl::InternalError("the device did not answer");
  computer.Run(request, [&](absl::Status status, ComputeResult result) {
    if (!status.ok()) {
      answer = status;
    } else if (auto* wanted = std::get_if<Result>(&result)) {
      answer = std::move(*wanted);
    }
  });
  return answer;
}

// The rows that these batches read, out of their buckets.
absl::StatusOr<SliceValues> RowsFor(const EvalStep& step, const SliceGrid& grid, const std::vector<BucketRows>& buckets,
                                    Computer& computer) {
  const auto found =
      Ask<KeysFound>(computer, FindKeys{.step = {}, .first_batch = step.first_batch, .batches = step.batches});
  if (!found.ok()) return found.status();
  SliceValues rows;
  for (const auto& [id, keys] : found->keys) {
    const absl::StatusOr<RowKeys> wanted = UnpackKeys(keys, grid.row_widths);
    if (!wanted.ok()) return wanted.status();
    rows.emplace_back(id, buckets[grid.at(id).offset].Gather(*wanted));
  }
  return rows;
}

absl::StatusOr<Evaluated> Evaluate(const JobSpec& job, LoadedCheckpoint& checkpoint) {
  Prepare prepare{job};
  prepare.job.data.train = job.data.eval;         // so that the training data need not be here
  prepare.job.training.wire = WireFormat::kFp32;  // as which a checkpoint holds its values
  Trainer trainer(MakeHostBackend({}));
  const absl::StatusOr<Prepared> prepared = Ask<Prepared>(trainer, prepare);
  if (!prepared.ok()) return prepared.status();

  const absl::StatusOr<std::vector<BucketRows>> buckets = LoadBuckets(checkpoint);
  if (!buckets.ok()) return buckets.status();

  const auto batch = static_cast<uint64_t>(job.training.batch_size);
  const uint64_t batches = (prepared->eval_examples + batch - 1) / batch;
  EvalStep step;
  for (size_t s = 0; s < checkpoint.grid.dense(); ++s) {
    step.updates.emplace_back(checkpoint.grid.slices[s].id, std::move(checkpoint.slices[s].values));
  }
  // With tables a batch at a time, so that no more rows than one batch reads are held twice.
  const uint64_t at_once = buckets->empty() ? batches : 1;
  Evaluated all;
  for (; step.first_batch < batches; step.first_batch += at_once) {
    step.batches = at_once;
    absl::StatusOr<SliceValues> rows = RowsFor(step, checkpoint.grid, *buckets, trainer);
    if (!rows.ok()) return rows.status();
    std::move(rows->begin(), rows->end(), std::back_inserter(step.updates));
    const absl::StatusOr<Evaluated> some = Ask<Evaluated>(trainer, step);
    if (!some.ok()) return some.status();
    all.Add(*some);
    step.updates.clear();  // the device keeps its parameters
  }
  return all;
}

void PrintEvaluated(const JobSpec& job, const LoadedCheckpoint& checkpoint, const Evaluated& result, bool as_json,
                    std::ostream& out) {
  const auto [oldest, newest] =
      std::minmax_element(checkpoint.slices.begin(), checkpoint.slices.end(),
                          [](const SliceState& a, const SliceState& b) { return a.version < b.version; });
  const auto examples = static_cast<double>(result.examples);
  const bool is_weighted = job.data.counts_weights();
  const double weight = is_weighted ? result.weight : examples;
  const double right = is_weighted ? result.right : static_cast<double>(result.correct);
  const double loss = MeanOver(weight, result.loss_sum), accuracy = MeanOver(weight, right);
  const auto metrics = MetricValues(job.training.metrics, result.metric_sums, weight);
  if (as_json) {
    nlohmann::json json = {{"checkpoint", ToString(checkpoint.manifest.round)},
                           {"loss", loss},
                           {"examples", result.examples},
                           {"oldestVersion", oldest->version},
                           {"newestVersion", newest->version}};
    if (job.model.has_accuracy()) json["accuracy"] = accuracy;
    for (const auto& [name, value] : metrics) {
      if (std::isfinite(value)) json["metrics"][name] = value;
    }
    out << json.dump(2) << "\n";
    return;
  }
  out << "Checkpoint  " << checkpoint.path << "\nExamples    " << HumanCount(examples) << "\nLoss        "
      << HumanLoss(loss);
  if (job.model.has_accuracy()) out << "\nAccuracy    " << HumanPercent(accuracy, 2);
  for (const auto& [name, value] : metrics) {
    out << "\n" << absl::StrFormat("%-10s", name) << "  " << (std::isfinite(value) ? HumanLoss(value) : "not defined");
  }
  out << "\nVersions    " << HumanCount(static_cast<double>(oldest->version)) << " to "
      << HumanCount(static_cast<double>(newest->version)) << "\n";
}

int RunEvaluate(const EvaluateOptions& options, Streams streams) {
  std::optional<LoadedCheckpoint> checkpoint = LoadChosen(options.checkpoint, "evaluate", streams);
  if (!checkpoint) return kExitFailed;
  const auto read = [](const std::string& named, bool) { return ReadNamedText(named); };
  JobFileResult job =
      ParseJob(checkpoint->manifest.job, absl::StrCat(checkpoint->path, "/", kManifestName), options.overrides, read);
  for (const JobError& error : job.errors) streams.err << ToString(error) << "\n";
  if (!job.ok()) return kExitBadJobFile;
  const std::string here = std::filesystem::current_path().string();
  ResolveDataPaths(here, here, &job);
  if (job.job.model != checkpoint->job.model) {
    return Complain(streams, "evaluate", "--set must not change the model that the checkpoint holds", kExitBadJobFile);
  }
  if (job.job.data.format == kPythonFormat) {
    return Complain(streams, "evaluate",
                    "only workers run the job's Python code: its last evaluation stands in `downpour status`, and its "
                    "values can be had by `downpour export`",
                    kExitBadJobFile);
  }
  if (job.job.data.eval.empty()) {
    return Complain(
        streams, "evaluate",
        job.job.data.has_records()
            ? "the job names no data.eval; name one by --set data.eval=PATH"
            : "the job names no data.eval; name one by --set data.eval.images=PATH --set data.eval.labels=PATH",
        kExitBadJobFile);
  }
  const absl::StatusOr<Evaluated> result = Evaluate(job.job, *checkpoint);
  if (!result.ok()) return Complain(streams, "evaluate", std::string(result.status().message()), kExitFailed);
  if (result->examples == 0) return Complain(streams, "evaluate", "the evaluation data hold no examples", kExitFailed);
  PrintEvaluated(job.job, *checkpoint, *result, options.json, streams.out);
  return kExitDone;
}

std::function<int()> SetUpEvaluate(CLI::App& app, Streams streams) {
  auto options = std::make_shared<EvaluateOptions>();
  AddCheckpointOption(app, &options->checkpoint);
  app.add_option("--set", options->overrides, "Override an entry of the job: data.eval.images=PATH")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  AddFormatOption(app, "table or json", &options->json);
  return [options, streams] { return RunEvaluate(*options, streams); };
}

}  // namespace

const Verb kEvaluateVerb = {
    "evaluate", "Evaluate the parameters of a checkpoint on this machine",
    "  downpour evaluate --job-dir runs/first\n"
    "  downpour evaluate --job-dir runs/first --checkpoint best -o json\n"
    "  downpour evaluate --job-dir runs/first --set data.eval.images=mine/images-idx3-ubyte \\\n"
    "                    --set data.eval.labels=mine/labels-idx1-ubyte\n",
    "0 done, 1 there is no valid checkpoint, or the data cannot be read, 78 what --set gives does not fit",
    SetUpEvaluate};

}  // namespace downpour
