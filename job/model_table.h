// What a job file says of its tables: rows of numbers by 64-bit keys, which grow as keys come (docs/TABLES.md), and the
// layers that read them.
//
// Units: an embedding layer yields of each example [columns, width], or [width] where it has one column or adds them
//   up. Keys of a category are its numbers; a column of kind key has any. A column that several layers or tables read
//   is read once.
// Tests: tests/unit/job/job_tables_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/optimizer_spec.h"

namespace downpour {

inline constexpr int64_t kMostTableWidth = 4096;
inline constexpr int64_t kMostTables = 256;
inline constexpr int64_t kMostTableBuckets = 4096;
// At least 4 for each of 8 parameter servers, and few enough that a push of a small step stays small.
inline constexpr int64_t kDefaultTableBuckets = 32;

struct ModelTable {
  std::string name = {};
  int64_t width = 0;
  OptimizerSpec optimizer = DefaultsOf(OptimizerKind::kAdagrad);  // sgd, adagrad, adam or ftrl; it has no overrides
  bool row_wise = false;                                          // of adagrad: one sum of squares for a row
  double initial = 0.05;                                          // a row begins with draws of U(-initial, initial)
  int64_t admit_after = 1;                                        // which push of a key gives birth to its row
  int64_t evict_after = 0;  // a row that none of so many steps has is forgotten; 0: none ever is
  int64_t max_rows = 0;     // of the whole table; 0: without limit
  bool halves = false;      // values are kept as bfloat16
  bool operator==(const ModelTable&) const = default;
};

// How the rows of one column's keys become one: with several keys in an example, or none.
enum class Pooling { kSum, kMean, kSqrtN };

struct EmbeddingSpec {
  std::string table = {};
  std::vector<std::string> columns = {};
  Pooling pooling = Pooling::kSum;
  bool adds = false;  // what the columns yield is added up, not laid side by side
  bool operator==(const EmbeddingSpec&) const = default;
};

}  // namespace downpour
