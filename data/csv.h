// CSV and its kin: text whose records have fields between separators.
//
//   auto source = OpenFile("adult.data");
//   auto dialect = GuessCsvDialect(**source);
//   CsvReader reader(**source, dialect->separator);
//   while (*reader.Next(&fields)) ...
//
// Shapes: a record ends at a line's end (LF or CRLF), or with the file. A field that begins with a quote ends at the
//   next single one: separators, line ends and doubled quotes stand in it as they are. Other fields lose blanks at both
//   ends. Lines with nothing on them are no records. The file may be gzipped, and begin with a byte order mark or a
//   line "sep=;". Source: RFC 4180, and what pandas and spreadsheets write.
// Cost: one pass; memory of the longest record, at most twice kMostCsvRecord, and 16 bytes for each field.
// Errors: those of the source; INVALID_ARGUMENT with file and line for a quote that is not closed, for what follows a
//   closing quote, and for a record that is too long or has too many fields; with the file for bytes that no text has.
// Tests: tests/unit/data/csv_test.cc, tests/process/test_data_files.py.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"

namespace downpour {

inline constexpr size_t kMostCsvRecord = size_t{16} << 20;  // bytes
inline constexpr size_t kMostCsvFields = size_t{1} << 17;   // of a record

// The record at the beginning of `text`: how many bytes it has with its line end, or 0 where more bytes are needed,
// or there are none. One field with nothing in it is a line with nothing on it. `at_end`: nothing follows `text`.
// Fields lie in `text`, or in *unquoted if they had doubled quotes. Errors: INVALID_ARGUMENT, without a place.
absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, char separator, bool at_end,
                                      std::vector<std::string_view>* fields, std::deque<std::string>* unquoted);

class CsvReader {
 public:
  // The source outlives this.
  CsvReader(const ByteSource& source, char separator) : source_(source), stream_(source), separator_(separator) {}

  // Reads so much that end() and next_line() are known of the first record.
  absl::Status Begin() { return stream_.offset() == 0 ? Fill() : absl::OkStatus(); }
  // The fields of the next record, which stay until the next call. False at the end. What has failed goes on failing.
  absl::StatusOr<bool> Next(std::vector<std::string_view>* fields);
  // Where the record that was read last begins: FILE:LINE.
  std::string place() const;
  // Where what follows begins: in the unpacked bytes, and on which line.
  uint64_t end() const { return end_; }
  uint64_t next_line() const { return line_; }

 private:
  enum class Parsed { kRecord, kBlank, kNeedsMore };
  absl::StatusOr<Parsed> Parse(std::vector<std::string_view>* fields);
  absl::Status Fill();
  absl::Status Wrong(const std::string& what) const;

  const ByteSource& source_;
  ByteStream stream_;
  const char separator_;
  std::string text_;  // read, and from at_ on no record yet
  size_t at_ = 0;
  bool at_end_ = false;  // of the source
  uint64_t end_ = 0;     // where at_ is, of all its bytes
  uint64_t line_ = 1;    // on which at_ stands
  uint64_t record_line_ = 1;
  std::deque<std::string> unquoted_;  // fields of the record at hand that had doubled quotes
};

struct CsvDialect {
  char separator = ',';
  bool has_header = false;  // the first record has the columns' names
  size_t fields = 0;        // of a record; 0: there are no records
};

// From the first records. The separator is the one of comma, semicolon, tab and bar by which most of them have equally
// many fields, of equals the one with more. Names stand first where the first record has no number, but a later one
// has, or where no record has any, and later ones repeat words, but the first one's are all different and come nowhere
// else.
// `separator`: where that is known.
absl::StatusOr<CsvDialect> GuessCsvDialect(const ByteSource& source, std::optional<char> separator = std::nullopt);

// Without blanks at both ends.
inline std::string_view TrimmedField(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}
// Whether a field stands for no value: nothing, ?, and the words that pandas takes so (NA, NaN, null and others).
bool IsMissing(std::string_view field);
// Finite. `decimal`: what stands before the fraction, '.' or ','.
std::optional<double> NumberIn(std::string_view field, char decimal = '.');
std::optional<int64_t> IntegerIn(std::string_view field);  // without point and exponent

}  // namespace downpour
