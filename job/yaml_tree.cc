#include "job/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "schema/text.h"

namespace downpour {
namespace {

// What the tree does not take, though the parser does.
struct Unsupported : YAML::ParserException {
  using YAML::ParserException::ParserException;
};

// How many more brackets the line opens than it closes, outside of quotes and comments. `quote` is the one that is
// open, or 0: it may reach over several lines. Within a word a quote is an apostrophe.
int BracketsOpened(absl::string_view line, char* quote) {
  int open = 0;
  char before = ' ';
  for (const char c : line) {
    const bool escaped = *quote == '"' && before == '\\';
    if (*quote != 0) {
      if (c == *quote && !escaped) *quote = 0;
    } else if ((c == '"' || c == '\'') && absl::StrContains(" \t[{,:", before)) {
      *quote = c;
    } else if (c == '#' && absl::StrContains(" \t", before)) {
      break;
    } else {
      open += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    }
    before = escaped ? ' ' : c;
  }
  return open;
}

// The parser names the token that it did not find; people look for why. A tab is at fault where it indents the line of
// the error, or the one before it, outside of brackets.
std::string RemedyOfSyntax(const std::string& text, const YAML::Exception& error) {
  if (absl::StrContains(error.msg, "anchor"))
    return "name a value by &NAME before it is used by *NAME, or write it out";
  int line = 0, open = 0;
  char quote = 0;
  for (const absl::string_view each : absl::StrSplit(text, '\n')) {
    const bool is_near = line == error.mark.line || line + 1 == error.mark.line;
    ++line;
    if (is_near && open == 0 && each.substr(0, each.find_first_not_of(" \t")).find('\t') != absl::string_view::npos) {
      return absl::StrCat("indent by spaces: line ", line, " begins with a tab");
    }
    open += BracketsOpened(each, &quote);
  }
  return "look at this line and the one before it: how far they are indented, colons, brackets and quotes";
}

size_t Cost(const YamlNode& node) {
  size_t cost = sizeof(YamlEntry) + node.text.size();
  for (const YamlNode& item : node.items) cost += Cost(item);
  for (const YamlEntry& entry : node.entries) cost += entry.key.size() + Cost(entry.value);
  return cost;
}

// Builds the tree from the parser's events, because the parser's own tree forgets doubled keys and shares aliases, so
// that walking it may take for ever. Throws the parser's own exception to stop it; ReadYaml catches that.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlTree tree;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    AddScalar(mark, anchor, Place(mark, YamlNode::Kind::kNull));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    CheckTag(mark, tag);
    if (!IsText(value)) Stop(mark, "this is not UTF-8 text without control characters");
    YamlNode node = Place(mark, YamlNode::Kind::kScalar);
    node.quoted = tag == "!";
    node.text = value;
    AddScalar(mark, anchor, std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) Stop(mark, "this alias stands within what it names");
    Charge(mark, Cost(it->second));
    Add(mark, YAML::NullAnchor, it->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {  // a sequence or map whose end was not seen yet
    YAML::Mark mark;
    YAML::anchor_t anchor;
    YamlNode node;
    bool has_key = false;  // of a map: the next node is the value of `key`
    YamlEntry key;
    std::map<std::string, int> first_line;  // by key
  };

  [[noreturn]] static void Stop(const YAML::Mark& mark, const std::string& what) { throw Unsupported(mark, what); }
  static void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      Stop(mark, absl::StrCat("tags such as ", tag, " are not understood: leave it out"));
  }
  static YamlNode Place(const YAML::Mark& mark, YamlNode::Kind kind) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void Charge(const YAML::Mark& mark, size_t cost) {
    cost_ += cost;
    if (cost_ > kMaxYamlTreeBytes) Stop(mark, "too many entries, or aliases of aliases");
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    CheckTag(mark, tag);
    if (open_.size() == kMaxYamlDepth) Stop(mark, absl::StrCat("more than ", kMaxYamlDepth, " levels"));
    YamlNode node = Place(mark, kind);
    Charge(mark, Cost(node));
    open_.push_back({mark, anchor, std::move(node), false, {}, {}});
  }

  void Close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    Add(level.mark, level.anchor, std::move(level.node));
  }

  void AddScalar(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode node) {
    Charge(mark, Cost(node));
    Add(mark, anchor, std::move(node));
  }

  void Add(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode node) {
    if (anchor != YAML::NullAnchor) {
      Charge(mark, Cost(node));
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      tree.root = std::move(node);
    } else if (Level& top = open_.back(); top.node.Is(YamlNode::Kind::kSequence)) {
      top.node.items.push_back(std::move(node));
    } else if (top.has_key) {
      AddValue(top, std::move(node));
    } else {
      if (!node.Is(YamlNode::Kind::kScalar)) Stop(mark, "a key must be plain text");
      top.key = {node.text, mark.line + 1, mark.column + 1, {}};
      top.has_key = true;
    }
  }

  void AddValue(Level& top, YamlNode value) {
    top.has_key = false;
    const auto [first, is_new] = top.first_line.try_emplace(top.key.key, top.key.line);
    if (!is_new) {
      tree.errors.push_back({top.key.line, top.key.column,
                             absl::StrCat("the key ", CleanText(top.key.key, 64),
                                          " stands here a second time, the first in line ", first->second),
                             "leave one of them out"});
      return;
    }
    top.key.value = std::move(value);
    top.node.entries.push_back(std::move(top.key));
  }

  std::vector<Level> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;  // of complete nodes
  size_t cost_ = 0;
};

template <typename Entries>
auto FindIn(Entries& entries, const std::string& key) -> decltype(&entries[0].value) {
  for (auto& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

}  // namespace

const YamlNode* YamlNode::Find(const std::string& key) const {
  const YamlNode* const found = FindIn(entries, key);
  return found == nullptr || found->Is(Kind::kNull) ? nullptr : found;
}
YamlNode* YamlNode::Find(const std::string& key) { return FindIn(entries, key); }

std::optional<bool> FlagIn(const YamlNode& node) {
  const std::string& text = node.text;
  if (!node.Is(YamlNode::Kind::kScalar) || node.quoted) return std::nullopt;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

YamlTree ReadYaml(const std::string& text) {
  TreeBuilder builder;
  if (text.size() > kMaxYamlTextBytes) {
    builder.tree.errors.push_back({0, 0, absl::StrCat("larger than ", kMaxYamlTextBytes, " bytes")});
    return std::move(builder.tree);
  }
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(builder)) {
      TreeBuilder second;
      if (parser.HandleNextDocument(second)) {
        builder.tree.errors.push_back(
            {second.tree.root.line, second.tree.root.column, "a second document begins here"});
      }
    }
  } catch (const Unsupported& error) {
    builder.tree.errors.push_back({error.mark.line + 1, error.mark.column + 1, error.msg});
  } catch (const YAML::Exception& error) {
    builder.tree.errors.push_back({error.mark.line + 1, error.mark.column + 1, error.msg, RemedyOfSyntax(text, error)});
  }
  return std::move(builder.tree);
}

}  // namespace downpour
