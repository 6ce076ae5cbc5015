#include "predict/python_predictor.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "predict/instance_json.h"
#include "worker/python/child_memory.h"

namespace downpour {
namespace {

// The parameters, and behind them a region that nobody writes, since a process wants one for gradients too.
absl::StatusOr<SharedBytes> ShareParameters(const LoadedCheckpoint& checkpoint, const ChildMemory& layout) {
  absl::StatusOr<SharedBytes> memory = SharedBytes::Make(2 * layout.region);
  if (!memory.ok()) return memory;
  for (size_t i = 0; i < checkpoint.grid.dense(); ++i) {
    const Slice& slice = checkpoint.grid.slices[i];
    const auto values = checkpoint.slices[i].values.floats();
    std::byte* const to = memory->at().get() + layout.offsets[slice.variable];
    std::memcpy(to + static_cast<size_t>(slice.offset) * sizeof(float), values.data(), values.size() * sizeof(float));
  }
  return memory;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PythonPredictor>> PythonPredictor::Open(const LoadedCheckpoint& checkpoint,
                                                                       std::vector<TableRows> tables,
                                                                       const std::string& job_dir, PythonServing how,
                                                                       size_t most_rows) {
  if (how.code_folder.empty()) how.code_folder = DefaultCodeFolder();
  absl::StatusOr<ServedCode> code = FindServedCode(job_dir, checkpoint.job, how.code_folder);
  if (!code.ok()) return code.status();
  const ChildMemory layout(checkpoint.grid.variables);
  absl::StatusOr<SharedBytes> memory = ShareParameters(checkpoint, layout);
  if (!memory.ok()) return memory.status();
  const std::shared_ptr<PythonPredictor> predictor(new PythonPredictor);
  predictor->origin_ = checkpoint.path;
  predictor->most_rows_ = most_rows;
  predictor->bytes_held_ = layout.region;
  for (const TableRows& table : tables) predictor->bytes_held_ += table.bytes();
  predictor->pool_ = std::make_unique<PythonPool>(PythonPool::Model{.job = checkpoint.job,
                                                                    .grid = checkpoint.grid,
                                                                    .code = *std::move(code),
                                                                    .memory = *std::move(memory),
                                                                    .tables = std::move(tables)},
                                                  std::move(how));
  return predictor;
}

absl::StatusOr<nlohmann::json> PythonPredictor::PredictInstances(std::string_view instances, size_t count) const {
  if (count > most_rows_) return TooManyRows(most_rows_);
  if (absl::Status started = pool_->Start(); !started.ok()) return started;
  absl::StatusOr<nlohmann::json> predicted =
      pool_->Ask(absl::StrCat("{\"predict\":{\"instances\":", std::string(instances), "}}"));
  if (!predicted.ok()) return predicted;
  return predicted->value("predictions", nlohmann::json());
}

absl::StatusOr<OutputBatch> PythonPredictor::Predict(const InputBatch& batch) const {
  const absl::StatusOr<std::string> instances = InstancesOf(batch);
  if (!instances.ok()) return instances.status();
  absl::StatusOr<nlohmann::json> predictions = AskInstances(*this, *instances, batch.rows);
  if (!predictions.ok()) return predictions.status();
  return BatchOf(*std::move(predictions));
}

}  // namespace downpour
