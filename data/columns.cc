#include "data/columns.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "data/csv.h"
#include "data/field_word.h"
#include "job/label_key.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kShown = 40;                        // bytes of what a file has, in an error
constexpr double kExactIntegers = 9007199254740992;  // a double below it is one whole number and no other
constexpr double kMostClasses = 1'000'000;           // one counter of each is kept, and models take classes as int32

std::string Quoted(std::string_view text) { return absl::StrCat("'", OneLine(text, kShown), "'"); }

bool IsNothing(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return IsMissing(*text);
  if (const auto* number = std::get_if<double>(&value)) return std::isnan(*number);
  return value.index() == 0;
}

std::optional<double> FiniteNumber(const FieldValue& value, char decimal) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return NumberIn(*text, decimal);
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* integer = std::get_if<uint64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  const auto* number = std::get_if<double>(&value);
  return number != nullptr && std::isfinite(*number) ? std::optional(*number) : std::nullopt;
}

// A whole number as 64 bits: from -2^63 to 2^64 - 1, where those from 2^63 on have the bits of negative ones.
std::optional<int64_t> WholeNumber(const FieldValue& value, char decimal) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* integer = std::get_if<uint64_t>(&value)) return static_cast<int64_t>(*integer);
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    if (const std::optional<int64_t> integer = IntegerIn(*text)) return integer;
    uint64_t integer = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), integer);
    if (error == std::errc() && end == text->data() + text->size()) return static_cast<int64_t>(integer);
  }
  const std::optional<double> number = FiniteNumber(value, decimal);  // 7.0, as pandas writes where one is missing
  const bool is_whole = number && std::abs(*number) < kExactIntegers && *number == std::floor(*number);
  return is_whole ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
}

const std::string& FieldOf(const ColumnSpec& spec) { return spec.from.empty() ? spec.name : spec.from.front(); }

absl::Status Wrong(const std::string& field, const FieldValue& value, const std::string& what) {
  FieldWordBuffer buffer;
  return absl::InvalidArgumentError(
      absl::StrCat("field ", Quoted(field), ": ", Quoted(FieldWord(value, &buffer)), " ", what));
}

// A number stays what it is.
bool IsPlain(const ColumnSpec& spec) {
  return !spec.least && !spec.most && !spec.log && spec.mean == 0 && spec.deviation == 1;
}

double Transformed(const ColumnSpec& spec, double x) {
  if (spec.least) x = std::max(x, *spec.least);
  if (spec.most) x = std::min(x, *spec.most);
  if (spec.log) x = std::copysign(std::log1p(std::abs(x)), x);
  return (x - spec.mean) / spec.deviation;
}

// Whether all are finite, as floats. Without branches, so that several are taken at a time.
bool CopyFinite(FieldList from, absl::Span<float> to) {
  constexpr uint32_t kExponent = 0x7f800000;  // all of it set: infinite, or no number
  uint32_t largest = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<float>(from[i]);
    largest = std::max(largest, std::bit_cast<uint32_t>(to[i]) & kExponent);
  }
  return largest != kExponent;
}

}  // namespace

int64_t KeyOfHash(uint64_t hash) {
  const auto key = static_cast<int64_t>(hash);
  return key == kNoKey ? 0 : key;
}

ColumnReader::ColumnReader(const DataSpec& data)
    : specs_(data.columns), label_(data.label), weight_(data.weight), decimal_(data.decimal), keys_(KeyWidthsOf(data)) {
  for (const ColumnSpec& spec : specs_) {
    columns_.push_back({spec.name, spec.kind == ColumnKind::kNumber ? ColumnType::kFloat : ColumnType::kInt64,
                        spec.is_category() ? 1 : spec.numbers, spec.categories()});
    std::vector<size_t>& from = from_.emplace_back();
    for (const std::string& field : spec.from) from.push_back(PlaceOf(field));
    if (spec.from.empty()) from.push_back(PlaceOf(spec.name));
    Places& words = words_.emplace_back();
    for (const std::string& word : spec.vocabulary) words.emplace(word, static_cast<int64_t>(words.size()));
  }
  if (label_.is_there()) AddLabel();
  for (size_t column = 0; column < columns_.size(); ++column) from_text_.push_back(WayOf(column));
}

