// The examples of a set as a model takes them: its inputs side by side, the keys of its tables, and labels.
//
//   auto train = Examples::Open(job.data, job.data.train, job.model);
//   ExampleBatch batch;
//   status = train->Read(ids, &batch);
//   status = graph.LoadBatch(batch.inputs(), batch.classes, batch.numbers, batch.weights);
//
// Shapes: of data with records as input_layout.h has it; what embedding layers yield their rows' holder fills in
//   (embedding_rows.h). Of IDX an example is its image, bytes as they lie.
// Cost: of opening what OpenDataset costs; labels are counted in one pass over IDX, and over a sample of records:
//   kMostCounted examples, in runs spread over the whole set.
// Errors: the data set's, with file and place.
// Threads: reading is const and may happen on several threads, each with a batch of its own.
// Tests: tests/unit/model/examples_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "job/job.h"
#include "model/batch_memory.h"
#include "model/input_layout.h"

namespace downpour {

struct ExampleBatch {
  std::vector<int32_t> classes;  // of each example; where numbers are learned, 0
  std::vector<float> numbers;    // likewise, of sets of classes a row; empty where classes are learned
  std::vector<float> weights;    // likewise; empty where each counts as 1
  BatchInputs inputs() const;

  std::vector<ColumnValues> columns;  // as they were read; those of the inputs, of keys, then label and weight
  std::vector<float> expanded;        // of columns that are not one alone
};

class Examples {
 public:
  static constexpr uint64_t kMostCounted = uint64_t{1} << 16;

  static absl::StatusOr<Examples> Open(const DataSpec& data, const SetFiles& files, const ModelSpec& model);

  const Dataset& data() const { return *data_; }
  uint64_t size() const { return data_->size(); }
  int64_t width() const { return width_; }
  int64_t inputs_width() const { return inputs_width_; }  // of which so many are the inputs'
  // Those that KeyColumnsOf(model) names.
  absl::Span<const ColumnValues> KeysOf(const ExampleBatch& batch) const {
    const size_t before = layout_.input_columns();
    return absl::MakeConstSpan(batch.columns).subspan(before, label_ - before);
  }
  ExampleKind kind() const;
  // One more than the largest class that was counted; 0 where numbers are learned.
  int64_t classes() const { return static_cast<int64_t>(label_counts_.size()); }
  Guess GuessOf(const ModelSpec& model, int64_t outputs) const;

  absl::Status Read(absl::Span<const uint64_t> ids, ExampleBatch* batch) const;

 private:
  absl::Status FindColumns(const DataSpec& data, const ModelSpec& model);
  absl::Status LookAtLabels(const DataSpec& data);

  std::unique_ptr<Dataset> data_;
  std::vector<size_t> columns_;  // in data_; of records in the order of ExampleBatch
  size_t label_ = 0;             // which of them is the label
  InputLayout layout_;           // of records; of none where one column is all of an example
  bool is_one_alone_ = false;
  int64_t width_ = 0;
  int64_t inputs_width_ = 0;
  bool is_weighted_ = false, has_sets_ = false;
  std::vector<uint64_t> label_counts_;
  double variance_ = 0;  // of labels that are numbers
};

}  // namespace downpour
