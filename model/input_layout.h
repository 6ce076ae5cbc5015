// InputLayout: where the columns of records lie among the floats of an example.
//
//   const InputLayout layout(job.model, reader.columns());
//   layout.Expand(values, examples, to);   // values of layout.columns()
//
// Shapes: an input has its columns in the job's order; a number is itself, a category one-hot. Behind the inputs is
//   room for what embedding layers yield, which Expand leaves as it is.
// Tests: tests/unit/model/examples_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "data/dataset.h"
#include "job/job.h"

namespace downpour {

class InputLayout {
 public:
  InputLayout() = default;
  // CHECKs that the model's columns, which the parser holds against the data's, are there.
  InputLayout(const ModelSpec& model, absl::Span<const Column> columns);

  // Places in the columns that were given: those of the inputs, in the order of the inputs, then those of keys.
  const std::vector<size_t>& columns() const { return columns_; }
  size_t input_columns() const { return places_.size(); }  // how many of these are the inputs'
  int64_t inputs_width() const { return inputs_width_; }
  int64_t width() const { return width_; }  // with what embedding layers yield

  // `values`: of columns(), of so many examples each. `to` has a row of width() floats for each.
  void Expand(absl::Span<const ColumnValues> values, size_t examples, float* to) const;

 private:
  struct Place {
    int64_t first = 0;
    int64_t width = 1;
  };

  std::vector<size_t> columns_;
  std::vector<Place> places_;
  int64_t inputs_width_ = 0;
  int64_t width_ = 0;
};

}  // namespace downpour
