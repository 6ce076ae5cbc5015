#include "job/job_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/nearest_name.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Kind = YamlNode::Kind;

constexpr size_t kMostOfAText = 64;    // characters of a value that an error repeats
constexpr size_t kLongestText = 4096;  // bytes; as the codec allows
constexpr size_t kLongestName = 64;
constexpr double kLongestHours = 1000;  // exact in nanoseconds as a double

bool AllDigits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// The digits, a point and an exponent of YAML's core schema; no hexadecimal, no inf, no nan.
bool LooksLikeNumber(const std::string& text) {
  const std::string body = !text.empty() && (text[0] == '-' || text[0] == '+') ? text.substr(1) : text;
  double ignored;
  return !body.empty() && body.find_first_not_of("0123456789.eE+-") == std::string::npos &&
         body.find_first_of("0123456789") != std::string::npos && absl::SimpleAtod(body, &ignored);
}

// What some YAML readers take for a boolean or for nothing.
bool LooksLikeWord(const std::string& text) {
  static constexpr const char* kWords[] = {"true", "false", "yes", "no", "on", "off", "null", "~"};
  const std::string lower = absl::AsciiStrToLower(text);
  return std::any_of(std::begin(kWords), std::end(kWords), [&](const char* word) { return lower == word; });
}

bool IsPlainScalar(const YamlNode& node) { return node.Is(Kind::kScalar) && !node.quoted; }

}  // namespace

void JobErrors::AddAt(const YamlNode& at, const std::string& key, std::string what, std::string remedy,
                      bool of_itself) {
  const bool by_hand = at.overridden || removed_.contains(key);
  Add({.file = by_hand ? kSetByHand : file_,
       .line = by_hand ? 0 : at.line,
       .column = by_hand ? 0 : at.column,
       .key = key,
       .what = std::move(what),
       .remedy = std::move(remedy),
       .of_itself = of_itself});
}

void JobErrors::Add(JobError error) {
  if (!full()) errors_.push_back(std::move(error));
}

std::vector<JobError> JobErrors::Take() {
  std::stable_sort(errors_.begin(), errors_.end(), [](const JobError& a, const JobError& b) {
    if ((a.line == 0) != (b.line == 0)) return b.line == 0;
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  return std::move(errors_);
}

const std::vector<YamlNode>& ItemsOf(const YamlNode* node, const std::string& path, size_t most, JobErrors& errors) {
  static const auto* const none = new std::vector<YamlNode>;
  if (node == nullptr) return *none;
  if (node->Is(YamlNode::Kind::kSequence) && !node->items.empty() && node->items.size() <= most) return node->items;
  errors.AddOfItself(*node, path,
                     node->Is(YamlNode::Kind::kSequence)
                         ? absl::StrCat("has ", node->items.size(), " entries, but 1 to ", most, " are allowed")
                         : absl::StrCat("must be a list, but is ", Describe(*node)));
  return *none;
}

const std::vector<YamlNode>& MaybeItemsOf(const YamlNode* node, const std::string& path, size_t most,
                                          JobErrors& errors) {
  const bool is_empty = node != nullptr && node->Is(YamlNode::Kind::kSequence) && node->items.empty();
  return ItemsOf(is_empty ? nullptr : node, path, most, errors);
}

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kMap:
      return "a map";
    case Kind::kSequence:
      return "a list";
    case Kind::kScalar:
      break;
  }
  const char* quote = node.quoted ? "\"" : "";
  const char* more = node.text.size() > kMostOfAText ? "..." : "";
  return absl::StrCat(quote, CleanText(node.text, kMostOfAText), more, quote);
}

bool ReadArgument(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* out) {
  std::string what, remedy;
  if (!node.Is(Kind::kScalar)) {
    what = absl::StrCat("must be text, but is ", Describe(node));
  } else if (!node.quoted && (LooksLikeNumber(node.text) || LooksLikeWord(node.text))) {
    what = absl::StrCat("must be text, but ", node.text, " reads as a number, a boolean or nothing");
    remedy = absl::StrCat("write \"", node.text, "\"");
  } else if (node.text.size() > kLongestText) {
    what = absl::StrCat("is longer than ", kLongestText, " bytes");
  } else {
    *out = node.text;
    return true;
  }
  errors.AddOfItself(node, path, std::move(what), std::move(remedy));
  return false;
}

