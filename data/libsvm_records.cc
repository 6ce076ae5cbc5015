#include "data/libsvm_records.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/csv.h"
#include "data/key_items.h"
#include "data/record_fields.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr char kComment = '#';
constexpr char kLabelField[] = "label";
constexpr char kRowField[] = "features";
constexpr char kRowFromZeroField[] = "features0";
constexpr char kIndicesField[] = "indices";
constexpr std::string_view kQuery = "qid";
constexpr size_t kShown = 40;            // bytes of a record, in an error
constexpr uint64_t kMostNamed = 10'000;  // indices, for FieldsOf

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view WithoutComment(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  return line.substr(0, line.find(kComment));
}

// Takes the next word from `rest`; empty at its end.
std::string_view TakeWord(std::string_view* rest) {
  size_t begin = 0;
  while (begin < rest->size() && IsBlank((*rest)[begin])) ++begin;
  size_t end = begin;
  while (end < rest->size() && !IsBlank((*rest)[end])) ++end;
  const std::string_view word = rest->substr(begin, end - begin);
  rest->remove_prefix(end);
  return word;
}

std::optional<uint64_t> IndexIn(std::string_view word) {
  uint64_t index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(index) : std::nullopt;
}

absl::Status Wrong(std::string_view word, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("'", OneLine(word, kShown), "' ", what));
}

struct Pair {
  uint64_t index = 0;
  double value = 0;
};

// The next index and value; false at the end.
absl::StatusOr<bool> TakePair(std::string_view* rest, Pair* pair) {
  std::string_view word;
  do {
    word = TakeWord(rest);
    if (word.empty()) return false;
  } while (word.starts_with(kQuery) && word.substr(kQuery.size()).starts_with(':'));
  const char* const end = word.data() + word.size();
  const auto [colon, no_index] = std::from_chars(word.data(), end, pair->index);
  if (no_index != std::errc() || colon == end || *colon != ':') return Wrong(word, "is no index:value");
  const std::optional<double> value = NumberIn({colon + 1, end});
  if (!value) return Wrong(word, "has no finite number as its value");
  pair->value = *value;
  return true;
}

// `may_lack`: a record with nothing before its first pair has a label of no classes.
absl::StatusOr<std::string_view> TakeLabel(std::string_view* rest, bool may_lack) {
  const std::string_view record = *rest, label = TakeWord(rest);
  const bool is_pair = label.find(':') != std::string_view::npos;
  if (!label.empty() && !is_pair) return label;
  if (may_lack) {
    *rest = record;
    return std::string_view();
  }
  return absl::InvalidArgumentError("a record begins with its label, then has index:value");
}

// What is wanted, and its places among the values.
struct Wanted {
  std::optional<size_t> label, row, indices;
  std::vector<std::pair<uint64_t, size_t>> single;  // indices, rising
  bool from_zero = false;
};

class LibsvmRecordReader final : public RecordReader {
 public:
  LibsvmRecordReader(Wanted wanted, size_t width, size_t most_keys, bool may_lack_label)
      : wanted_(std::move(wanted)),
        row_(wanted_.row ? width : 0),
        indices_(KeyWidth{.most = most_keys}),
        may_lack_label_(may_lack_label) {}

  absl::Status Read(std::string_view record, absl::Span<FieldValue> values) override {
    std::string_view rest = WithoutComment(record);
    const absl::StatusOr<std::string_view> label = TakeLabel(&rest, may_lack_label_);
    if (!label.ok()) return label.status();
    if (wanted_.label) values[*wanted_.label] = *label;
    for (const auto& [index, place] : wanted_.single) values[place] = 0.0;
    std::fill(row_.begin(), row_.end(), 0);
    indices_.Clear();
    const uint64_t first = wanted_.from_zero ? 0 : 1;
    auto single = wanted_.single.begin();
    uint64_t least = first;  // that the next index may have
    Pair pair;
    for (;;) {
      const absl::StatusOr<bool> more = TakePair(&rest, &pair);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (pair.index < least) return WrongIndex(pair.index);
      least = pair.index + 1;
      if (wanted_.row) {
        if (pair.index - first >= row_.size()) return TooFar(pair.index, first);
        row_[pair.index - first] = pair.value;
      }
      if (wanted_.indices && pair.value != 0) {
        if (pair.value != 1) return NoIndicator(pair);
        indices_.Add(pair.index);
      }
      while (single != wanted_.single.end() && single->first < pair.index) ++single;
      if (single != wanted_.single.end() && single->first == pair.index) values[single->second] = pair.value;
    }
    if (wanted_.row) values[*wanted_.row] = row_.size() == 1 ? FieldValue(row_.front()) : FieldValue(FieldList(row_));
    if (wanted_.indices) values[*wanted_.indices] = indices_.value();
    return absl::OkStatus();
  }

 private:
  static absl::Status WrongIndex(uint64_t index) {
    if (index != 0)
      return absl::InvalidArgumentError(absl::StrCat("index ", index, " stands behind a larger or equal one"));
    return absl::InvalidArgumentError(
        absl::StrCat("index 0, where indices count from 1: if this file's count from 0, "
                     "make the column of field ",
                     kRowFromZeroField));
  }
  static absl::Status NoIndicator(const Pair& pair) {
    return absl::InvalidArgumentError(
        absl::StrCat("index ", pair.index, " has the value ", pair.value, ", but field ", kIndicesField,
                     " takes 0 and 1 alone, since keys have no weights: read the row by field ", kRowField));
  }
  absl::Status TooFar(uint64_t index, uint64_t first) const {
    return absl::InvalidArgumentError(absl::StrCat("index ", index, " is beyond the column's width of ", row_.size(),
                                                   ", which has ", first, " to ", row_.size() - 1 + first,
                                                   ": give the column of the features a larger width"));
  }

