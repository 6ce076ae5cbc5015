// All records of a file in memory, as a test compares them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/field_word.h"
#include "data/record_format.h"
#include "data/record_scan.h"
#include "tests/unit/data/text_source.h"

namespace downpour {

struct ScannedRecords {
  std::vector<std::string> records;  // the wanted fields with bars between, or the error
  std::vector<std::string> places;
  std::string error;  // of the file
};

inline std::string WordsOf(const FieldValue& value) {
  FieldWordBuffer buffer;
  const auto* list = std::get_if<FieldList>(&value);
  if (list == nullptr) return value.index() == 0 ? "-" : std::string(FieldWord(value, &buffer));
  std::string words = "[";
  for (const double number : *list) absl::StrAppend(&words, words.size() > 1 ? " " : "", number);
  return words + "]";
}

inline ScannedRecords ScanRecords(const std::string& text, const std::vector<std::string>& wanted, const DataSpec& data,
                                  std::string (*words_of)(const FieldValue&) = &WordsOf) {
  ScannedRecords scanned;
  const TextSource source(text);
  const auto file = OpenRecordFile(data, source);
  const auto reader = file.ok() ? (*file)->NewReader(wanted) : file.status();
  scanned.error = std::string(reader.status().message());
  if (!reader.ok()) return scanned;
  RecordScanner scanner(source, **file);
  std::string_view record;
  std::vector<FieldValue> values(wanted.size());
  for (;;) {
    const absl::StatusOr<bool> more = scanner.Next(&record);
    if (!more.ok()) scanned.error = std::string(more.status().message());
    if (!more.ok() || !*more) return scanned;
    const absl::Status read = (*reader)->Read(record, absl::MakeSpan(values));
    std::string& words = scanned.records.emplace_back(read.message());
    for (size_t i = 0; i < values.size() && read.ok(); ++i)
      absl::StrAppend(&words, i > 0 ? "|" : "", words_of(values[i]));
    EXPECT_EQ(text.substr(scanner.offset(), record.size()), record);
    scanned.places.push_back(RecordPlace(source.name(), scanner.offset(), scanner.line()));
  }
}

}  // namespace downpour
