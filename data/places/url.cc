#include "data/places/url.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

namespace downpour {

std::string PercentEncode(std::string_view text, bool keeps_slashes) {
  std::string packed;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool stays =
        absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~' || (keeps_slashes && c == '/');
    if (stays) {
      packed.push_back(c);
    } else {
      absl::StrAppendFormat(&packed, "%%%02X", byte);
    }
  }
  return packed;
}

std::string PercentDecode(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_packed = text[i] == '%' && i + 2 < text.size() &&
                           absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
                           absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]));
    plain += is_packed ? absl::HexStringToBytes(std::string(text.substr(i + 1, 2))) : std::string(1, text[i]);
    if (is_packed) i += 2;
  }
  return plain;
}

std::string ShownUrl(std::string_view url) {
  const size_t scheme = url.find("://"), begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const size_t end = url.find_first_of("?#", begin);
  std::string_view shown = url.substr(begin, end - begin);
  const size_t at = shown.substr(0, shown.find('/')).rfind('@');
  if (at != std::string_view::npos) shown.remove_prefix(at + 1);
  return std::string(url.substr(0, begin)).append(shown).append(end == std::string_view::npos ? "" : "?...");
}

}  // namespace downpour
