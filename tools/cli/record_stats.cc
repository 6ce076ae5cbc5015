#include "tools/cli/record_stats.h"

#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/field_word.h"
#include "data/record_format.h"
#include "data/record_scan.h"
#include "data/record_stream.h"
#include "data/row_groups.h"

namespace downpour {
namespace {

constexpr uint64_t kAllRecords = std::numeric_limits<uint64_t>::max();

// Of the first so many records, or what the file itself says.
absl::StatusOr<std::vector<std::string>> NamesOf(const DataSpec& data, const ByteSource& source, uint64_t records) {
  if (RowGroupOpenerOf(data.format) != nullptr) {
    const absl::StatusOr<std::unique_ptr<RowGroups>> groups = OpenRowGroups(data.format, source);
    if (!groups.ok()) return groups.status();
    return (*groups)->fields();
  }
  const absl::StatusOr<std::unique_ptr<RecordFile>> file = OpenRecordFile(data, source);
  if (!file.ok()) return file.status();
  std::vector<std::string> names;
  std::set<std::string> seen;
  RecordScanner scanner(source, **file);
  std::string_view record;
  for (uint64_t i = 0; i < records && names.size() <= kMostShownFields; ++i) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) break;
    absl::StatusOr<std::vector<std::string>> fields = (*file)->FieldsOf(record);
    if (!fields.ok()) continue;  // it is counted when it is read
    for (std::string& field : *fields) {
      if (names.size() > kMostShownFields) break;
      if (seen.insert(field).second) names.push_back(std::move(field));
    }
  }
  return names;
}

// Calls take() with the values of each of the first so many records that can be read.
absl::Status Visit(const std::string& format, const ByteSource& source, uint64_t records,
                   std::vector<std::string>* names, bool* has_more, BadRecords* bad,
                   const std::function<void(absl::Span<const FieldValue>)>& take) {
  DataSpec data;
  data.format = format;
  absl::StatusOr<std::vector<std::string>> all = NamesOf(data, source, records);
  if (!all.ok()) return all.status();
  *names = *std::move(all);
  *has_more = names->size() > kMostShownFields;
  if (*has_more) names->resize(kMostShownFields);
  for (const std::string& name : *names) {  // by which any field may be missing
    ColumnSpec& column = data.columns.emplace_back();
    column.from = {name};
    column.fill = 0;
  }
  const absl::StatusOr<std::unique_ptr<RecordStream>> stream = OpenRecordStream(data, source, *names);
  if (!stream.ok()) return stream.status();
  std::vector<FieldValue> values(names->size());
  absl::Status read;
  for (uint64_t taken = 0; taken < records;) {
    const absl::StatusOr<bool> more = (*stream)->Next(absl::MakeSpan(values), &read);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (read.ok()) {
      take(values);
      ++taken;
    } else if (++bad->count == 1) {
      bad->first = absl::StrCat((*stream)->place(), ": ", read.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TableStats> RecordStatsOf(const std::string& format, const ByteSource& source) {
  TableStats stats;
  FieldWordBuffer buffer;
  const auto take = [&](absl::Span<const FieldValue> values) {
    if (stats.rows++ == 0) stats.columns = StatsOfColumns(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (const auto* list = std::get_if<FieldList>(&values[i])) {
        stats.columns[i].AddList(*list);
      } else {
        stats.columns[i].Add(FieldWord(values[i], &buffer));
      }
    }
  };
  absl::Status status = Visit(format, source, kAllRecords, &stats.names, &stats.has_more_fields, &stats.bad, take);
  if (!status.ok()) return status;
  if (stats.rows == 0 && stats.bad.count == 0) return absl::InvalidArgumentError(source.name() + " has no records");
  stats.columns.resize(stats.names.size());
  return stats;
}

absl::StatusOr<TableHead> RecordHeadOf(const std::string& format, const ByteSource& source, uint64_t records) {
  TableHead head;
  FieldWordBuffer buffer;
  const auto take = [&](absl::Span<const FieldValue> values) {
    std::vector<std::string>& row = head.rows.emplace_back();
    for (const FieldValue& value : values) row.emplace_back(FieldWord(value, &buffer));
  };
  absl::Status status = Visit(format, source, records, &head.names, &head.has_more_fields, &head.bad, take);
  if (!status.ok()) return status;
  if (head.rows.empty() && head.bad.count == 0) return absl::InvalidArgumentError(source.name() + " has no records");
  return head;
}

}  // namespace downpour
