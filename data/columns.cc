#include "data/columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "data/csv.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kShown = 40;  // bytes of what a file has, in an error
constexpr double kExactIntegers = 9007199254740992;
constexpr double kMostClasses = 1'000'000;  // one counter of each is kept, and models take classes as int32

using WordBuffer = std::array<char, 32>;

std::string Quoted(std::string_view text) { return absl::StrCat("'", OneLine(text, kShown), "'"); }

// A field as a word; a number as it is written shortest. `buffer` is where that stands.
std::string_view WordOf(const FieldValue& value, WordBuffer* buffer) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return *text;
  if (value.index() == 0) return {};
  char* const end = buffer->data() + buffer->size();
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return {buffer->data(), std::to_chars(buffer->data(), end, *integer).ptr};
  }
  const double number = std::get<double>(value);
  const bool is_integer = std::abs(number) < kExactIntegers && number == std::floor(number);
  const char* written = is_integer ? std::to_chars(buffer->data(), end, static_cast<int64_t>(number)).ptr
                                   : std::to_chars(buffer->data(), end, number).ptr;
  return {buffer->data(), written};
}

bool IsNothing(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return IsMissing(*text);
  if (const auto* number = std::get_if<double>(&value)) return std::isnan(*number);
  return value.index() == 0;
}

std::optional<double> FiniteNumber(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return NumberIn(*text);
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  const auto* number = std::get_if<double>(&value);
  return number != nullptr && std::isfinite(*number) ? std::optional(*number) : std::nullopt;
}

absl::Status Wrong(const std::string& field, const FieldValue& value, const std::string& what) {
  WordBuffer buffer;
  return absl::InvalidArgumentError(
      absl::StrCat("field ", Quoted(field), ": ", Quoted(WordOf(value, &buffer)), " ", what));
}

double Transformed(const ColumnSpec& spec, double x) {
  if (spec.least) x = std::max(x, *spec.least);
  if (spec.most) x = std::min(x, *spec.most);
  if (spec.log) x = std::copysign(std::log1p(std::abs(x)), x);
  return (x - spec.mean) / spec.deviation;
}

}  // namespace

ColumnReader::ColumnReader(const DataSpec& data) : specs_(data.columns), label_(data.label) {
  for (const ColumnSpec& spec : specs_) {
    columns_.push_back({spec.name, spec.is_category() ? ColumnType::kInt64 : ColumnType::kFloat, 1, spec.categories()});
    std::vector<size_t>& from = from_.emplace_back();
    for (const std::string& field : spec.from) from.push_back(PlaceOf(field));
    if (spec.from.empty()) from.push_back(PlaceOf(spec.name));
    Places& words = words_.emplace_back();
    for (const std::string& word : spec.vocabulary) words.emplace(word, static_cast<int64_t>(words.size()));
  }
  label_from_ = PlaceOf(label_.column);
  for (size_t i = 0; i < label_.classes.size(); ++i) {
    for (const std::string& word : label_.classes[i]) classes_.emplace(word, static_cast<int64_t>(i));
  }
  columns_.push_back({kLabelColumn, label_.is_number ? ColumnType::kFloat : ColumnType::kInt64, 1,
                      static_cast<int64_t>(label_.classes.size())});
}

size_t ColumnReader::PlaceOf(const std::string& field) {
  const auto found = std::find(fields_.begin(), fields_.end(), field);
  if (found != fields_.end()) return static_cast<size_t>(found - fields_.begin());
  fields_.push_back(field);
  return fields_.size() - 1;
}

std::vector<ColumnValues> ColumnReader::Room(size_t examples) const {
  std::vector<ColumnValues> room(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].type == ColumnType::kFloat) {
      room[i].emplace<std::vector<float>>(examples);
    } else {
      room[i].emplace<std::vector<int64_t>>(examples);
    }
  }
  return room;
}

