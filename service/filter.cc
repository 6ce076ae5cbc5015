#include "service/filter.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/text.h"

namespace downpour {

using nlohmann::json;

struct Filter::Node {
  enum class Kind { kAnd, kOr, kNot, kCompare } kind;
  std::vector<std::shared_ptr<const Node>> parts = {};
  std::string field = {}, op = {}, value = {};
};

namespace {

using Node = Filter::Node;
using NodePtr = std::shared_ptr<const Node>;

constexpr size_t kMostBytes = 4096;
constexpr int kMostNested = 32;

bool IsTime(const std::string& text) {
  return text.size() > 19 && text[4] == '-' && text[10] == 'T' && text.back() == 'Z';
}

// Nine digits behind the seconds, so that times sort as text.
std::string Comparable(std::string text) {
  if (!IsTime(text)) return text;
  text.pop_back();
  if (text.size() == 19) text += '.';
  text.resize(29, '0');
  return text;
}

bool Compare(const std::string& has, const std::string& op, const std::string& wanted) {
  if (op == ":") return wanted == "*" || absl::StrContains(has, wanted);
  const int order = Comparable(has).compare(Comparable(wanted));
  if (op == "=") return order == 0;
  if (op == "!=") return order != 0;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

bool HoldsFor(const Node& node, const json& object) {
  const auto holds = [&](const NodePtr& part) { return HoldsFor(*part, object); };
  switch (node.kind) {
    case Node::Kind::kAnd:
      return std::all_of(node.parts.begin(), node.parts.end(), holds);
    case Node::Kind::kOr:
      return std::any_of(node.parts.begin(), node.parts.end(), holds);
    case Node::Kind::kNot:
      return !holds(node.parts[0]);
    case Node::Kind::kCompare:
      break;
  }
  const json* at = &object;
  for (const absl::string_view key : absl::StrSplit(node.field, '.')) {
    const auto found = at->find(std::string(key));
    if (!at->is_object() || found == at->end()) return node.op == "!=";
    at = &*found;
  }
  return Compare(at->is_string() ? at->get<std::string>() : at->dump(), node.op, node.value);
}

absl::Status CheckNode(const Node& node, const Filter::Check& check) {
  if (node.kind == Node::Kind::kCompare) return check(node.field, node.op, node.value);
  for (const NodePtr& part : node.parts) {
    if (const absl::Status status = CheckNode(*part, check); !status.ok()) return status;
  }
  return absl::OkStatus();
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  absl::StatusOr<NodePtr> Parse() {
    NodePtr root = Or(0);
    Skip();
    if (root == nullptr || at_ < text_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the filter is not understood at '",
                                                     OneLine(text_.substr(std::min(failed_, text_.size())), 40),
                                                     "': write FIELD=VALUE, joined by AND, OR and NOT"));
    }
    return root;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    failed_ = std::max(failed_, at_);
  }
  bool Take(const std::string& token) {
    Skip();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    const size_t end = at_ + token.size();
    const bool is_word = std::isalpha(static_cast<unsigned char>(token[0]));
    if (is_word && end < text_.size() && !std::isspace(static_cast<unsigned char>(text_[end])) && text_[end] != '(') {
      return false;
    }
    at_ = end;
    return true;
  }

  NodePtr Join(Node::Kind kind, std::vector<NodePtr> parts) {
    if (std::find(parts.begin(), parts.end(), nullptr) != parts.end()) return nullptr;
    if (parts.size() == 1) return parts[0];
    return std::make_shared<Node>(Node{.kind = kind, .parts = std::move(parts)});
  }
  NodePtr Or(int depth) {
    if (depth > kMostNested) return nullptr;
    std::vector<NodePtr> parts = {And(depth)};
    while (parts.back() != nullptr && Take("OR")) parts.push_back(And(depth));
    return Join(Node::Kind::kOr, std::move(parts));
  }
  NodePtr And(int depth) {
    std::vector<NodePtr> parts = {Not(depth)};
    while (parts.back() != nullptr) {
      const size_t before = at_;
      const bool said = Take("AND");
      Skip();
      const bool ends = at_ == text_.size() || text_[at_] == ')' || (!said && Take("OR"));
      if (ends && !said) {
        at_ = before;
        break;
      }
      parts.push_back(Not(depth));
    }
    return Join(Node::Kind::kAnd, std::move(parts));
  }
  NodePtr Not(int depth) {
    if (Take("NOT")) {
      const NodePtr part = Term(depth);
      if (part == nullptr) return nullptr;
      return std::make_shared<Node>(Node{.kind = Node::Kind::kNot, .parts = {part}});
    }
    return Term(depth);
  }
  NodePtr Term(int depth) {
    if (Take("(")) {
      NodePtr inner = Or(depth + 1);
      return Take(")") ? inner : nullptr;
    }
    Node node{.kind = Node::Kind::kCompare, .field = Word()};
    for (const char* op : {"!=", "<=", ">=", "=", "<", ">", ":"}) {
      if (!node.field.empty() && Take(op)) {
        node.op = op;
        node.value = Value();
        return failed_value_ ? nullptr : std::make_shared<Node>(std::move(node));
      }
    }
    return nullptr;
  }
  std::string Word() {
    Skip();
    const size_t from = at_;
    const auto is_of_word = [](unsigned char c) {
      return std::isalnum(c) || c >= 0x80 || absl::StrContains("_.-*+/", std::string(1, static_cast<char>(c)));
    };
    while (at_ < text_.size() && is_of_word(static_cast<unsigned char>(text_[at_]))) ++at_;
    return text_.substr(from, at_ - from);
  }
  std::string Value() {
    Skip();
    if (at_ >= text_.size() || text_[at_] != '"') {
      const std::string word = Word();
      failed_value_ = word.empty();
      return word;
    }
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_];
    }
    failed_value_ = at_ >= text_.size();
    ++at_;
    return value;
  }

  const std::string& text_;
  size_t at_ = 0, failed_ = 0;
  bool failed_value_ = false;
};

}  // namespace

absl::StatusOr<Filter> Filter::Parse(const std::string& text) {
  if (text.size() > kMostBytes) return absl::InvalidArgumentError("the filter is longer than 4,096 bytes");
  if (std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); })) return Filter(nullptr);
  absl::StatusOr<NodePtr> root = Parser(text).Parse();
  if (!root.ok()) return root.status();
  return Filter(*std::move(root));
}

absl::Status Filter::CheckEach(const Check& check) const {
  return root_ == nullptr ? absl::OkStatus() : CheckNode(*root_, check);
}

bool Filter::Holds(const json& object) const { return root_ == nullptr || HoldsFor(*root_, object); }

}  // namespace downpour
