// JobPredictor: the model of a job file, computed on the host by the graph of training, with the rows of its tables in
// memory.
//
//   auto predictor = JobPredictor::Create(job, "runs/first/checkpoints/1-4", 65536);
//   status = (*predictor)->SetParameters(variable, offset, values);   // all of them, before anybody asks
//   (*predictor)->SetTables(std::move(rows));
//
// Shapes: with the loss softmaxCrossEntropy an answer is `probabilities` and the `class` of the largest, with
//   meanSquaredError and several outputs `scores` and `class`, and with one output `prediction`, in the units of the
//   label. Where the job has words for classes `label` is the first of the class's.
//   A batch has fewer than the most rows where their outputs would be more than 2^24 numbers.
//   IDX jobs have one input: the numbers of an image, 0 to 255, as their files have them.
// Cost: rows are computed in blocks whose layers fit a cache; each thread that asks at the same time takes the memory
//   of one block, and keeps it for the next.
// Threads: any, without a lock.
// Tests: tests/unit/predict/predictor_test.cc; tests/process/test_predict.py.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "model/embedding_readers.h"
#include "model/graph.h"
#include "predict/predictor.h"
#include "predict/record_inputs.h"
#include "predict/row_source.h"
#include "predict/table_rows.h"

namespace downpour {

class JobPredictor final : public Predictor {
 public:
  // Errors: those of InferVariables.
  static absl::StatusOr<std::unique_ptr<JobPredictor>> Create(const JobSpec& job, std::string origin, size_t most_rows);
  ~JobPredictor() override;

  absl::Status SetParameters(size_t variable, int64_t offset, absl::Span<const float> values);
  void SetTables(std::vector<TableRows> tables) { tables_ = std::move(tables); }
  // In their place: the rows of each block of a batch are fetched.
  void SetRowSource(std::shared_ptr<const RowSource> rows) { row_source_ = std::move(rows); }

  absl::StatusOr<OutputBatch> Predict(const InputBatch& batch) const override;
  const Signature& signature() const override { return signature_; }
  const std::string& model_name() const override { return name_; }
  const std::string& origin() const override { return origin_; }
  size_t most_rows() const override { return most_rows_; }
  const DataSpec* data() const override { return &data_; }
  uint64_t bytes_held() const override;

 private:
  struct Scratch;
  static constexpr size_t kKept = 64;  // of scratches that nobody uses

  JobPredictor(const JobSpec& job, std::string origin, size_t most_rows);
  void DescribeInputs(const JobSpec& job);
  void DescribeOutputs(const JobSpec& job);
  absl::StatusOr<std::unique_ptr<Scratch>> TakeScratch() const;
  void GiveBack(std::unique_ptr<Scratch> scratch) const;
  // Rows `first` and on into the graph's inputs.
  absl::Status Load(const MatchedColumns& from, size_t first, size_t rows, Scratch* scratch) const;
  absl::Status LoadImages(const InputColumn& column, size_t first, size_t rows, Scratch* scratch) const;
  absl::Status FetchRows(size_t rows, Scratch* scratch) const;
  void PoolRows(size_t rows, Scratch* scratch) const;
  absl::Status Compute(const MatchedColumns& from, size_t first, size_t rows, Scratch* scratch,
                       OutputBatch* answer) const;
  absl::Status Answer(ConstMatrix output, size_t first, OutputBatch* answer) const;
  OutputBatch RoomFor(size_t rows) const;

  const ModelSpec model_;
  const DataSpec data_;
  const std::string name_;
  const std::string origin_;
  size_t most_rows_;
  std::optional<RecordInputs> records_;  // nothing: images
  std::vector<EmbeddingReader> readers_;
  std::vector<TableRows> tables_;
  std::shared_ptr<const RowSource> row_source_;  // null: tables_ has them
  Signature signature_;
  std::vector<std::string> words_;  // of classes; empty: they have none
  int64_t outputs_ = 0;
  int64_t parameter_numbers_ = 0;
  size_t block_ = 1;  // rows
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Graph> parameters_;  // which the graphs of all scratches read
  mutable std::atomic<Scratch*> kept_[kKept] = {};
};

}  // namespace downpour
