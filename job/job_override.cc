#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/job_parse.h"

namespace downpour {
namespace {

using Kind = YamlNode::Kind;

void MarkOverridden(YamlNode& node) {
  node.overridden = true;
  for (YamlNode& item : node.items) MarkOverridden(item);
  for (YamlEntry& entry : node.entries) MarkOverridden(entry.value);
}

// The child of `parent` that `step` names, made if need be; nullptr and a reason where there can be none.
YamlNode* Child(YamlNode& parent, const std::string& step, std::string* why) {
  if (parent.Is(Kind::kNull)) {
    parent.kind = Kind::kMap;
    parent.overridden = true;
  }
  if (parent.Is(Kind::kMap)) {
    if (YamlNode* child = parent.Find(step)) return child;
    YamlNode absent;
    absent.overridden = true;
    parent.entries.push_back({step, 0, 0, std::move(absent)});
    return &parent.entries.back().value;
  }
  size_t index = 0;
  if (parent.Is(Kind::kSequence) && absl::SimpleAtoi(step, &index) && index < parent.items.size()) {
    return &parent.items[index];
  }
  *why = parent.Is(Kind::kSequence)
             ? absl::StrCat(step, " is no place in a list of ", parent.items.size(), ", which counts from 0")
             : absl::StrCat("there is no ", step, " in ", Describe(parent));
  return nullptr;
}

void Apply(const std::string& override_text, YamlNode& root, JobErrors& errors) {
  const size_t equals = override_text.find('=');
  const std::string path = override_text.substr(0, equals);
  const std::vector<std::string> steps = absl::StrSplit(path, '.');
  if (equals == std::string::npos || std::find(steps.begin(), steps.end(), "") != steps.end() ||
      steps.size() > kMaxYamlDepth) {
    return errors.AddOverride("", absl::StrCat(override_text, " is not of the form training.epochs=3"));
  }
  YamlTree value = ReadYaml(override_text.substr(equals + 1));
  for (const YamlError& error : value.errors) errors.AddOverride(path, error.what, error.remedy);
  if (!value.errors.empty()) return;
  MarkOverridden(value.root);

  YamlNode* node = &root;
  YamlNode* parent = nullptr;
  for (const std::string& step : steps) {
    std::string why;
    parent = std::exchange(node, Child(*node, step, &why));
    if (node == nullptr) return errors.AddOverride(path, why);
  }
  if (value.root.Is(Kind::kNull) && parent->Is(Kind::kMap)) {
    errors.NoteRemoved(path);
    std::erase_if(parent->entries, [&](const YamlEntry& entry) { return entry.key == steps.back(); });
  } else {
    *node = std::move(value.root);
  }
}

}  // namespace

void ApplyOverrides(const std::vector<std::string>& overrides, YamlNode& root, JobErrors& errors) {
  for (const std::string& text : overrides) Apply(text, root, errors);
}

}  // namespace downpour
