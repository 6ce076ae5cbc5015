// TableRows: the values of a table's rows by key, as a checkpoint has them, to be read alone.
//
//   TableRows rows(spec);
//   for (each row) rows.Count(key);
//   if (absl::Status status = rows.Allocate(); !status.ok()) return status;
//   for (each row, in any order) status = rows.Add(key, content);
//   status = rows.Finish();
//   const float* values = rows.Find(key, scratch);          // of a key that has no row: its initial values
//
// Shapes: rows lie in 2^16 groups by the first 16 bits of a permutation of their keys, ascending by the other 48, so a
//   key takes 6 bytes: with 16 floats a row all is 1.1 times the values. Rows of bfloat16 take half.
// Cost: the place of a key among its group is near its share of the group's range, so a lookup reads a line of the
//   groups, one or two of keys, and the row.
// Errors: RESOURCE_EXHAUSTED where there is no memory; INVALID_ARGUMENT for a row that was not counted, and for one
//   that comes twice.
// Threads: Find may be called by any.
// Tests: tests/unit/predict/table_rows_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "ps/table/table_spec.h"
#include "tensor/row_kernels.h"

namespace downpour {

class TableRows {
 public:
  explicit TableRows(const TableSpec& spec);

  void Count(uint64_t key);
  absl::Status Allocate();
  // `content`: as a part of a bucket's record has it, of which the values alone are kept.
  absl::Status Add(uint64_t key, const std::byte* content);
  absl::Status Finish();

  // spec().width values, in `scratch` where they do not lie as such. It has room for them.
  const float* Find(uint64_t key, float* scratch) const;
  // What Find reads first.
  void Prefetch(uint64_t key) const;

  const TableSpec& spec() const { return spec_; }
  uint64_t rows() const { return rows_; }
  uint64_t bytes() const;

 private:
  uint64_t RestAt(uint64_t place) const;
  void PutRest(uint64_t place, uint64_t rest);
  absl::Status SortGroup(uint64_t begin, uint64_t end);

  TableSpec spec_;
  RowShape shape_;
  size_t row_bytes_;
  uint64_t rows_ = 0;           // that were counted
  uint64_t added_ = 0;          // of these
  std::vector<uint64_t> ends_;  // of groups, behind a 0; while rows are added, where the next of each group goes
  std::unique_ptr<std::byte[]> rests_;   // 6 bytes of each key
  std::unique_ptr<std::byte[]> values_;  // of rows of row_bytes_
};

}  // namespace downpour
