// What the columns of a file of records have: types, counts, missing values, ranges. Here of CSV; record_stats.h has
// the other formats.
//
//   absl::StatusOr<TableStats> stats = StatsOf(*source, dialect);
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
#include "absl/types/span.h"
#include "data/csv.h"

namespace downpour {

inline constexpr size_t kMostDistinct = 1000;
inline constexpr size_t kMostDistinctOfAll = 500'000;
inline constexpr size_t kLongestDistinct = 256;

class ColumnStats {
 public:
  explicit ColumnStats(size_t most_distinct = kMostDistinct, char decimal = '.')
      : most_distinct_(most_distinct), decimal_(decimal) {}
  void Add(std::string_view field);
  void AddList(absl::Span<const double> numbers);  // NaN is missing

  uint64_t missing() const { return missing_; }
  // int64, float or text; float[784] or float[1-9] where there are lists; nothing of a column that is all missing.
  // What values stand before their fractions, and whether they would all be numbers with a comma there, which they are
  // not now.
  char decimal() const { return decimal_; }
  bool reads_with_commas() const { return values_ > numeric_ && values_ == numeric_ + with_comma_; }
  std::string type() const;
  bool has_numbers() const { return values_ > 0 && numeric_ == values_; }  // the next are of all of them
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const { return mean_; }
  double deviation() const;  // of the population
  // Values and how often each is there. Beyond the most that may be kept, and of longer ones, none is counted.
  const std::map<std::string, uint64_t, std::less<>>& distinct() const { return distinct_; }
  bool has_more() const { return has_more_; }  // than that

 private:
  void AddNumber(double number);

  size_t most_distinct_;
  char decimal_;
  uint64_t with_comma_ = 0;  // values that are numbers with a comma in the place of the point
  uint64_t missing_ = 0, values_ = 0, integers_ = 0;
  uint64_t numeric_ = 0;               // values that are a number, or a list of them
  uint64_t numbers_ = 0;               // in them
  size_t shortest_ = 0, longest_ = 0;  // of lists; 0: there are none
  double least_ = 0, most_ = 0, mean_ = 0, squares_ = 0;
  std::map<std::string, uint64_t, std::less<>> distinct_;
  bool has_more_ = false;
};

// Records with another number of fields than most.
struct BadRecords {
  uint64_t count = 0;
  std::string first;  // its place, and what is wrong
};

// For so many columns, which share what memory there is for their values.
std::vector<ColumnStats> StatsOfColumns(size_t count, char decimal = '.');

struct TableStats {
  uint64_t rows = 0;
  char decimal = '.';  // what stands in numbers before their fractions: a comma where some column has numbers only so
  bool has_more_fields = false;  // than are named
  BadRecords bad;
  std::vector<std::string> names;  // of a file without, c0, c1 and so on
  std::vector<ColumnStats> columns;
};

absl::StatusOr<TableStats> StatsOf(const ByteSource& source, const CsvDialect& dialect);

struct TableHead {
  bool has_more_fields = false;
  std::vector<std::string> names;  // as TableStats has them
  std::vector<std::vector<std::string>> rows;
  BadRecords bad;  // before the last of the rows
};
// Of the first records, or fewer.
absl::StatusOr<TableHead> HeadOf(const ByteSource& source, const CsvDialect& dialect, uint64_t records);

}  // namespace downpour
