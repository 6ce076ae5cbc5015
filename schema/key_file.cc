#include "schema/key_file.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace downpour {
namespace {

constexpr const char* kFirstLine = "downpour-key 1";
constexpr size_t kKeyChars = 40;
constexpr size_t kClusterDigits = 32;

// Z85: each five characters are a number of 32 bits to the base of 85.
bool IsKey(const std::string& text) {
  static const std::string alphabet =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  if (text.size() != kKeyChars) return false;
  uint64_t number = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = alphabet.find(text[i]);
    if (digit == std::string::npos) return false;
    number = (i % 5 == 0 ? 0 : number * 85) + digit;
    if (number > UINT32_MAX) return false;
  }
  return true;
}

bool IsClusterId(const std::string& text) {
  return text.size() == kClusterDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

absl::StatusOr<KeyFile> ParseKeyFile(const std::string& text) {
  KeyFile file;
  bool has_role = false;
  size_t number = 0;
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(number, ": ", why));
  };
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (++number == 1) {
      if (line != kFirstLine) return refuse(absl::StrCat("this is no key file: it begins with \"", kFirstLine, "\""));
      continue;
    }
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size() - 1);
    const std::string word = line.substr(0, space), value = line.substr(space + 1);
    if (word == "cluster" && IsClusterId(value) && file.cluster.empty()) {
      file.cluster = value;
    } else if (word == "role" && !has_role) {
      const auto named = [&](PeerRole role) { return value == NameOf(role); };
      const auto* role = std::find_if(std::begin(kAllPeerRoles), std::end(kAllPeerRoles), named);
      if (role == std::end(kAllPeerRoles)) return refuse("the role is chief, ps, worker, client or viewer");
      file.role = *role;
      has_role = true;
    } else if (word == "public" && IsKey(value)) {
      file.public_keys.push_back(value);
    } else if (word == "secret" && IsKey(value) && file.secret_key.empty()) {
      file.secret_key = value;
    } else {  // the line is not repeated: it may be a secret
      return refuse(
          "expected cluster (32 hexadecimal digits) or role once, or public or secret and 40 characters of Z85");
    }
  }
  if (file.cluster.empty() || !has_role || file.public_keys.empty())
    return refuse("cluster, role or public is missing");
  return file;
}

std::string PrintKeyFile(const KeyFile& file) {
  std::string text = absl::StrCat(kFirstLine, "\ncluster ", file.cluster, "\nrole ", NameOf(file.role), "\n");
  for (const std::string& key : file.public_keys) absl::StrAppend(&text, "public ", key, "\n");
  if (!file.secret_key.empty()) absl::StrAppend(&text, "secret ", file.secret_key, "\n");
  return text;
}

}  // namespace downpour
