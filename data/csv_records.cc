#include "data/csv_records.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/csv.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kShown = 64;  // bytes of a name, in an error

struct Layout {
  char separator = ',';
  std::vector<std::string> fields;
  std::vector<std::string> first;  // record, where that was taken for values, though nobody said so
};

absl::Status WrongCount(size_t count, size_t of_most) {
  return absl::InvalidArgumentError(
      absl::StrCat(Counted(count, "field"), " instead of ", of_most, ", which most records have"));
}

class CsvRecordReader final : public RecordReader {
 public:
  // `places`: in the record, of each wanted field.
  CsvRecordReader(const Layout& layout, const std::vector<size_t>& places)
      : separator_(layout.separator), count_(layout.fields.size()) {
    for (size_t i = 0; i < places.size(); ++i) wanted_.push_back({places[i], i});
    std::sort(wanted_.begin(), wanted_.end());
  }

  absl::Status Read(std::string_view record, absl::Span<FieldValue> values) override {
    if (record.find('"') == std::string_view::npos) return ReadPlain(record, values);
    const absl::StatusOr<size_t> parsed = ParseCsvRecord(record, separator_, true, &fields_, &unquoted_);
    if (!parsed.ok()) return parsed.status();
    if (fields_.size() != count_) return WrongCount(fields_.size(), count_);
    for (const auto& [place, i] : wanted_) values[i] = fields_[place];
    return absl::OkStatus();
  }

  bool ReadTexts(std::string_view record, absl::Span<std::string_view> texts) override {
    return record.find('"') == std::string_view::npos && Split(record, texts) == count_;
  }

 private:
  // No quote is in it.
  absl::Status ReadPlain(std::string_view record, absl::Span<FieldValue> values) {
    const size_t fields = Split(record, values);
    return fields == count_ ? absl::OkStatus() : WrongCount(fields, count_);
  }

  // How many fields it has. Most have few bytes, so they are looked at here, and not by a call for each.
  template <typename Value>
  size_t Split(std::string_view record, absl::Span<Value> values) const {
    if (record.ends_with('\n')) record.remove_suffix(1);
    if (record.ends_with('\r')) record.remove_suffix(1);
    auto next = wanted_.begin();
    const char* begin = record.data();
    const char* const end = begin + record.size();
    for (size_t place = 0;; ++place) {
      const char* stop = begin;
      while (stop != end && *stop != separator_) ++stop;
      for (; next != wanted_.end() && next->first == place; ++next) {
        values[next->second] = TrimmedField({begin, static_cast<size_t>(stop - begin)});
      }
      if (stop == end) return place + 1;
      begin = stop + 1;
    }
  }

  const char separator_;
  const size_t count_;
  std::vector<std::pair<size_t, size_t>> wanted_;  // in the record, in `values`
  std::vector<std::string_view> fields_;
  std::deque<std::string> unquoted_;
};

class CsvRecordFile final : public RecordFile {
 public:
  CsvRecordFile(std::string name, Layout layout, uint64_t begin, uint64_t line)
      : name_(std::move(name)), layout_(std::move(layout)), begin_(begin), line_(line) {}

  uint64_t begin() const override { return begin_; }
  uint64_t first_line() const override { return line_; }
  std::string layout() const override {
    return absl::StrCat(std::string(1, layout_.separator), "\n", absl::StrJoin(layout_.fields, "\n"));
  }
  std::string cutting() const override { return {layout_.separator}; }

