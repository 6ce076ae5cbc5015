// Some rows of a table as files for other programs have them, and such a file in CSV.
//
//   ExportedRowsCsv file("users.csv", width);
//   file.Add(rows);
//   if (absl::Status status = file.Commit(); !status.ok()) return status;
//
// Shapes: a line of names (key, v0, v1, ...), then a line for each row, its values as short as they can be to be read
//   back the same; of a key whose row is gone nothing stands behind the commas.
// Errors: those of NewFile.
// Tests: tests/unit/tools/cli/verb_table_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tools/cli/new_file.h"

namespace downpour {

struct ExportedRows {
  std::vector<int64_t> ids;
  std::vector<float> values;  // of one row after the other
};

template <typename T>
absl::Span<const std::byte> AsBytes(const T& numbers) {
  return {reinterpret_cast<const std::byte*>(numbers.data()), numbers.size() * sizeof(numbers[0])};
}

class ExportedRowsCsv {
 public:
  ExportedRowsCsv(const std::string& path, size_t width);
  void Add(const ExportedRows& rows);
  void AddGone(absl::Span<const int64_t> ids);
  absl::Status Commit() { return file_.Commit(); }

 private:
  void Write(const std::string& text);

  NewFile file_;
  const size_t width_;
  uint64_t bytes_ = 0;
};

}  // namespace downpour
