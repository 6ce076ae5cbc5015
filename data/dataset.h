// Examples by number, as named columns of one type each: what a worker's device reads its batches from.
//
//   auto data = OpenDataset(job.data, job.data.train);
//   const size_t wanted[] = {FindColumn(**data, "label").value()};
//   ColumnValues labels;
//   data->ReadBatch(ids, wanted, {&labels, 1});
//
// Shapes: of a column [ids.size(), width], row-major, in the type that its file has.
// Threads: reading is const and may happen on several threads.
// Errors: NOT_FOUND, DATA_LOSS (truncated, trailing bytes, a damaged gzip stream) or INVALID_ARGUMENT (wrong magic,
//   counts that disagree), always with file and offset.
// Tests: tests/unit/data/dataset_test.cc, idx_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "job/job.h"
#include "runtime/prng.h"
#include "schema/data_file.h"
#include "schema/guess.h"

namespace downpour {

inline constexpr char kLabelColumn[] = "label";
inline constexpr char kWeightColumn[] = ".weight";  // no column of a job has such a name

// In the order of ColumnValues.
enum class ColumnType { kBytes, kFloat, kInt64 };

struct Column {
  std::string name;
  ColumnType type = ColumnType::kFloat;
  int64_t width = 1;       // values of an example
  int64_t categories = 0;  // of kInt64: a value is from 0 to below it; 0: any
  bool operator==(const Column&) const = default;
};

// Of one column, for the examples of a batch.
using ColumnValues = std::variant<std::vector<uint8_t>, std::vector<float>, std::vector<int64_t>>;

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual uint64_t size() const = 0;
  virtual const std::vector<Column>& columns() const = 0;
  // Over every byte that training sees: two copies of one data set have the same, however they are compressed.
  virtual uint64_t fingerprint() const = 0;
  // The set's files in their order, of formats whose sets grow by further files. Of more than kMostFilesTold the last.
  virtual std::vector<DataFile> files() const { return {}; }

  // The columns are places in columns(); `values` get as many, in that order, each in its column's type. What memory
  // they have is used again. Errors: OUT_OF_RANGE for an id beyond size(); nothing is promised of the values then.
  virtual absl::Status ReadBatch(absl::Span<const uint64_t> ids, absl::Span<const size_t> columns,
                                 absl::Span<ColumnValues> values) const = 0;
  // Whether it gains by ReadAhead: not if all is in memory.
  virtual bool reads_ahead() const { return false; }
  // These will be read soon, so they may be decoded meanwhile, by threads of the set's own. What ReadBatch yields does
  // not depend on it, and ids beyond size() mean nothing.
  virtual void ReadAhead(absl::Span<const uint64_t>) const {}
};

std::optional<size_t> FindColumn(const Dataset& data, std::string_view name);

// Of a job's data, as errors and checkpoints name them; `eval`: null where it has none.
inline uint64_t FingerprintOf(const Dataset& train, const Dataset* eval) {
  return MixAll(train.fingerprint(), eval == nullptr ? 0 : eval->fingerprint());
}

// How many examples have each class: the column has one int64 for each example. As many counts as there are classes,
// the largest label + 1. Cost: reads the column.
// Errors: those of reading it; INVALID_ARGUMENT for a label that is not from 0 to `most` - 1.
absl::StatusOr<std::vector<uint64_t>> CountLabels(const Dataset& data, size_t column, uint64_t most = 1'000'000);

// `label_counts`: the examples of each label. `outputs`: of the model. With one a squared error takes labels for
// numbers. Not known where fewer than 30 examples have another label than the most frequent one. Of classes also where
// there are fewer than 50 examples for each class that occurs, on the mean.
Guess GuessOf(absl::Span<const uint64_t> label_counts, Loss loss, int64_t outputs);

// `data.format` is one of data/formats.cc; `files` are those of one set. Of formats with records the columns are
// data.columns, in their order, then kLabelColumn, and then kWeightColumn where data.weight names a field.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataSpec& data, const SetFiles& files);

}  // namespace downpour
