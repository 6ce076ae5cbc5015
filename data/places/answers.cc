#include "data/places/answers.h"

#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "data/places/url.h"
#include "schema/text.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kMostWords = 300;  // bytes of what a server says

bool Whole(std::string_view text, uint64_t* number) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos &&
         absl::SimpleAtoi(std::string(text), number);
}

bool Parse(const std::string& xml, pugi::xml_document* document) {
  return static_cast<bool>(document->load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8));
}

std::string TextOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Nothing where it is no object. nlohmann-json counts levels in memory, not on the stack.
json ObjectIn(const std::string& text) {
  json parsed = json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

}  // namespace

std::optional<ContentRange> ContentRangeIn(const std::string& text) {
  constexpr std::string_view kUnit = "bytes ";
  std::string_view rest = text;
  if (!rest.starts_with(kUnit)) return std::nullopt;
  rest.remove_prefix(kUnit.size());
  const size_t dash = rest.find('-'), slash = rest.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  ContentRange range;
  if (!Whole(rest.substr(0, dash), &range.first) || !Whole(rest.substr(dash + 1, slash - dash - 1), &range.last) ||
      !Whole(rest.substr(slash + 1), &range.total) || range.first > range.last || range.last >= range.total) {
    return std::nullopt;
  }
  return range;
}

absl::StatusOr<ListedPage> S3PageIn(const std::string& xml) {
  pugi::xml_document document;
  if (!Parse(xml, &document) || document.child("ListBucketResult").empty()) {
    return absl::InvalidArgumentError("the answer is no list of objects as S3 has them");
  }
  const pugi::xml_node list = document.child("ListBucketResult");
  const bool is_packed = std::string_view(list.child_value("EncodingType")) == "url";
  ListedPage page;
  for (const pugi::xml_node object : list.children("Contents")) {
    std::string key = object.child_value("Key");
    if (is_packed) {  // as forms are: a blank is '+'
      for (char& c : key) c = c == '+' ? ' ' : c;
      key = PercentDecode(key);
    }
    if (!key.empty()) page.keys.push_back(std::move(key));
  }
  if (std::string_view(list.child_value("IsTruncated")) != "true") return page;
  page.next = list.child_value("NextContinuationToken");
  if (page.next.empty()) return absl::InvalidArgumentError("a list of objects is cut, and does not say how it goes on");
  return page;
}

absl::StatusOr<ListedPage> GcsPageIn(const std::string& text) {
  const json page = json::parse(text, nullptr, false);
  if (!page.is_object()) return absl::InvalidArgumentError("the answer is no list of objects as Google has them");
  ListedPage listed{.keys = {}, .next = TextOf(page, "nextPageToken")};
  const auto items = page.find("items");
  if (items == page.end()) return listed;
  for (const json& item : *items) {
    std::string name = item.is_object() ? TextOf(item, "name") : "";
    if (!name.empty()) listed.keys.push_back(std::move(name));
  }
  return listed;
}

std::string S3WordsIn(const std::string& xml) {
  pugi::xml_document document;
  if (!Parse(xml, &document)) return "";
  // Of its other elements some repeat what was signed.
  const pugi::xml_node error = document.child("Error");
  const std::string code = error.child_value("Code"), message = error.child_value("Message");
  return OneLine(absl::StrCat(code, message.empty() || code.empty() ? "" : ": ", message), kMostWords);
}

std::string GcsWordsIn(const std::string& text) {
  const json answer = ObjectIn(text);
  const auto error = answer.find("error");
  if (error == answer.end()) return "";
  if (error->is_object()) return OneLine(TextOf(*error, "message"), kMostWords);
  // As OAuth's servers say it.
  const std::string code = TextOf(answer, "error"), more = TextOf(answer, "error_description");
  return OneLine(absl::StrCat(code, more.empty() ? "" : ": ", more), kMostWords);
}

}  // namespace downpour
