#include "data/field_word.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace downpour {
namespace {

constexpr double kExactIntegers = 9007199254740992;

template <typename Number>
std::string_view Written(Number number, FieldWordBuffer* buffer) {
  char* const end = std::to_chars(buffer->data(), buffer->data() + buffer->size(), number).ptr;
  return {buffer->data(), end};
}

std::string_view Bracketed(size_t count, const char* what, FieldWordBuffer* buffer) {
  const int size = std::snprintf(buffer->data(), buffer->size(), "[%zu %s]", count, what);
  return {buffer->data(), static_cast<size_t>(size)};
}

}  // namespace

std::string_view FieldWord(const FieldValue& value, FieldWordBuffer* buffer) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&value)) return Written(*integer, buffer);
  if (const auto* integer = std::get_if<uint64_t>(&value)) return Written(*integer, buffer);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* list = std::get_if<FieldList>(&value)) return Bracketed(list->size(), "numbers", buffer);
  if (const auto* list = std::get_if<FieldItems>(&value)) return Bracketed(list->size(), "keys", buffer);
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return {};
  if (std::abs(*number) < kExactIntegers && *number == std::floor(*number)) {
    return Written(static_cast<int64_t>(*number), buffer);
  }
  const auto narrow = static_cast<float>(*number);  // files of floats are common, and a double shows how far off it is
  return static_cast<double>(narrow) == *number ? Written(narrow, buffer) : Written(*number, buffer);
}

}  // namespace downpour
