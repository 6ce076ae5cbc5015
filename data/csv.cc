#include "data/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <system_error>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "data/record_fields.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kPiece = size_t{1} << 18;
constexpr char kQuote = '"';
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSeparatorLine = "sep=";  // and the separator, by which spreadsheets begin
constexpr std::array<char, 4> kSeparators = {',', ';', '\t', '|'};
constexpr size_t kGuessedFrom = 200;               // records,
constexpr size_t kGuessedBytes = size_t{1} << 20;  // or as many as have so many bytes

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Up to the separator or line end behind it; false where that is not there yet.
bool TakePlain(std::string_view text, char separator, bool at_end, size_t* at, std::string_view* field) {
  const std::string_view rest = text.substr(*at);
  size_t size = 0;
  while (size < rest.size() && rest[size] != separator && rest[size] != '\n') ++size;
  if (size == rest.size() && !at_end) return false;
  *at += size;
  std::string_view found = rest.substr(0, size);
  if (size == rest.size() || rest[size] == '\n') {
    if (found.ends_with('\r')) found.remove_suffix(1);
  }
  *field = TrimmedField(found);
  return true;
}

absl::StatusOr<bool> TakeQuoted(std::string_view text, char separator, bool at_end, size_t* at, std::string_view* field,
                                std::deque<std::string>* unquoted) {
  const size_t begin = *at + 1;
  bool has_doubled = false;
  size_t end = begin;
  for (;; end += 2) {
    end = text.find(kQuote, end);
    const bool is_known = end != std::string_view::npos && (end + 1 < text.size() || at_end);
    if (!is_known && !at_end) return false;
    if (!is_known) return absl::InvalidArgumentError("a quote is not closed");
    if (end + 1 == text.size() || text[end + 1] != kQuote) break;
    has_doubled = true;
  }
  *field = text.substr(begin, end - begin);
  if (has_doubled) {
    std::string& plain = unquoted->emplace_back();
    for (size_t i = 0; i < field->size(); ++i) {
      plain += (*field)[i];
      if ((*field)[i] == kQuote) ++i;
    }
    *field = plain;
  }
  std::string_view behind;
  *at = end + 1;
  if (!TakePlain(text, separator, at_end, at, &behind)) return false;
  if (behind.empty()) return true;
  return absl::InvalidArgumentError(
      absl::StrCat("'", OneLine(behind.substr(0, 20), 20), "' stands behind a closing quote"));
}

}  // namespace

absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, char separator, bool at_end,
                                      std::vector<std::string_view>* fields, std::deque<std::string>* unquoted) {
  fields->clear();
  unquoted->clear();
  if (text.empty()) return 0;
  size_t at = 0;
  for (;;) {
    if (fields->size() == kMostCsvFields) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMostCsvFields, " fields: is this the separator?"));
    }
    std::string_view& field = fields->emplace_back();
    while (at < text.size() && IsBlank(text[at]) && text[at] != separator) ++at;
    if (at < text.size() && text[at] == kQuote) {
      const absl::StatusOr<bool> whole = TakeQuoted(text, separator, at_end, &at, &field, unquoted);
      if (!whole.ok()) return whole.status();
      if (!*whole) return 0;
    } else if (!TakePlain(text, separator, at_end, &at, &field)) {
      return 0;
    }
    if (at == text.size() || text[at] == '\n') break;
    ++at;  // the separator
  }
  return std::min(at + 1, text.size());
}

absl::StatusOr<bool> CsvReader::Next(std::vector<std::string_view>* fields) {
  for (;;) {
    const absl::StatusOr<Parsed> parsed = Parse(fields);
    if (!parsed.ok()) return parsed.status();
    if (*parsed == Parsed::kRecord) return true;
    if (*parsed == Parsed::kBlank) {
      if (at_end_ && at_ == text_.size()) return false;
      continue;
    }
    if (absl::Status status = Fill(); !status.ok()) return status;
  }
}

std::string CsvReader::place() const { return absl::StrCat(source_.name(), ":", record_line_); }

