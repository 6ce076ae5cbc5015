#include "job/job_settings.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kMostSettings = 1'000;

class Settings {
 public:
  explicit Settings(JobErrors& errors) : errors_(errors) {}

  // `key`: of the map or value `node`; empty of the section itself.
  void Add(const YamlNode& node, const std::string& key) {
    const bool is_map = node.Is(YamlNode::Kind::kMap);
    if (key.empty() && !is_map) {
      return errors_.AddOfItself(node, kSettingsSection,
                                 absl::StrCat("must be a map of keys of a job file, but is ", Describe(node)));
    }
    if (is_map && (key.empty() || !node.entries.empty())) {
      for (const YamlEntry& entry : node.entries) Add(entry, key.empty() ? entry.key : key + "." + entry.key);
      return;
    }
    if (settings_.size() == kMostSettings) {
      return errors_.AddOfItself(node, kSettingsSection, absl::StrCat("has more than ", kMostSettings, " settings"));
    }
    const std::string value = node.Is(YamlNode::Kind::kNull) ? "" : JsonOf(node).dump();
    settings_.push_back({absl::StrCat(key, "=", value), node.line});
  }

  std::vector<PlacedEntry> Take() { return std::move(settings_); }

 private:
  void Add(const YamlEntry& entry, const std::string& key) {
    if (errors_.full()) return;
    if (KeyOfSetting(entry.key + "=") == entry.key) return Add(entry.value, key);
    YamlNode at;
    at.line = entry.line;
    at.column = entry.column;
    errors_.AddOfItself(at, absl::StrCat(kSettingsSection, ".", CleanText(key, 100)),
                        "is no key of a job file, such as training.epochs");
  }

  JobErrors& errors_;
  std::vector<PlacedEntry> settings_;
};

}  // namespace

std::vector<PlacedEntry> SettingsIn(const YamlNode& section, JobErrors& errors) {
  Settings settings(errors);
  settings.Add(section, "");
  return settings.Take();
}

std::string KeyOfSetting(const std::string& entry) {
  const std::string key = entry.substr(0, entry.find('='));
  const bool has_gap = key.empty() || key.front() == '.' || key.back() == '.' || absl::StrContains(key, "..");
  return has_gap || key == entry ? "" : key;
}

json JsonOf(const YamlNode& node) {
  json value;
  if (node.Is(YamlNode::Kind::kSequence)) {
    value = json::array();
    for (const YamlNode& item : node.items) value.push_back(JsonOf(item));
  } else if (node.Is(YamlNode::Kind::kMap)) {
    value = json::object();
    for (const YamlEntry& entry : node.entries) value[entry.key] = JsonOf(entry.value);
  } else if (node.Is(YamlNode::Kind::kScalar)) {
    value = node.text;
    if (node.quoted) return value;
    if (const std::optional<bool> flag = FlagIn(node)) return *flag;
    double number = 0;  // of decimal digits: 0x10 is text, as everywhere in a job file
    if (node.text.find_first_of("xX") != std::string::npos) return value;
    if (!absl::SimpleAtod(node.text, &number) || !std::isfinite(number)) return value;
    const json exact = json::parse(node.text, nullptr, /*allow_exceptions=*/false);
    int64_t whole = 0;
    if (exact.is_number()) return exact;
    return absl::SimpleAtoi(node.text, &whole) ? json(whole) : json(number);  // +5, 007
  }
  return value;
}

}  // namespace downpour
