// InputBatch and OutputBatch: what a model is asked, and what it answers.
//
//   const FieldValue ages[] = {39.0, 50.0}, jobs[] = {std::string_view("Private"), std::monostate()};
//   InputBatch batch{2, {{"age", 1, ages}, {"job", 1, jobs}}};
//   auto answer = predictor.Predict(batch);
//   const OutputColumn* classes = answer->Find("class");
//
// Shapes: a column has `rows` times `width` values, row by row. Columns are named as the inputs of the model's
//   signature, which are the fields of the records that it was trained on; they may come in any order.
// Threads: plain values. Inputs are views: what they point to outlives the batch. Texts of outputs belong to the
//   predictor, which outlives them, or to the batch.
// Tests: tests/unit/predict/batch_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "data/record_format.h"

namespace downpour {

// FieldValue: one of each row, of any kind each, as a record of the data has it: nothing, a number, a text, a truth, or
// a list; `width` is 1 then. The others have numbers or texts side by side and nothing that is missing, but a NaN is
// missing too.
using InputValues = std::variant<absl::Span<const FieldValue>, absl::Span<const float>, absl::Span<const double>,
                                 absl::Span<const int64_t>, absl::Span<const std::string_view>>;

struct InputColumn {
  std::string_view name;
  int64_t width = 1;  // values of a row
  InputValues values;
  std::vector<int64_t> row_shape = {};  // as it came, whose product is `width`; empty: {width}, of 1 a single value
};

struct InputBatch {
  size_t rows = 0;
  std::vector<InputColumn> columns = {};
  // Asked before each block of rows, of which `first` is the first. An error of it is the answer. Empty: all are
  // computed. Models of Python code are not computed in blocks (python_pool.h), and do not ask.
  std::function<absl::Status(size_t first)> may_go_on = {};
};

using OutputValues = std::variant<std::vector<float>, std::vector<int64_t>, std::vector<std::string_view>>;

struct OutputColumn {
  std::string name;
  int64_t width = 1;
  OutputValues values;
};

struct OutputBatch {
  size_t rows = 0;
  std::vector<OutputColumn> columns = {};  // those of the signature, in its order
  std::shared_ptr<const void> texts = {};  // what its texts point to, if that is not the predictor's

  const OutputColumn* Find(std::string_view name) const;  // null: there is none
};

}  // namespace downpour