bool ReadText(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* out) {
  std::string text;
  if (!ReadArgument(node, path, errors, &text)) return false;
  if (text.empty()) {
    errors.AddOfItself(node, path, "must not be empty");
    return false;
  }
  *out = std::move(text);
  return true;
}

bool ReadName(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* out) {
  std::string name;
  if (!ReadText(node, path, errors, &name)) return false;
  if (IsPlainName(name) && name.size() <= kLongestName) {
    *out = std::move(name);
    return true;
  }
  errors.AddOfItself(node, path,
                     absl::StrCat("is ", Describe(node), ", but a name is 1 to ", kLongestName,
                                  " letters, digits, '_', '-' and '.', and does not begin with '.'"));
  return false;
}

bool ReadInteger(const YamlNode& node, const std::string& path, JobErrors& errors, int64_t min, int64_t max,
                 int64_t* out) {
  const bool negative = absl::StartsWith(node.text, "-");
  int64_t value = 0;
  if (!IsPlainScalar(node) || !AllDigits(node.text.substr(negative ? 1 : 0))) {
    errors.AddOfItself(node, path, absl::StrCat("must be a whole number, but is ", Describe(node)));
  } else if (!absl::SimpleAtoi(node.text, &value) || value < min || value > max) {
    errors.AddOfItself(node, path, absl::StrCat("is ", Describe(node), ", but must lie between ", min, " and ", max));
  } else {
    *out = value;
    return true;
  }
  return false;
}

bool ReadNumber(const YamlNode& node, const std::string& path, JobErrors& errors,
                const std::function<bool(double)>& good, const std::string& allowed, double* out) {
  double number = 0;
  if (!IsPlainScalar(node) || !LooksLikeNumber(node.text) || !absl::SimpleAtod(node.text, &number)) {
    errors.AddOfItself(node, path, absl::StrCat("must be a number, but is ", Describe(node)));
  } else if (!std::isfinite(number) || !good(number)) {
    errors.AddOfItself(node, path, absl::StrCat("is ", Describe(node), ", but must be ", allowed));
  } else {
    *out = number;
    return true;
  }
  return false;
}

MapReader::MapReader(const YamlNode& node, std::string path, JobErrors& errors)
    : node_(node), path_(std::move(path)), errors_(errors) {
  if (node.Is(Kind::kMap)) return;
  errors_.AddOfItself(node, path_, absl::StrCat("must be a map of keys and values, but is ", Describe(node)),
                      node.Is(Kind::kNull) ? "write them there, or take it out" : "");
}

const YamlNode* MapReader::Find(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  return node_.Find(key);
}

const YamlNode* MapReader::Require(const std::string& key) {
  const YamlNode* value = Find(key);
  if (value == nullptr && node_.Is(Kind::kMap) && !RefuseNothing(key, "give it a value")) {
    Fail(node_, key, "is missing");
  }
  return value;
}

bool MapReader::RefuseNothing(const std::string& key, const std::string& remedy) {
  for (const YamlEntry& entry : node_.entries) {
    if (entry.key != key || !entry.value.Is(Kind::kNull)) continue;
    YamlNode at = entry.value;
    at.line = entry.line;
    at.column = entry.column;
    Fail(at, key, "is there, but holds nothing (null)", remedy);
    return true;
  }
  return false;
}

void MapReader::FailOnlyWith(const std::string& key, const std::string& needed, const std::string& actual) {
  const YamlNode* value = Find(key);
  if (value != nullptr) Fail(*value, key, absl::StrCat("means something only with ", needed, ", but ", actual));
}

void MapReader::FailElsewhere(const std::string& key, std::string what, std::string remedy) {
  const YamlNode* value = node_.Find(key);
  if (value == nullptr) return;
  elsewhere_.push_back(key);
  Fail(*value, key, std::move(what), std::move(remedy));
}

bool MapReader::Integer(const std::string& key, int64_t min, int64_t max, int64_t* out) {
  const YamlNode* value = Find(key);
  return value != nullptr && ReadInteger(*value, PathOf(key), errors_, min, max, out);
}

bool MapReader::Seed(const std::string& key, uint64_t* out) {
  const YamlNode* value = Find(key);
  if (value == nullptr) return false;
  if (IsPlainScalar(*value) && AllDigits(value->text) && absl::SimpleAtoi(value->text, out)) return true;
  Refuse(*value, key, absl::StrCat("must be a whole number from 0 to ", UINT64_MAX, ", but is ", Describe(*value)));
  return false;
}

