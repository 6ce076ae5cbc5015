// Bytes as a file of records of one format: whatever they are, records come to an end, lie behind one another, and have
// the same fields each time they are read.
#pragma once

#include <glog/logging.h>

#include <string>
#include <vector>

#include "data/field_word.h"
#include "data/record_format.h"
#include "data/record_scan.h"
#include "tests/fuzz/target.h"
#include "tests/unit/data/text_source.h"

namespace downpour {

inline constexpr size_t kKeysOfField = 3;

inline std::string WordsIn(const std::vector<FieldValue>& values) {
  FieldWordBuffer buffer;
  std::string words;
  for (const FieldValue& value : values) {
    words.append(FieldWord(value, &buffer)).append("|");
    if (const auto* list = std::get_if<FieldList>(&value)) {
      CHECK_GE(list->size(), 2u);
      for (const double number : *list) words.append(FieldWord(number, &buffer)).append(" ");
    }
    if (const auto* items = std::get_if<FieldItems>(&value)) {
      CHECK_GE(items->size(), 2u);
      CHECK_LE(items->size(), kKeysOfField + 1);
      for (const FieldItem& item : *items) {
        const FieldValue one = std::visit([](const auto& it) { return FieldValue(it); }, item);
        words.append(FieldWord(one, &buffer)).append(" ");
      }
    }
  }
  return words;
}

// All of them twice, which gives the same.
inline void ReadTwice(const std::string& text, const DataSpec& data, const std::vector<std::string>& wanted) {
  const TextSource source(text);
  const auto file = OpenRecordFile(data, source);
  CHECK(file.ok());
  const auto reader = (*file)->NewReader(wanted);
  if (!reader.ok()) return;
  RecordScanner scanner(source, **file);
  std::string_view record;
  std::vector<FieldValue> values(wanted.size());
  for (uint64_t end = (*file)->begin();;) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok() || !*more) return;
    CHECK(!record.empty());
    CHECK_GE(scanner.offset(), end);
    end = scanner.offset() + record.size();
    CHECK_LE(end, text.size());
    const absl::Status first = (*reader)->Read(record, absl::MakeSpan(values));
    const std::string words = first.ok() ? WordsIn(values) : "";
    CHECK((*reader)->Read(record, absl::MakeSpan(values)) == first);
    if (first.ok()) CHECK_EQ(WordsIn(values), words);
  }
}

inline void ReadAsRecords(const std::string& text, const char* format) {
  DataSpec data;
  data.format = format;
  const TextSource source(text);
  const auto file = OpenRecordFile(data, source);
  if (!file.ok()) return;
  std::vector<std::string> wanted;
  std::string_view record;
  for (RecordScanner scanner(source, **file); wanted.size() < 100;) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok() || !*more) break;
    if (const auto names = (*file)->FieldsOf(record); names.ok()) {
      for (const std::string& name : *names) wanted.push_back(name);
    }
  }
  for (const ColumnKind kind : {ColumnKind::kNumber, ColumnKind::kKey}) {
    data.columns.clear();
    for (const std::string& name : wanted) {
      ColumnSpec& column = data.columns.emplace_back();
      column.from = {name};
      column.kind = kind;
      column.fill = 0;
      if (kind == ColumnKind::kKey) column.numbers = kKeysOfField;
    }
    ReadTwice(text, data, wanted);
  }
}

}  // namespace downpour
