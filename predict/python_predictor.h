// PythonPredictor: a model of the user's Python code, which answers in processes of its own (python_pool.h) with the
// values of a checkpoint.
//
//   auto predictor = PythonPredictor::Open(checkpoint, std::move(tables), "runs/own", how, 65536);
//
// Order: no process is there before the first question, which is that of WarmUp where one comes first.
// Cost: the parameters and the rows of tables are there once, whatever the number of processes.
// Errors: those of FindServedCode and of PythonPool.
// Tests: tests/process/test_predictions_python.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_reader.h"
#include "predict/predictor.h"
#include "predict/python_pool.h"

namespace downpour {

class PythonPredictor final : public Predictor, public InstancePredictor {
 public:
  // `job_dir`: whose folder python/ has the code.
  static absl::StatusOr<std::shared_ptr<PythonPredictor>> Open(const LoadedCheckpoint& checkpoint,
                                                               std::vector<TableRows> tables,
                                                               const std::string& job_dir, PythonServing how,
                                                               size_t most_rows);

  absl::StatusOr<OutputBatch> Predict(const InputBatch& batch) const override;
  absl::StatusOr<nlohmann::json> PredictInstances(std::string_view instances, size_t count) const override;
  absl::Status AnswerExample() const override { return pool_->Start(); }
  void End() const override { pool_->End(); }
  const InstancePredictor* instances() const override { return this; }
  const Signature& signature() const override { return signature_; }
  const std::string& model_name() const override { return pool_->model().job.name; }
  const std::string& origin() const override { return origin_; }
  size_t most_rows() const override { return most_rows_; }
  uint64_t bytes_held() const override { return bytes_held_; }

 private:
  PythonPredictor() = default;

  std::unique_ptr<PythonPool> pool_;
  Signature signature_;  // says nothing
  std::string origin_;
  size_t most_rows_ = 0;
  uint64_t bytes_held_ = 0;
};

}  // namespace downpour