  absl::StatusOr<CutRecord> Cut(std::string_view text, bool at_end) const override {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos && !at_end) return CutRecord{};
    const std::string_view line = text.substr(0, end);
    if (line.find('"') == std::string_view::npos) {
      return CutRecord{std::min(text.size(), line.size() + 1), !IsEmpty(line)};
    }
    std::vector<std::string_view> fields;
    std::deque<std::string> unquoted;
    const absl::StatusOr<size_t> parsed = ParseCsvRecord(text, layout_.separator, at_end, &fields, &unquoted);
    if (!parsed.ok()) return parsed.status();
    return CutRecord{*parsed, fields.size() != 1 || !fields.front().empty() || text.front() == '"'};
  }

  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader(absl::Span<const std::string> wanted) const override {
    std::vector<size_t> places;
    for (const std::string& name : wanted) {
      const auto found = std::find(layout_.fields.begin(), layout_.fields.end(), name);
      if (found == layout_.fields.end()) return NoField(name);
      if (std::find(found + 1, layout_.fields.end(), name) != layout_.fields.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": two fields are called '", OneLine(name, kShown),
                         "': give all fields names of their own in data.fields, with data.header: true"));
      }
      places.push_back(static_cast<size_t>(found - layout_.fields.begin()));
    }
    return std::make_unique<CsvRecordReader>(layout_, places);
  }
  absl::StatusOr<std::vector<std::string>> FieldsOf(std::string_view) const override { return layout_.fields; }

 private:
  absl::Status NoField(const std::string& name) const {
    if (std::find(layout_.first.begin(), layout_.first.end(), name) == layout_.first.end()) {
      return NoSuchField(name_, name, layout_.fields);
    }
    return absl::InvalidArgumentError(absl::StrCat(name_, " has '", OneLine(name, kShown),
                                            "' in its first record, which was not taken for the fields' names; if it "
                                            "has them, say data.header: true"));
  }
  bool IsEmpty(std::string_view line) const {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line.find(layout_.separator) == std::string_view::npos && TrimmedField(line).empty();
  }

  const std::string name_;
  const Layout layout_;
  const uint64_t begin_, line_;
};

}  // namespace

std::vector<std::string> NumberedFields(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat("c", i));
  return names;
}

absl::StatusOr<std::unique_ptr<RecordFile>> OpenCsvRecords(const DataSpec& data, const ByteSource& source) {
  const absl::StatusOr<CsvDialect> dialect = GuessCsvDialect(source, data.separator);
  if (!dialect.ok()) return dialect.status();
  const size_t count = dialect->fields;
  if (count == 0) return absl::InvalidArgumentError(source.name() + " has no records");
  if (!data.fields.empty() && data.fields.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(source.name(), ": most records have ", Counted(count, "field"),
                                                   ", but data.fields names ", data.fields.size()));
  }
  CsvReader reader(source, dialect->separator);
  std::vector<std::string_view> fields;
  // Whoever names the fields says that no header does, unless it is said.
  bool awaits_header = data.header.value_or(dialect->has_header && data.fields.empty());
  Layout layout{dialect->separator, awaits_header ? data.fields : NumberedFields(count), {}};
  if (!data.fields.empty()) layout.fields = data.fields;
  if (!awaits_header && !data.header && data.fields.empty()) {
    if (CsvReader first(source, dialect->separator); first.Next(&fields).ok()) {
      layout.first.assign(fields.begin(), fields.end());
    }
  }
  while (awaits_header) {
    const absl::StatusOr<bool> more = reader.Next(&fields);
    if (!more.ok()) return more.status();
    if (!*more) return absl::InvalidArgumentError(source.name() + " has no header, though data.header says so");
    if (fields.size() != count) continue;
    awaits_header = false;
    if (layout.fields.empty()) layout.fields.assign(fields.begin(), fields.end());
  }
  if (absl::Status begun = reader.Begin(); !begun.ok()) return begun;
  return std::make_unique<CsvRecordFile>(source.name(), std::move(layout), reader.end(), reader.next_line());
}

absl::StatusOr<std::unique_ptr<RecordFile>> OpenCriteoRecords(const DataSpec& data, const ByteSource& source) {
  constexpr size_t kIntegers = 13, kWords = 26;
  const absl::StatusOr<CsvDialect> dialect = GuessCsvDialect(source, '\t');
  if (!dialect.ok()) return dialect.status();
  DataSpec criteo = data;
  criteo.separator = '\t';
  criteo.header = false;
  if (dialect->fields == kIntegers + kWords + 1) criteo.fields.emplace_back("label");
  for (size_t i = 1; i <= kIntegers; ++i) criteo.fields.push_back(absl::StrCat("I", i));
  for (size_t i = 1; i <= kWords; ++i) criteo.fields.push_back(absl::StrCat("C", i));
  if (dialect->fields == criteo.fields.size()) return OpenCsvRecords(criteo, source);
  return absl::InvalidArgumentError(absl::StrCat(source.name(), " is none of Criteo's files: most of its lines have ",
                                                 Counted(dialect->fields, "field"), " between tabs, and not 40, or 39 ",
                                                 "without a label"));
}

}  // namespace downpour