absl::Status ColumnReader::Take(absl::Span<const FieldValue> values, size_t row, std::vector<ColumnValues>* to) const {
  for (size_t i = 0; i < specs_.size(); ++i) {
    const ColumnSpec& spec = specs_[i];
    if (spec.kind == ColumnKind::kVocabulary || spec.kind == ColumnKind::kHash) {
      std::get<std::vector<int64_t>>((*to)[i])[row] = CategoryOf(i, values);
      continue;
    }
    const FieldValue& value = values[from_[i].front()];
    double number = 0;
    if (absl::Status status = TakeNumber(spec, value, &number); !status.ok()) return status;
    if (spec.kind == ColumnKind::kBuckets) {
      const auto above = std::upper_bound(spec.boundaries.begin(), spec.boundaries.end(), number);
      std::get<std::vector<int64_t>>((*to)[i])[row] = above - spec.boundaries.begin();
      continue;
    }
    const auto narrow = static_cast<float>(Transformed(spec, number));
    if (!std::isfinite(narrow)) {
      return Wrong(fields_[from_[i].front()], value,
                   absl::StrCat("is beyond what a float holds: clip column ", Quoted(spec.name), " or take its log"));
    }
    std::get<std::vector<float>>((*to)[i])[row] = narrow;
  }
  return TakeLabel(values[label_from_], row, &to->back());
}

absl::Status ColumnReader::TakeNumber(const ColumnSpec& spec, const FieldValue& value, double* number) const {
  if (const std::optional<double> found = FiniteNumber(value)) {
    *number = *found;
    return absl::OkStatus();
  }
  const std::string& field = spec.from.empty() ? spec.name : spec.from.front();
  if (!IsNothing(value)) {
    return Wrong(field, value,
                 absl::StrCat("is no number: make column ", Quoted(spec.name),
                              " a vocabulary or a hash, or leave such records out by data.skip"));
  }
  if (!spec.fill) {
    return Wrong(field, value,
                 absl::StrCat("stands for a missing value: give column ", Quoted(spec.name),
                              " a default, or leave such records out by data.skip"));
  }
  *number = *spec.fill;
  return absl::OkStatus();
}

int64_t ColumnReader::CategoryOf(size_t column, absl::Span<const FieldValue> values) const {
  WordBuffer buffer;
  const ColumnSpec& spec = specs_[column];
  if (spec.kind == ColumnKind::kVocabulary) {
    const auto found = words_[column].find(WordOf(values[from_[column].front()], &buffer));
    return found == words_[column].end() ? spec.categories() - 1 : found->second;
  }
  uint64_t hash = 0;
  for (const size_t place : from_[column]) {
    hash = HashWord(IsNothing(values[place]) ? std::string_view() : WordOf(values[place], &buffer), hash);
  }
  return static_cast<int64_t>(hash % static_cast<uint64_t>(std::max<int64_t>(1, spec.hash)));
}

absl::Status ColumnReader::TakeLabel(const FieldValue& value, size_t row, ColumnValues* to) const {
  if (!label_.classes.empty()) {
    WordBuffer buffer;
    const auto found = classes_.find(WordOf(value, &buffer));
    if (found == classes_.end()) {
      return Wrong(label_.column, value,
                   "is no word of data.label.classes: add it to a class, or leave such records out by data.skip");
    }
    std::get<std::vector<int64_t>>(*to)[row] = found->second;
    return absl::OkStatus();
  }
  const std::optional<double> number = FiniteNumber(value);
  if (label_.is_number) {
    const auto narrow = static_cast<float>(number.value_or(INFINITY));
    if (!std::isfinite(narrow)) {
      return Wrong(label_.column, value, "is no number to be learned: leave such records out by data.skip");
    }
    std::get<std::vector<float>>(*to)[row] = narrow;
    return absl::OkStatus();
  }
  if (!number || *number < 0 || *number >= kMostClasses || *number != std::floor(*number)) {
    return Wrong(
        label_.column, value,
        "is no class from 0 to 999999: name the words of each class in data.label.classes, or leave such records out "
        "by data.skip");
  }
  std::get<std::vector<int64_t>>(*to)[row] = static_cast<int64_t>(*number);
  return absl::OkStatus();
}

}  // namespace downpour