void ColumnReader::AddLabel() {
  std::vector<size_t>& label_from = from_.emplace_back();
  for (const std::string& field : label_.fields()) label_from.push_back(PlaceOf(field));
  for (size_t i = 0; i < label_.classes.size(); ++i) {
    for (const std::string& word : label_.classes[i]) {
      classes_.emplace(word, static_cast<int64_t>(i));
      classes_.emplace(LabelKey(word), static_cast<int64_t>(i));
    }
  }
  if (label_.is_set()) {
    columns_.push_back({kLabelColumn, ColumnType::kFloat, label_.outputs});
  } else {
    columns_.push_back({kLabelColumn, label_.is_number ? ColumnType::kFloat : ColumnType::kInt64, 1,
                        static_cast<int64_t>(label_.classes.size())});
  }
  if (weight_.empty()) return;
  from_.push_back({PlaceOf(weight_)});
  columns_.push_back({kWeightColumn, ColumnType::kFloat});
}

size_t ColumnReader::PlaceOf(const std::string& field) {
  const auto found = std::find(fields_.begin(), fields_.end(), field);
  if (found != fields_.end()) return static_cast<size_t>(found - fields_.begin());
  fields_.push_back(field);
  return fields_.size() - 1;
}

ColumnReader::FromText ColumnReader::WayOf(size_t column) const {
  using Way = FromText::Way;
  FromText from{.field = from_[column].front()};
  if (column >= specs_.size() || from_[column].size() > 1) return from;
  const ColumnSpec& spec = specs_[column];
  if (spec.kind == ColumnKind::kHash) from.way = Way::kHash;
  if (spec.kind == ColumnKind::kVocabulary) from.way = Way::kVocabulary;
  if (spec.kind == ColumnKind::kNumber && spec.numbers == 1 && decimal_ == '.') {
    from.way = IsPlain(spec) ? Way::kNumber : Way::kTransformed;
  }
  return from;
}

std::vector<ColumnValues> ColumnReader::Room(size_t examples) const {
  std::vector<ColumnValues> room(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    const size_t values = examples * static_cast<size_t>(columns_[i].width);
    if (columns_[i].type == ColumnType::kFloat) {
      room[i].emplace<std::vector<float>>(values);
    } else {
      room[i].emplace<std::vector<int64_t>>(values);
    }
  }
  return room;
}

