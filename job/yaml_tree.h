// YAML text as a tree with places, within bounds and without YAML's surprises.
//
// Bounds: at most 1 MiB of text, 64 levels and kMaxYamlTreeBytes of tree, aliases expanded; so no text costs more than
//   some megabytes and milliseconds.
// Errors: doubled keys, keys that are not plain text, explicit tags, aliases within their own anchor, more than one
//   document, and text that is not UTF-8 are errors, as is everything that YAML itself refuses.
// Tests: tests/unit/job/yaml_tree_test.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace downpour {

inline constexpr size_t kMaxYamlTextBytes = size_t{1} << 20;
inline constexpr size_t kMaxYamlTreeBytes = size_t{32} << 20;
inline constexpr size_t kMaxYamlDepth = 64;

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  int line = 0;  // from 1, as is column; 0: from no file
  int column = 0;
  bool overridden = false;         // set by hand, not by the file
  bool quoted = false;             // a scalar in quotes is text whatever it looks like
  std::string text;                // of a scalar
  std::vector<YamlNode> items;     // of a sequence
  std::vector<YamlEntry> entries;  // of a map, in the order written, no key twice

  bool Is(Kind k) const { return kind == k; }
  const YamlNode* Find(const std::string& key) const;  // in a map; nullptr if absent, or null, which is as if absent
  YamlNode* Find(const std::string& key);
};

struct YamlEntry {
  std::string key;
  int line = 0;  // of the key
  int column = 0;
  YamlNode value;
};

struct YamlError {
  int line = 0;
  int column = 0;
  std::string what;
  std::string remedy = {};
};

// Of a plain scalar: true and false as YAML 1.2's core schema has them; nullopt for anything else, `yes` included.
std::optional<bool> FlagIn(const YamlNode& node);

// An empty text is a null node. Whatever could be read stands in the tree even where there are errors.
struct YamlTree {
  YamlNode root;
  std::vector<YamlError> errors;
};
YamlTree ReadYaml(const std::string& text);

}  // namespace downpour
