// What the columns of a CSV file have: types, counts, missing values, ranges.
//
//   absl::StatusOr<CsvStats> stats = StatsOf(*source, dialect);
//
// Cost: one pass; memory of kMostDistinct values of each column, of kMostDistinctOfAll at most, of kLongestDistinct
//   bytes each.
// Errors: those of CsvReader. A record with another number of fields than most is counted, and is none of the rows; so
//   names may stand behind a preamble.
// Tests: tests/unit/tools/cli/verb_data_test.cc, tests/process/test_data_files.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/csv.h"

namespace downpour {

inline constexpr size_t kMostDistinct = 1000;
inline constexpr size_t kMostDistinctOfAll = 500'000;
inline constexpr size_t kLongestDistinct = 256;

class ColumnStats {
 public:
  explicit ColumnStats(size_t most_distinct = kMostDistinct) : most_distinct_(most_distinct) {}
  void Add(std::string_view field);

  uint64_t missing() const { return missing_; }
  const char* type() const;  // int64, float or text; nothing of a column that is all missing
  bool has_numbers() const { return values_ > 0 && numbers_ == values_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const { return mean_; }
  double deviation() const;  // of the population
  // Values and how often each is there. Beyond the most that may be kept, and of longer ones, none is counted.
  const std::map<std::string, uint64_t, std::less<>>& distinct() const { return distinct_; }
  bool has_more() const { return has_more_; }  // than that

 private:
  size_t most_distinct_;
  uint64_t missing_ = 0, values_ = 0, integers_ = 0, numbers_ = 0;
  double least_ = 0, most_ = 0, mean_ = 0, squares_ = 0;
  std::map<std::string, uint64_t, std::less<>> distinct_;
  bool has_more_ = false;
};

// Records with another number of fields than most.
struct BadRecords {
  uint64_t count = 0;
  std::string first;  // its place, and what is wrong
};

struct CsvStats {
  uint64_t rows = 0;
  BadRecords bad;
  std::vector<std::string> names;  // of a file without, c0, c1 and so on
  std::vector<ColumnStats> columns;
};

absl::StatusOr<CsvStats> StatsOf(const ByteSource& source, const CsvDialect& dialect);

struct CsvHead {
  std::vector<std::string> names;  // as CsvStats has them
  std::vector<std::vector<std::string>> rows;
  BadRecords bad;  // before the last of the rows
};
// Of the first records, or fewer.
absl::StatusOr<CsvHead> HeadOf(const ByteSource& source, const CsvDialect& dialect, uint64_t records);

}  // namespace downpour
