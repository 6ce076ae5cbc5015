// RankOne: a matrix of rank one, over a run of a matrix's row-major elements.
//
// Shapes: `left` has an element for each row that the run touches, `right` one for each column. So the first and the
//   last row may be parts of rows.
// Tests: tests/unit/tensor/deflation_test.cc, tests/unit/tensor/apply_kernels_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>

namespace downpour {

// How a slice lies in a matrix.
struct MatrixRun {
  size_t columns = 1;
  size_t lead = 0;  // the first element's column

  size_t RowsOf(size_t elements) const { return (lead + elements + columns - 1) / columns; }
};

// At row r and column c it is left[r] * right[c]. All zeros where it refers to nothing.
struct RankOne {
  MatrixRun run;
  const float* left = nullptr;
  const float* right = nullptr;
  double most = 0;  // no element has a larger magnitude, before it is rounded

  // For what begins `begin` elements later.
  RankOne From(size_t begin) const {
    if (left == nullptr) return *this;
    const size_t place = run.lead + begin;
    return {{run.columns, place % run.columns}, left + place / run.columns, right, most};
  }
};

// Whole rows that follow each other, or a part of one.
struct Rows {
  size_t index;
  size_t begin;  // among the elements
  size_t column;
  size_t size;   // of each
  size_t count;  // 1, or as many as are asked for
};

// Visits `elements` in their order, `abreast` rows at a time where so many are whole.
template <class Visit>
void ForEachRows(const MatrixRun& run, size_t elements, size_t abreast, const Visit& visit) {
  size_t column = run.lead, index = 0;
  for (size_t begin = 0; begin < elements; column = 0) {
    const size_t size = std::min(run.columns - column, elements - begin);
    const bool is_abreast = column == 0 && elements - begin >= abreast * run.columns;
    const Rows rows = {index, begin, column, size, is_abreast ? abreast : 1};
    visit(rows);
    begin += rows.count * size;
    index += rows.count;
  }
}

}  // namespace downpour
