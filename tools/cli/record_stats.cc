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

namespace downpour {
namespace {

constexpr uint64_t kAllRecords = std::numeric_limits<uint64_t>::max();

// Of the first so many records.
absl::StatusOr<std::vector<std::string>> NamesOf(const ByteSource& source, const RecordFile& file, uint64_t records,
                                                 bool* has_more) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  RecordScanner scanner(source, file);
  std::string_view record;
  for (uint64_t i = 0; i < records; ++i) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) break;
    absl::StatusOr<std::vector<std::string>> fields = file.FieldsOf(record);
    if (!fields.ok()) continue;  // it is counted when it is read
    for (std::string& field : *fields) {
      if (seen.contains(field)) continue;
      *has_more = names.size() == kMostShownFields;
      if (*has_more) return names;
      seen.insert(field);
      names.push_back(std::move(field));
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
  absl::StatusOr<std::unique_ptr<RecordFile>> file = OpenRecordFile(data, source);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<std::string>> all = NamesOf(source, **file, records, has_more);
  if (!all.ok()) return all.status();
  *names = *std::move(all);
  for (const std::string& name : *names) {
    ColumnSpec& column = data.columns.emplace_back();
    column.from = {name};
    column.fill = 0;
  }
  if (file = OpenRecordFile(data, source); !file.ok()) return file.status();  // by which any field may be missing
  const absl::StatusOr<std::unique_ptr<RecordReader>> reader = (*file)->NewReader(*names);
  if (!reader.ok()) return reader.status();
  RecordScanner scanner(source, **file);
  std::string_view record;
  std::vector<FieldValue> values(names->size());
  for (uint64_t taken = 0; taken < records;) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (const absl::Status read = (*reader)->Read(record, absl::MakeSpan(values)); read.ok()) {
      take(values);
      ++taken;
    } else if (++bad->count == 1) {
      bad->first = absl::StrCat(RecordPlace(source.name(), scanner.offset(), scanner.line()), ": ", read.message());
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
