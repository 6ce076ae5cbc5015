#include "tools/cli/data_stats.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Fields = std::vector<std::string_view>;

std::vector<std::string> NumberedNames(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat("c", i));
  return names;
}

struct Visitor {
  std::function<void(std::vector<std::string>)> names;             // once, first
  std::function<bool(const Fields&)> row;                          // false: enough
  std::function<void(const std::string& place, size_t)> bad = {};  // a record, and how many fields it has
};

absl::Status Visit(const ByteSource& source, const CsvDialect& dialect, const Visitor& visitor) {
  CsvReader reader(source, dialect.separator);
  Fields fields;
  if (!dialect.has_header) visitor.names(NumberedNames(dialect.fields));
  for (bool is_header = dialect.has_header;;) {
    const absl::StatusOr<bool> more = reader.Next(&fields);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    if (fields.size() != dialect.fields) {
      if (visitor.bad) visitor.bad(reader.place(), fields.size());
    } else if (is_header) {
      visitor.names({fields.begin(), fields.end()});
      is_header = false;
    } else if (!visitor.row(fields)) {
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
  if (const std::optional<double> number = NumberIn(field)) {
    ++numbers_;
    least_ = numbers_ == 1 ? *number : std::min(least_, *number);
    most_ = numbers_ == 1 ? *number : std::max(most_, *number);
    mean_ += (*number - mean_) / static_cast<double>(numbers_);
  }
  const auto known = distinct_.find(field);
  if (known != distinct_.end()) {
    ++known->second;
  } else if (distinct_.size() < kMostDistinct) {
    distinct_.emplace(field, 1);
  } else {
    has_more_ = true;
  }
}

const char* ColumnStats::type() const {
  if (values_ == 0) return "";
  if (integers_ == values_) return "int64";
  return numbers_ == values_ ? "float" : "text";
}

absl::StatusOr<CsvStats> StatsOf(const ByteSource& source, const CsvDialect& dialect) {
  CsvStats stats;
  stats.columns.resize(dialect.fields);
  const absl::Status status = Visit(source, dialect,
                                    {.names = [&](std::vector<std::string> names) { stats.names = std::move(names); },
                                     .row =
                                         [&](const Fields& fields) {
                                           ++stats.rows;
                                           for (size_t i = 0; i < fields.size(); ++i) stats.columns[i].Add(fields[i]);
                                           return true;
                                         },
                                     .bad =
                                         [&](const std::string& place, size_t fields) {
                                           if (++stats.bad == 1)
                                             stats.first_bad = absl::StrCat(place, ": ", Counted(fields, "field"),
                                                                            ", of most ", dialect.fields);
                                         }});
  if (!status.ok()) return status;
  return stats;
}

absl::StatusOr<std::vector<std::vector<std::string>>> HeadOf(const ByteSource& source, const CsvDialect& dialect,
                                                             uint64_t records) {
  std::vector<std::vector<std::string>> rows;
  const absl::Status status = Visit(source, dialect,
                                    {.names = [&](std::vector<std::string> names) { rows.push_back(std::move(names)); },
                                     .row =
                                         [&](const Fields& fields) {
                                           if (rows.size() <= records) rows.emplace_back(fields.begin(), fields.end());
                                           return rows.size() <= records;
                                         }});
  if (!status.ok()) return status;
  return rows;
}

}  // namespace downpour