absl::Status CsvReader::Fill() {
  text_.erase(0, at_);
  at_ = 0;
  if (text_.size() > kMostCsvRecord) {
    return Wrong(absl::StrCat("a record of more than ", kMostCsvRecord >> 20, " MiB: is a quote open before it?"));
  }
  const size_t have = text_.size(), wanted = std::max(kPiece, have);  // so that no byte is looked at too often
  text_.resize(have + wanted);
  const absl::StatusOr<size_t> got = stream_.Read({reinterpret_cast<uint8_t*>(text_.data()) + have, wanted});
  if (!got.ok()) return got.status();
  const bool is_first = stream_.offset() == *got;
  text_.resize(have + *got);
  at_end_ = *got < wanted;
  if (const size_t zero = text_.find('\0', have); zero != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(source_.name(), ": is no text in UTF-8: byte ", stream_.offset() - text_.size() + zero,
                     " is 0; if a spreadsheet wrote it, as UTF-16, save it as CSV in UTF-8"));
  }
  if (!is_first) return absl::OkStatus();
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  const std::string_view rest = std::string_view(text_).substr(at_);
  const size_t end = rest.find('\n');
  if (rest.starts_with(kSeparatorLine) && end >= kSeparatorLine.size() + 1 && end <= kSeparatorLine.size() + 2) {
    at_ += end + 1;
    ++line_;
  }
  end_ = at_;
  return absl::OkStatus();
}

absl::StatusOr<CsvReader::Parsed> CsvReader::Parse(std::vector<std::string_view>* fields) {
  record_line_ = line_;
  const std::string_view rest = std::string_view(text_).substr(at_);
  const absl::StatusOr<size_t> taken = ParseCsvRecord(rest, separator_, at_end_, fields, &unquoted_);
  if (!taken.ok()) return Wrong(std::string(taken.status().message()));
  if (*taken == 0) return at_end_ ? Parsed::kBlank : Parsed::kNeedsMore;
  line_ += static_cast<uint64_t>(std::count(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(*taken), '\n'));
  at_ += *taken;
  end_ += *taken;
  return fields->size() == 1 && fields->front().empty() && rest.front() != kQuote ? Parsed::kBlank : Parsed::kRecord;
}

absl::Status CsvReader::Wrong(const std::string& what) const {
  return absl::InvalidArgumentError(absl::StrCat(source_.name(), ":", record_line_, ": ", what));
}

