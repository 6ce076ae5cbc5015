#include "schema/text.h"

#include <algorithm>
#include <cstdint>

#include "schema/typed_command.h"

namespace downpour {
namespace {

// The bytes of the character at the start of `text`, or 0 if there is none that may stand in a text.
// Source: the Unicode standard, table 3-7 (no overlong forms, no surrogates, nothing above U+10FFFF).
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto follows = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const uint8_t first = at(0);
  if (first < 0x80) return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\t' ? 1 : 0;
  if (first < 0xc2 || first > 0xf4 || !follows(1)) return 0;
  const bool c1_control = first == 0xc2 && at(1) < 0xa0;
  if (first < 0xe0) return c1_control ? 0 : 2;
  if (first < 0xf0) {
    const bool overlong = first == 0xe0 && at(1) < 0xa0;
    const bool surrogate = first == 0xed && at(1) > 0x9f;
    return !overlong && !surrogate && follows(2) ? 3 : 0;
  }
  const bool overlong = first == 0xf0 && at(1) < 0x90;
  const bool too_large = first == 0xf4 && at(1) > 0x8f;
  return !overlong && !too_large && follows(2) && follows(3) ? 4 : 0;
}

}  // namespace

bool IsText(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string CleanText(std::string_view text, size_t limit) {
  std::string clean;
  clean.reserve(std::min(text.size(), limit));
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (clean.size() + std::max<size_t>(bytes, 1) > limit) break;
    if (bytes == 0) {
      clean += '?';
    } else {
      clean += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return clean;
}

std::string OneLine(std::string_view text, size_t limit) {
  std::string line = CleanText(text, limit);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

bool IsPlainName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 128 && name[0] != '.' && std::all_of(name.begin(), name.end(), allowed);
}

std::string CommandToGoOn(const std::string& checkpoint, const std::string& command) {
  return checkpoint.empty() ? command : WithFlag(command, "--resume");
}

std::string HowToGoOn(const std::string& checkpoint, const std::string& command) {
  const std::string where = checkpoint.empty() ? "There is no checkpoint yet: start it again with "
                                               : "The last checkpoint is " + checkpoint + ": go on from it with ";
  return where + CommandToGoOn(checkpoint, command);
}

std::string Counted(uint64_t n, const std::string& one) {
  const char* plural = one.ends_with("batch") ? "es" : "s";
  return std::to_string(n) + " " + one + (n == 1 ? "" : plural);
}

std::string SomeOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return CleanText(text, 512);
}

std::string ShellWord(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ShellCommand(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + ShellWord(word);
  return command;
}

}  // namespace downpour
