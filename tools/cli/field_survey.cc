#include "tools/cli/field_survey.h"

#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "data/csv.h"
#include "data/key_items.h"

namespace downpour {
namespace {

constexpr double kExactWhole = 9007199254740992;     // 2^53
constexpr int64_t kExactInteger = int64_t{1} << 53;  //
constexpr double kExactFloat = 16777216;             // 2^24
constexpr double kMostFloat = std::numeric_limits<float>::max();
constexpr double kEndOfIntegers = 9223372036854775808.;  // 2^63
constexpr uint32_t kTypes = FieldSurvey::kText | FieldSurvey::kTruth | FieldSurvey::kWhole | FieldSurvey::kNegative |
                            FieldSurvey::kHuge | FieldSurvey::kFraction | FieldSurvey::kWide;

FieldType TypeOf(uint32_t sights) {
  sights &= kTypes;
  if (sights == 0) return FieldType::kNothing;
  if (sights == FieldSurvey::kText) return FieldType::kText;
  if (sights == FieldSurvey::kTruth) return FieldType::kTruth;
  if (sights & (FieldSurvey::kText | FieldSurvey::kTruth)) return FieldType::kMixed;
  const bool is_wide = sights & FieldSurvey::kWide, is_huge = sights & FieldSurvey::kHuge;
  if (sights & FieldSurvey::kFraction) return is_wide ? FieldType::kMixed : FieldType::kNumber;
  if (!is_huge) return FieldType::kInteger;
  return sights & FieldSurvey::kNegative ? FieldType::kMixed : FieldType::kUnsigned;
}

// 00501 and -01 are words that look like numbers.
bool HasNeedlessZero(std::string_view word) {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  return word.size() > 1 && word[0] == '0' && word[1] >= '0' && word[1] <= '9';
}

bool IsAllDigits(std::string_view word) {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<uint64_t> UnsignedIn(std::string_view word) {
  uint64_t number = 0;
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(number) : std::nullopt;
}

// A word of a file without types as the number that it is.
FieldValue NumberOfWord(std::string_view word, FieldType type) {
  if (IsMissing(word)) return std::monostate();
  if (type == FieldType::kNumber) {
    const std::optional<double> number = NumberIn(word);
    return number ? FieldValue(*number) : FieldValue(word);
  }
  if (const std::optional<int64_t> integer = IntegerIn(word)) return *integer;
  const std::optional<uint64_t> number = UnsignedIn(word);
  return number ? FieldValue(*number) : FieldValue(word);
}

bool IsOfNumbers(FieldType type) {
  return type == FieldType::kInteger || type == FieldType::kUnsigned || type == FieldType::kNumber;
}

}  // namespace

void FieldSurvey::Add(const FieldValue& value, bool is_typed, Place place) {
  if (const auto* numbers = std::get_if<FieldList>(&value)) {
    See(kList, is_typed, place);
    for (const double number : *numbers) AddNumber(number, is_typed, place);
  } else if (const auto* items = std::get_if<FieldItems>(&value)) {
    See(kList, is_typed, place);
    for (const FieldItem& item : *items) {
      if (std::holds_alternative<std::monostate>(item)) See(kMissingItem, is_typed, place);
      AddItem(item, is_typed, place);
    }
  } else {
    AddItem(ItemOf(value), is_typed, place);
  }
}

void FieldSurvey::AddItem(const FieldItem& item, bool is_typed, Place place) {
  if (const auto* text = std::get_if<std::string_view>(&item)) {
    AddText(*text, is_typed, place);
  } else if (const auto* number = std::get_if<double>(&item)) {
    AddNumber(*number, is_typed, place);
  } else if (const auto* integer = std::get_if<int64_t>(&item)) {
    const bool is_wide = *integer > kExactInteger || *integer < -kExactInteger;
    See(uint32_t{*integer < 0 ? kNegative : kWhole} | (is_wide ? uint32_t{kWide} : 0), is_typed, place);
  } else if (const auto* huge = std::get_if<uint64_t>(&item)) {
    See(uint32_t{*huge >> 63 ? kHuge : kWhole} | kWide, is_typed, place);
  } else if (std::holds_alternative<bool>(item)) {
    See(kTruth, is_typed, place);
  }
}

void FieldSurvey::AddText(std::string_view text, bool is_typed, Place place) {
  if (!simdjson::validate_utf8(text.data(), text.size())) See(kNoUtf8, is_typed, place);
  if (text.find('\0') != std::string_view::npos) See(kNull, is_typed, place);
  if (is_typed) return See(kText, true, place);
  if (text.empty() || IsMissing(text)) return;  // missing in a field of numbers, and a word in one of words
  if (HasNeedlessZero(text)) return See(kText, false, place);
  if (const std::optional<int64_t> integer = IntegerIn(text)) return AddItem(*integer, false, place);
  if (const std::optional<uint64_t> huge = UnsignedIn(text)) return AddItem(*huge, false, place);
  const std::optional<double> number = IsAllDigits(text) ? std::nullopt : NumberIn(text);
  number ? SeeFraction(*number, false, place) : See(kText, false, place);
}

void FieldSurvey::AddNumber(double number, bool is_typed, Place place) {
  if (!is_typed && std::abs(number) < kExactWhole && number == std::floor(number)) {
    return See(number < 0 ? kNegative : kWhole, false, place);
  }
  SeeFraction(number, is_typed, place);
}

void FieldSurvey::SeeFraction(double number, bool is_typed, Place place) {
  See(kFraction, is_typed, place);
  if (std::isinf(number)) return See(kInfinite, is_typed, place);
  if (std::abs(number) > kMostFloat) return See(kBeyondFloat, is_typed, place);
  if (std::abs(number) >= kExactFloat && double{static_cast<float>(number)} != number) See(kRounded, is_typed, place);
}

void FieldSurvey::See(uint32_t sights, bool is_typed, Place place) {
  uint32_t& seen = is_typed ? typed_ : untyped_;
  if ((seen & sights) == sights) return;
  seen |= sights;
  const std::string where = place();
  for (uint32_t sight = 1; sight <= sights; sight <<= 1) {
    if (sights & sight) places_.emplace(sight, where);
  }
}

FieldType FieldSurvey::type() const {
  // Words that are no numbers of one kind are words.
  const bool are_words = (untyped_ & kText) || TypeOf(untyped_) == FieldType::kMixed;
  return TypeOf(typed_ | (are_words ? uint32_t{kText} : untyped_));
}

std::string FieldSurvey::place(Sight sight) const {
  const auto found = places_.find(sight);
  return found == places_.end() ? "" : found->second;
}

FieldValue FieldSurvey::Typed(const FieldValue& value, bool is_typed) const {
  if (is_typed) return value;
  const FieldType type = this->type();
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    if (text->empty() || (type == FieldType::kNothing && IsMissing(*text))) return std::monostate();
    return IsOfNumbers(type) ? NumberOfWord(*text, type) : value;
  }
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr || type == FieldType::kNumber || std::abs(*number) >= kEndOfIntegers) return value;
  return static_cast<int64_t>(*number);
}

}  // namespace downpour