  const Wanted wanted_;
  std::vector<double> row_;
  KeyItems indices_;
  const bool may_lack_label_;
};

class LibsvmRecordFile final : public RecordFile {
 public:
  LibsvmRecordFile(std::string name, uint64_t begin, size_t width, size_t most_keys, bool may_lack_label)
      : name_(std::move(name)), begin_(begin), width_(width), most_keys_(most_keys), may_lack_label_(may_lack_label) {}

  uint64_t begin() const override { return begin_; }
  uint64_t first_line() const override { return 1; }
  std::string layout() const override { return ""; }
  absl::StatusOr<CutRecord> Cut(std::string_view text, bool at_end) const override {
    return CutLine(text, at_end, kComment);
  }

  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader(absl::Span<const std::string> names) const override {
    Wanted wanted;
    bool from_one = false;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      if (name == kLabelField) {
        wanted.label = i;
      } else if (name == kIndicesField) {
        wanted.indices = i;
      } else if (name == kRowField || name == kRowFromZeroField) {
        wanted.row = i;
        (name == kRowField ? from_one : wanted.from_zero) = true;
      } else if (const std::optional<uint64_t> index = IndexIn(name)) {
        wanted.single.push_back({*index, i});
        wanted.from_zero |= *index == 0;
      } else {
        return absl::InvalidArgumentError(absl::StrCat(name_, " has no field '", OneLine(name, kShown), "'; it has ",
                                                       kLabelField, ", ", kRowField, " (the row), ", kIndicesField,
                                                       " (keys), and 1, 2, ..."));
      }
    }
    if (from_one && wanted.from_zero) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ": field ", kRowField, " counts from 1, but field 0 or ",
                                                     kRowFromZeroField, " from 0: columns need one of the two"));
    }
    if (wanted.indices && most_keys_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": field ", kIndicesField, " has keys: give its column key: integer, and a width"));
    }
    wanted.from_zero |= wanted.indices && !from_one;  // any index is a key
    std::sort(wanted.single.begin(), wanted.single.end());
    return std::make_unique<LibsvmRecordReader>(std::move(wanted), width_, most_keys_, may_lack_label_);
  }

  absl::StatusOr<std::vector<std::string>> FieldsOf(std::string_view record) const override {
    std::string_view rest = WithoutComment(record);
    if (const auto label = TakeLabel(&rest, may_lack_label_); !label.ok()) return label.status();
    uint64_t least = 1, most = 0;
    for (Pair pair;;) {
      const absl::StatusOr<bool> more = TakePair(&rest, &pair);
      if (!more.ok()) return more.status();
      if (!*more) break;
      least = std::min(least, pair.index);
      most = std::max(most, pair.index);
    }
    std::vector<std::string> names = {kLabelField};
    for (uint64_t i = least; i <= std::min(most, kMostNamed); ++i) names.push_back(absl::StrCat(i));
    return names;
  }

 private:
  const std::string name_;
  const uint64_t begin_;
  const size_t width_, most_keys_;
  const bool may_lack_label_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> OpenLibsvmRecords(const DataSpec& data, const ByteSource& source) {
  const absl::StatusOr<std::string> beginning = BeginningOf(source);
  if (!beginning.ok()) return beginning.status();
  int64_t width = 1;
  for (const ColumnSpec& column : data.columns) {
    const bool is_row = !column.from.empty() && (column.from[0] == kRowField || column.from[0] == kRowFromZeroField);
    if (is_row) width = std::max(width, column.numbers);
  }
  const KeyWidths keys = KeyWidthsOf(data);
  if (keys.contains(kRowField) || keys.contains(kRowFromZeroField)) {
    return absl::InvalidArgumentError(absl::StrCat(source.name(), ": field ", kRowField,
                                                   " has the numbers of a row: keys are in field ", kIndicesField));
  }
  const auto indices = keys.find(kIndicesField);
  return std::make_unique<LibsvmRecordFile>(source.name(), ByteOrderMark(*beginning), static_cast<size_t>(width),
                                            indices == keys.end() ? 0 : indices->second.most, data.label.is_multiple);
}

bool LooksLikeLibsvm(std::string_view beginning) {
  beginning.remove_prefix(ByteOrderMark(beginning));
  while (!beginning.empty()) {
    const CutRecord cut = CutLine(beginning, true, kComment);
    std::string_view line = WithoutComment(beginning.substr(0, cut.bytes));
    beginning.remove_prefix(cut.bytes);
    if (!cut.is_record) continue;
    Pair pair;
    const absl::StatusOr<std::string_view> label = TakeLabel(&line, false);
    if (!label.ok() || !NumberIn(label->substr(0, label->find(',')))) return false;  // one of several labels
    const absl::StatusOr<bool> more = TakePair(&line, &pair);
    return more.ok() && *more;
  }
  return false;
}

}  // namespace downpour
