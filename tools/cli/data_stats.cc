#include "tools/cli/data_stats.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/csv_records.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Fields = std::vector<std::string_view>;

// `take` returns false once it has enough.
absl::Status Visit(const ByteSource& source, const CsvDialect& dialect, std::vector<std::string>* names,
                   const std::function<bool(const Fields&)>& take, BadRecords* bad) {
  CsvReader reader(source, dialect.separator);
  Fields fields;
  if (!dialect.has_header) *names = NumberedFields(dialect.fields);
  for (bool is_header = dialect.has_header;;) {
    const absl::StatusOr<bool> more = reader.Next(&fields);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    if (fields.size() != dialect.fields) {
      if (++bad->count > 1) continue;
      bad->first = absl::StrCat(reader.place(), ": ", Counted(fields.size(), "field"), ", of most ", dialect.fields);
    } else if (std::exchange(is_header, false)) {
      names->assign(fields.begin(), fields.end());
    } else if (!take(fields)) {
      return absl::OkStatus();
    }
  }
}

}  // namespace

void ColumnStats::Add(std::string_view field) {
  if (IsMissing(field)) {
    ++missing_;
    return;
  }
  ++values_;
  integers_ += IntegerIn(field).has_value();
  if (const std::optional<double> number = NumberIn(field, decimal_)) {
    ++numeric_;
    AddNumber(*number);
  } else {
    with_comma_ += NumberIn(field, ',').has_value();
  }
  const auto known = distinct_.find(field);
  if (known != distinct_.end()) {
    ++known->second;
  } else if (distinct_.size() < most_distinct_ && field.size() <= kLongestDistinct) {
    distinct_.emplace(field, 1);
  } else {
    has_more_ = true;
  }
}

void ColumnStats::AddList(absl::Span<const double> numbers) {
  ++values_;
  ++numeric_;
  has_more_ = true;  // lists are not told apart
  shortest_ = longest_ == 0 ? numbers.size() : std::min(shortest_, numbers.size());
  longest_ = std::max(longest_, numbers.size());
  for (const double number : numbers) {
    if (!std::isnan(number)) AddNumber(number);
  }
}

void ColumnStats::AddNumber(double number) {
  ++numbers_;
  least_ = numbers_ == 1 ? number : std::min(least_, number);
  most_ = numbers_ == 1 ? number : std::max(most_, number);
  const double beside = number - mean_;  // Welford 1962
  mean_ += beside / static_cast<double>(numbers_);
  squares_ += beside * (number - mean_);
}

double ColumnStats::deviation() const {
  return numbers_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(numbers_));
}

std::string ColumnStats::type() const {
  if (values_ == 0) return "";
  if (integers_ == values_) return "int64";
  if (numeric_ < values_) return "text";
  if (longest_ == 0) return "float";
  return shortest_ == longest_ ? absl::StrCat("float[", longest_, "]")
                               : absl::StrCat("float[", shortest_, "-", longest_, "]");
}

std::vector<ColumnStats> StatsOfColumns(size_t count, char decimal) {
  const size_t most = kMostDistinctOfAll / std::max<size_t>(1, count);
  return std::vector<ColumnStats>(count, ColumnStats(std::clamp<size_t>(most, 1, kMostDistinct), decimal));
}

namespace {

absl::StatusOr<TableStats> StatsWith(char decimal, const ByteSource& source, const CsvDialect& dialect) {
  TableStats stats;
  stats.decimal = decimal;
  stats.columns = StatsOfColumns(dialect.fields, decimal);
  const auto take = [&](const Fields& fields) {
    ++stats.rows;
    for (size_t i = 0; i < fields.size(); ++i) stats.columns[i].Add(fields[i]);
    return true;
  };
  if (absl::Status status = Visit(source, dialect, &stats.names, take, &stats.bad); !status.ok()) return status;
  return stats;
}

}  // namespace

absl::StatusOr<TableStats> StatsOf(const ByteSource& source, const CsvDialect& dialect) {
  absl::StatusOr<TableStats> stats = StatsWith('.', source, dialect);
  const auto reads_with_commas = [](const ColumnStats& column) { return column.reads_with_commas(); };
  if (!stats.ok() || std::none_of(stats->columns.begin(), stats->columns.end(), reads_with_commas)) return stats;
  return StatsWith(',', source, dialect);
}

absl::StatusOr<TableHead> HeadOf(const ByteSource& source, const CsvDialect& dialect, uint64_t records) {
  TableHead head;
  const auto take = [&](const Fields& fields) {
    head.rows.emplace_back(fields.begin(), fields.end());
    return head.rows.size() < records;
  };
  if (absl::Status status = Visit(source, dialect, &head.names, take, &head.bad); !status.ok()) return status;
  return head;
}

}  // namespace downpour