bool MapReader::Flag(const std::string& key, bool* out) {
  const YamlNode* value = Find(key);
  if (value == nullptr) return false;
  if (const std::optional<bool> flag = FlagIn(*value)) {
    *out = *flag;
    return true;
  }
  Refuse(*value, key, absl::StrCat("must be true or false, but is ", Describe(*value)));
  return false;
}

bool MapReader::Text(const std::string& key, std::string* out) {
  const YamlNode* value = Find(key);
  return value != nullptr && ReadText(*value, PathOf(key), errors_, out);
}

bool MapReader::Name(const std::string& key, std::string* out) {
  const YamlNode* value = Find(key);
  return value != nullptr && ReadName(*value, PathOf(key), errors_, out);
}

bool MapReader::Number(const std::string& key, const std::function<bool(double)>& good, const std::string& allowed,
                       double* out) {
  const YamlNode* value = Find(key);
  return value != nullptr && ReadNumber(*value, PathOf(key), errors_, good, allowed, out);
}

bool MapReader::Duration(const std::string& key, std::chrono::nanoseconds* out) {
  const YamlNode* value = Find(key);
  return value != nullptr && ReadDuration(*value, key, "", out);
}

bool MapReader::DurationOrAuto(const std::string& key, std::optional<std::chrono::nanoseconds>* out) {
  const YamlNode* value = Find(key);
  if (value == nullptr) return false;
  if (value->Is(Kind::kScalar) && value->text == kAuto) {
    out->reset();
    return true;
  }
  std::chrono::nanoseconds duration{};
  if (!ReadDuration(*value, key, absl::StrCat(kAuto, " or "), &duration)) return false;
  *out = duration;
  return true;
}

bool MapReader::ReadDuration(const YamlNode& value, const std::string& key, const std::string& or_else,
                             std::chrono::nanoseconds* out) {
  static constexpr Named<double> kUnits[] = {{1, "ns"},  {1e3, "us"}, {1e6, "ms"},
                                             {1e9, "s"}, {60e9, "m"}, {3600e9, "h"}};
  const std::string& text = value.text;
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit = text.substr(end);
  const auto known = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& u) { return unit == u.name; });
  double number = 0;
  const bool is_number =
      value.Is(Kind::kScalar) && LooksLikeNumber(text.substr(0, end)) && absl::SimpleAtod(text.substr(0, end), &number);
  if (!is_number || (known == std::end(kUnits) && !(unit.empty() && number == 0))) {
    Refuse(value, key,
           absl::StrCat("must be ", or_else, "a duration such as 500ms, 30s, 5m or 1h, but is ", Describe(value),
                        is_number && unit.empty() ? ", without a unit" : ""));
    return false;
  }
  const double nanoseconds = unit.empty() ? 0 : number * known->value;
  if (nanoseconds > kLongestHours * 3600e9) {
    Refuse(value, key, absl::StrCat("is ", Describe(value), ", but at most ", kLongestHours, "h are allowed"));
    return false;
  }
  *out = std::chrono::nanoseconds(std::llround(nanoseconds));
  return true;
}

int MapReader::Choose(const std::string& key, const std::vector<std::string>& allowed) {
  const YamlNode* value = Find(key);
  if (value == nullptr) return -1;
  const auto it = std::find(allowed.begin(), allowed.end(), value->text);
  if (value->Is(Kind::kScalar) && it != allowed.end()) return static_cast<int>(it - allowed.begin());
  Refuse(*value, key, absl::StrCat("is ", Describe(*value), ", but must be one of ", absl::StrJoin(allowed, ", ")),
         WhatWasMeant(value->text, allowed));
  return -1;
}

void MapReader::Finish() {
  for (const YamlEntry& entry : node_.entries) {
    if (errors_.full()) return;
    const auto is_among = [&](const std::vector<std::string>& keys) {
      return std::find(keys.begin(), keys.end(), entry.key) != keys.end();
    };
    if (is_among(known_) || is_among(elsewhere_)) continue;
    YamlNode at;
    at.line = entry.line;
    at.column = entry.column;
    at.overridden = entry.value.overridden;
    const std::string meant = WhatWasMeant(entry.key, known_);
    Refuse(at, CleanText(entry.key, kMostOfAText), "unknown key",
           meant.empty() ? absl::StrCat("known here: ", absl::StrJoin(known_, ", ")) : meant);
  }
}

}  // namespace downpour