namespace {

// A sign that from_chars does not take.
std::string_view WithoutPlus(std::string_view field) {
  return field.starts_with('+') && !field.starts_with("+-") ? field.substr(1) : field;
}

struct Beginning {
  std::vector<std::vector<std::string>> records;
  size_t fields = 0;  // that most of them have
  size_t agree = 0;   // how many have as many
};

absl::StatusOr<Beginning> ReadBeginning(const ByteSource& source, char separator) {
  Beginning beginning;
  CsvReader reader(source, separator);
  std::vector<std::string_view> fields;
  std::map<size_t, size_t> counts;
  for (size_t bytes = 0; beginning.records.size() < kGuessedFrom && bytes < kGuessedBytes;) {
    const absl::StatusOr<bool> more = reader.Next(&fields);
    if (!more.ok()) return more.status();
    if (!*more) break;
    beginning.records.emplace_back(fields.begin(), fields.end());
    ++counts[fields.size()];
    for (const std::string_view field : fields) bytes += field.size() + sizeof(std::string);
  }
  for (const auto& [size, count] : counts) {
    if (count >= beginning.agree) beginning.fields = size, beginning.agree = count;
  }
  return beginning;
}

bool HasNumber(const std::vector<std::string>& record) {
  return std::any_of(record.begin(), record.end(),
                     [](const std::string& field) { return NumberIn(field).has_value(); });
}

bool HasHeader(const Beginning& beginning) {
  const std::vector<std::vector<std::string>>& records = beginning.records;
  if (records.size() < 2 || HasNumber(records[0])) return false;
  if (std::any_of(records.begin() + 1, records.end(), HasNumber)) return true;
  const std::set<std::string> names(records[0].begin(), records[0].end());
  std::set<std::string> others;
  size_t count = 0;
  for (const std::vector<std::string>& record : absl::MakeConstSpan(records).subspan(1)) {
    others.insert(record.begin(), record.end());
    count += record.size();
  }
  const auto is_other = [&](const std::string& name) { return others.contains(name); };
  return names.size() == records[0].size() && others.size() < count &&
         std::none_of(names.begin(), names.end(), is_other);
}

// Old spreadsheets ended lines with CR alone, so that all would be one record.
absl::Status CheckLineEnds(const ByteSource& source) {
  const absl::StatusOr<std::string> beginning = BeginningOf(source);
  if (!beginning.ok() || beginning->empty()) return beginning.status();
  const size_t end = beginning->find('\r');
  if (end >= beginning->size() - 1 || beginning->find('\n') != std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(source.name() +
                                    ": its lines end with CR alone; write LF in their place, as by tr '\\r' '\\n'");
}

// A preamble is none of the columns.
Beginning WithoutOdd(Beginning beginning) {
  std::erase_if(beginning.records, [&](const auto& record) { return record.size() != beginning.fields; });
  return beginning;
}

}  // namespace

absl::StatusOr<CsvDialect> GuessCsvDialect(const ByteSource& source, std::optional<char> separator) {
  if (absl::Status status = CheckLineEnds(source); !status.ok()) return status;
  CsvDialect dialect;
  Beginning best;
  absl::Status first_error;
  const auto tried = separator ? absl::MakeConstSpan(&*separator, 1) : absl::MakeConstSpan(kSeparators);
  for (const char one : tried) {
    absl::StatusOr<Beginning> beginning = ReadBeginning(source, one);
    if (!beginning.ok()) {
      first_error.Update(beginning.status());
      continue;
    }
    // By a wrong one most have one field, which is no agreement.
    const auto rank = [](const Beginning& read) {
      return std::tuple(read.fields > 1 ? read.agree * 10 / std::max<size_t>(1, read.records.size()) : 0, read.fields);
    };
    if (dialect.fields != 0 && rank(*beginning) <= rank(best)) continue;
    best = *std::move(beginning);
    dialect = {one, HasHeader(WithoutOdd(best)), best.fields};
  }
  // With a wrong separator a quote may stand within a field, where it means nothing.
  if (dialect.fields < 2 && !first_error.ok()) return first_error;
  return dialect;
}

bool IsMissing(std::string_view field) {
  static constexpr std::string_view kWords[] = {"",     "?",    "NA",   "N/A",  "n/a",  "NaN",  "nan",
                                                "-nan", "-NaN", "#N/A", "null", "NULL", "None", "<NA>"};
  constexpr size_t kLongest = 4;  // so that most words need no comparing
  if (field.empty()) return true;
  constexpr std::string_view kFirst = "?Nn-#<";
  if (field.size() > kLongest || kFirst.find(field.front()) == std::string_view::npos) return false;
  return std::find(std::begin(kWords), std::end(kWords), field) != std::end(kWords);
}

namespace {

// A number without an exponent and of few characters, as most are; nothing: it is another one, or none. Beside a point
// there are 15 digits at most. So they and the power of ten are exact, and their quotient is the nearest double
// (Clinger 1990). A whole number is rounded once.
std::optional<double> PlainNumber(std::string_view field) {
  static constexpr double kPowers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const bool is_negative = field.starts_with('-');
  if (is_negative) field.remove_prefix(1);
  if (field.size() > std::size(kPowers)) return std::nullopt;
  uint64_t all = 0;
  size_t digits = 0, before_point = field.size();
  for (size_t i = 0; i < field.size(); ++i) {
    const auto digit = static_cast<unsigned>(field[i] - '0');
    if (digit <= 9) {
      all = all * 10 + digit;
      ++digits;
    } else if (field[i] == '.' && before_point == field.size()) {
      before_point = i;
    } else {
      return std::nullopt;
    }
  }
  if (digits == 0) return std::nullopt;
  const double number = static_cast<double>(all) / kPowers[digits - std::min(digits, before_point)];
  return is_negative ? -number : number;
}

}  // namespace

std::optional<double> NumberIn(std::string_view field, char decimal) {
  if (const std::optional<double> plain = decimal == '.' ? PlainNumber(field) : std::nullopt) return plain;
  std::string with_point;
  if (decimal == ',') {
    if (field.find('.') != std::string_view::npos) return std::nullopt;
    with_point = field;
    std::replace(with_point.begin(), with_point.end(), ',', '.');
    field = with_point;
  }
  field = WithoutPlus(field);
  double number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  const bool is_one = error == std::errc() && end == field.data() + field.size() && std::isfinite(number);
  return is_one ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> IntegerIn(std::string_view field) {
  field = WithoutPlus(field);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  const bool is_one = error == std::errc() && end == field.data() + field.size();
  return is_one ? std::optional(number) : std::nullopt;
}

}  // namespace downpour
