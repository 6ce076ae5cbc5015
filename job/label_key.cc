#include "job/label_key.h"

#include <array>
#include <charconv>
#include <cmath>

namespace downpour {

std::string LabelKey(std::string_view word) {
  std::string_view digits = word;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(number)) return std::string(word);
  std::array<char, 32> text;
  const double shown = number == 0 ? 0 : number;  // -0 is 0
  return std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), shown).ptr);
}

}  // namespace downpour