absl::Status ColumnReader::Take(absl::Span<const FieldValue> values, size_t row, std::vector<ColumnValues>* to) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (absl::Status status = TakeOne(i, values, row, &(*to)[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool ColumnReader::TakeTexts(absl::Span<const std::string_view> texts, absl::Span<FieldValue> scratch, size_t row,
                             std::vector<ColumnValues>* to) const {
  using Way = FromText::Way;
  for (size_t column = 0; column < columns_.size(); ++column) {
    const auto [way, field] = from_text_[column];
    const std::string_view text = texts[field];
    ColumnValues& values = (*to)[column];
    if (way == Way::kOther) {
      for (const size_t place : from_[column]) scratch[place] = texts[place];
      if (!TakeOne(column, scratch, row, &values).ok()) return false;
    } else if (way == Way::kHash) {
      const uint64_t hash = HashWord(IsMissing(text) ? std::string_view() : text);
      std::get<std::vector<int64_t>>(values)[row] = CategoryOfHash(column, hash);
    } else if (way == Way::kVocabulary) {
      std::get<std::vector<int64_t>>(values)[row] = CategoryOfWord(column, text);
    } else {
      const std::optional<double> number = NumberIn(text);
      if (!number) return false;
      const auto narrow = static_cast<float>(way == Way::kNumber ? *number : Transformed(specs_[column], *number));
      if (!std::isfinite(narrow)) return false;
      std::get<std::vector<float>>(values)[row] = narrow;
    }
  }
  return true;
}

// Label and weight stand behind the columns.
absl::Status ColumnReader::TakeOne(size_t column, absl::Span<const FieldValue> values, size_t row,
                                   ColumnValues* to) const {
  if (column == specs_.size() && label_.is_set()) {
    const auto classes = static_cast<size_t>(label_.outputs);
    return TakeSet(values, absl::MakeSpan(std::get<std::vector<float>>(*to)).subspan(row * classes, classes));
  }
  if (column == specs_.size()) return TakeLabel(values[from_[column].front()], row, to);
  if (column > specs_.size()) {
    return TakeWeight(values[from_[column].front()], &std::get<std::vector<float>>(*to)[row]);
  }
  const ColumnSpec& spec = specs_[column];
  if (spec.kind == ColumnKind::kVocabulary || spec.kind == ColumnKind::kHash) {
    std::get<std::vector<int64_t>>(*to)[row] = CategoryOf(column, values);
    return absl::OkStatus();
  }
  const FieldValue& value = values[from_[column].front()];
  if (spec.kind == ColumnKind::kBuckets) {
    double number = 0;
    if (absl::Status status = TakeNumber(spec, value, &number); !status.ok()) return status;
    const auto above = std::upper_bound(spec.boundaries.begin(), spec.boundaries.end(), number);
    std::get<std::vector<int64_t>>(*to)[row] = above - spec.boundaries.begin();
    return absl::OkStatus();
  }
  const auto width = static_cast<size_t>(spec.numbers);
  if (spec.kind == ColumnKind::kNumber) {
    return TakeNumbers(spec, value, absl::MakeSpan(std::get<std::vector<float>>(*to)).subspan(row * width, width));
  }
  auto& keys = std::get<std::vector<int64_t>>(*to);
  if (from_[column].size() == 1) return TakeKeys(spec, value, absl::MakeSpan(keys).subspan(row * width, width));
  keys[row * width] = KeyOfHash(HashOf(column, values));
  return absl::OkStatus();
}

absl::Status ColumnReader::TakeColumns(absl::Span<const FieldColumn> fields, size_t rows, const BadRow& bad,
                                       std::vector<ColumnValues>* to) const {
  ColumnRows of(keys_, fields_);
  std::vector<FieldValue> values(fields_.size());
  std::map<size_t, absl::Status> wrong;  // of each bad row the first error
  for (size_t column = 0; column < columns_.size(); ++column) {
    const std::vector<size_t>& from = from_[column];
    if (TakePlainNumbers(column, fields[from.front()], rows, &(*to)[column])) continue;
    for (size_t row = 0; row < rows; ++row) {
      absl::Status status;
      for (const size_t field : from) {
        absl::StatusOr<FieldValue> value = of.At(field, fields[field], row);
        if (value.ok()) {
          values[field] = *value;
        } else {
          status = absl::InvalidArgumentError(
              absl::StrCat("field ", Quoted(fields_[field]), " has ", value.status().message()));
        }
      }
      if (status.ok()) status = TakeOne(column, values, row, &(*to)[column]);
      if (!status.ok()) wrong.emplace(row, std::move(status));
    }
  }
  for (const auto& [row, why] : wrong) {
    if (absl::Status status = bad(row, why); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool ColumnReader::TakePlainNumbers(size_t column, const FieldColumn& field, size_t rows, ColumnValues* to) const {
  if (column >= specs_.size() || field.is_list || !field.is_there.empty()) return false;
  const ColumnSpec& spec = specs_[column];
  const bool is_double = field.type == FieldColumn::Type::kDouble, is_int64 = field.type == FieldColumn::Type::kInt64;
  if (spec.numbers != 1 || from_[column].size() != 1 || (!is_double && !is_int64)) return false;
  if (spec.kind == ColumnKind::kKey) {
    if (!is_int64 || spec.key_is_text) return false;
    std::copy_n(field.integers.begin(), rows, std::get<std::vector<int64_t>>(*to).begin());
    return std::find(field.integers.begin(), field.integers.end(), kNoKey) == field.integers.end();
  }
  if (spec.kind != ColumnKind::kNumber) return false;
  std::vector<float>& floats = std::get<std::vector<float>>(*to);
  const bool is_plain = IsPlain(spec);
  bool are_finite = true;
  const auto take = [&](const auto& numbers) {
    for (size_t row = 0; row < rows; ++row) {
      const auto number = static_cast<double>(numbers[row]);
      floats[row] = static_cast<float>(is_plain ? number : Transformed(spec, number));
      are_finite &= std::isfinite(number) && std::isfinite(floats[row]);
    }
  };
  is_double ? take(field.doubles) : take(field.integers);
  return are_finite;  // otherwise one by one, which tells what is wrong, or fills in what is missing
}

absl::Status ColumnReader::TakeNumbers(const ColumnSpec& spec, const FieldValue& value, absl::Span<float> to) const {
  const auto* list = std::get_if<FieldList>(&value);
  const std::string& field = FieldOf(spec);
  double one = 0;
  FieldList numbers(&one, 1);
  if (list != nullptr) {
    numbers = *list;
  } else if (absl::Status status = TakeNumber(spec, value, &one); !status.ok()) {
    return status;
  }
  const bool is_filled = list == nullptr && IsNothing(value);  // then all of them are
  if (numbers.size() != to.size() && !is_filled) {
    return Wrong(field, value,
                 absl::StrCat("is not what column ", Quoted(spec.name), " takes, whose width is ", to.size()));
  }
  const bool is_plain = IsPlain(spec);
  if (is_plain && list != nullptr && CopyFinite(numbers, to)) return absl::OkStatus();
  for (size_t i = 0; i < to.size(); ++i) {
    double number = numbers[is_filled ? 0 : i];
    if (std::isnan(number)) {
      if (absl::Status status = TakeNumber(spec, number, &number); !status.ok()) return status;
    }
    to[i] = static_cast<float>(is_plain ? number : Transformed(spec, number));
    if (std::isfinite(to[i])) continue;
    return Wrong(field, number,
                 absl::StrCat("is beyond what a float holds",
                              Remedy(absl::StrCat("clip column ", Quoted(spec.name), " or take its log"),
                                     "write one of at most 3.4e38")));
  }
  return absl::OkStatus();
}

absl::Status ColumnReader::TakeNumber(const ColumnSpec& spec, const FieldValue& value, double* number) const {
  if (const std::optional<double> found = FiniteNumber(value, decimal_)) {
    *number = *found;
    return absl::OkStatus();
  }
  const std::string& field = FieldOf(spec);
  if (!IsNothing(value)) {
    const std::string remedy =
        absl::StrCat("make column ", Quoted(spec.name), " a vocabulary or a hash, ",
                     "leave such records out by data.skip, or say what stands before fractions ", "by data.decimal");
    return Wrong(field, value, absl::StrCat("is no number", Remedy(remedy, "write a finite one")));
  }
  if (!spec.fill) {
    const std::string remedy =
        absl::StrCat("give column ", Quoted(spec.name), " a default, or leave such records out by data.skip");
    return Wrong(field, value,
                 absl::StrCat("stands for a missing value",
                              Remedy(remedy, "write a number, since the model was trained without a default for it")));
  }
  *number = *spec.fill;
  return absl::OkStatus();
}

absl::Status ColumnReader::TakeKeys(const ColumnSpec& spec, const FieldValue& value, absl::Span<int64_t> to) const {
  std::fill(to.begin(), to.end(), kNoKey);
  const auto* items = std::get_if<FieldItems>(&value);
  if (items == nullptr) return IsNothing(value) ? absl::OkStatus() : TakeKey(spec, value, &to[0]);
  if (items->size() > to.size()) {
    const std::string remedy =
        absl::StrCat("give column ", Quoted(spec.name), " a larger width, or leave such records out by data.skip");
    return absl::InvalidArgumentError(absl::StrCat("field ", Quoted(FieldOf(spec)), " has more than ",
                                                   Counted(to.size(), "key"), Remedy(remedy, "leave out the others")));
  }
  for (size_t i = 0; i < items->size(); ++i) {
    const FieldValue one = std::visit([](const auto& item) { return FieldValue(item); }, (*items)[i]);
    if (absl::Status status = TakeKey(spec, one, &to[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ColumnReader::TakeKey(const ColumnSpec& spec, const FieldValue& value, int64_t* key) const {
  if (spec.key_is_text) {
    if (std::holds_alternative<FieldList>(value)) return Wrong(FieldOf(spec), value, "are no texts or whole numbers");
    FieldWordBuffer buffer;
    *key = KeyOfHash(HashWord(FieldWord(value, &buffer)));
    return absl::OkStatus();
  }
  const std::optional<int64_t> whole = WholeNumber(value, decimal_);
  if (whole && *whole != kNoKey) {
    *key = *whole;
    return absl::OkStatus();
  }
  const char* const what =
      whole ? "is -2^63 in 64 bits, the one number that is no key" : "is no key, which is a whole number of 64 bits";
  const std::string remedy =
      absl::StrCat("give column ", Quoted(spec.name), " key: text, or leave such records out by data.skip");
  return Wrong(FieldOf(spec), value, absl::StrCat(what, Remedy(remedy, "write another one, or none")));
}

std::string ColumnReader::Remedy(const std::string& of_data, const std::string& of_request) const {
  return absl::StrCat(": ", !label_.is_there() ? of_request : of_data);
}

int64_t ColumnReader::CategoryOf(size_t column, absl::Span<const FieldValue> values) const {
  if (specs_[column].kind == ColumnKind::kHash) return CategoryOfHash(column, HashOf(column, values));
  FieldWordBuffer buffer;
  return CategoryOfWord(column, FieldWord(values[from_[column].front()], &buffer));
}

int64_t ColumnReader::CategoryOfWord(size_t column, std::string_view word) const {
  const auto found = words_[column].find(word);
  return found == words_[column].end() ? specs_[column].categories() - 1 : found->second;
}

int64_t ColumnReader::CategoryOfHash(size_t column, uint64_t hash) const {
  return static_cast<int64_t>(hash % static_cast<uint64_t>(std::max<int64_t>(1, specs_[column].hash)));
}

uint64_t ColumnReader::HashOf(size_t column, absl::Span<const FieldValue> values) const {
  FieldWordBuffer buffer;
  uint64_t hash = 0;
  for (const size_t place : from_[column]) {
    hash = HashWord(IsNothing(values[place]) ? std::string_view() : FieldWord(values[place], &buffer), hash);
  }
  return hash;
}

absl::Status ColumnReader::TakeWeight(const FieldValue& value, float* to) const {
  const std::optional<double> number = IsNothing(value) ? std::nullopt : FiniteNumber(value, decimal_);
  *to = static_cast<float>(number.value_or(NAN));
  if (number && *number >= 0 && std::isfinite(*to)) return absl::OkStatus();
  return Wrong(
      weight_, value,
      absl::StrCat(IsNothing(value) ? "stands for a missing weight" : "is no weight", ", which is a number from ",
                   "0 to 3.4e38: correct it, or leave such records out by data.skip"));
}

absl::Status ColumnReader::TakeLabel(const FieldValue& value, size_t row, ColumnValues* to) const {
  if (!label_.is_number) return TakeClass(value, &std::get<std::vector<int64_t>>(*to)[row]);
  const std::optional<double> number = FiniteNumber(value, decimal_);
  const auto narrow = static_cast<float>((number.value_or(INFINITY) - label_.mean) / label_.deviation);
  if (!std::isfinite(narrow)) {
    return Wrong(label_.column, value, "is no number to be learned: leave such records out by data.skip");
  }
  std::get<std::vector<float>>(*to)[row] = narrow;
  return absl::OkStatus();
}

absl::Status ColumnReader::TakeClass(const FieldValue& value, int64_t* to) const {
  if (!label_.classes.empty()) {
    FieldWordBuffer buffer;
    const std::string_view word = FieldWord(value, &buffer);
    auto found = classes_.find(word);
    if (found == classes_.end()) found = classes_.find(LabelKey(word));
    if (found == classes_.end()) {
      return Wrong(label_.column, value,
                   "is no word of data.label.classes: add it to a class, or leave such records out by data.skip");
    }
    *to = found->second;
    return absl::OkStatus();
  }
  const std::optional<double> number = FiniteNumber(value, decimal_);
  const double most = label_.is_set() ? static_cast<double>(label_.outputs) : kMostClasses;
  if (!number || *number < 0 || *number >= most || *number != std::floor(*number)) {
    return Wrong(label_.column, value,
                 absl::StrCat("is no class from 0 to ", static_cast<int64_t>(most) - 1,
                              ": name the words of each class in data.label.classes, or leave such records out by "
                              "data.skip"));
  }
  *to = static_cast<int64_t>(*number);
  return absl::OkStatus();
}

absl::Status ColumnReader::TakeSet(absl::Span<const FieldValue> values, absl::Span<float> to) const {
  const std::vector<size_t>& from = from_[specs_.size()];
  std::fill(to.begin(), to.end(), 0.0f);
  if (label_.is_multiple) return AddClasses(values[from.front()], to);
  for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    const std::optional<double> number = FiniteNumber(values[from[i]], decimal_);
    if (number != 0 && number != 1) {
      return Wrong(label_.of_outputs[i], values[from[i]],
                   "is neither 0 nor 1, which say whether an example is of that class: correct it, or leave such "
                   "records out by data.skip");
    }
    to[i] = static_cast<float>(*number);
  }
  return absl::OkStatus();
}

// A field with nothing in it is an empty set. What stands for nothing is no class, unless one has that word.
absl::Status ColumnReader::AddClasses(const FieldValue& value, absl::Span<float> to) const {
  const auto add = [&](const FieldValue& one) {
    const auto* word = std::get_if<std::string_view>(&one);
    if (IsNothing(one) && (word == nullptr || !classes_.contains(*word))) return absl::OkStatus();
    int64_t place = 0;
    if (absl::Status status = TakeClass(one, &place); !status.ok()) return status;
    if (static_cast<size_t>(place) >= to.size()) return Wrong(label_.column, one, "has no output of the model");
    to[static_cast<size_t>(place)] = 1;
    return absl::OkStatus();
  };
  if (const auto* items = std::get_if<FieldItems>(&value)) {
    absl::Status status;
    if (items->size() > kMostClassesOfExample) status = Wrong(label_.column, value, "has more than 65536 classes");
    for (size_t i = 0; i < items->size() && status.ok(); ++i) {
      status = add(std::visit([](const auto& item) { return FieldValue(item); }, (*items)[i]));
    }
    return status;
  }
  const auto* text = std::get_if<std::string_view>(&value);
  if (text == nullptr || !label_.separator) return add(value);
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text->data(), text->size()), *label_.separator)) {
    if (absl::Status status = add(TrimmedField({part.data(), part.size()})); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace downpour
