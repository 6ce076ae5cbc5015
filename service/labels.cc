#include "service/labels.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kMostLabels = 64, kMostLetters = 63, kMostShown = 200;

// Of valid UTF-8.
std::vector<uint32_t> CodePoints(const std::string& text) {
  std::vector<uint32_t> points;
  for (const unsigned char c : text) {
    if (c >= 0x80 && c < 0xc0) {
      points.back() = points.back() << 6 | (c & 0x3f);
    } else {
      points.push_back(c < 0x80 ? c : c < 0xe0 ? c & 0x1f : c < 0xf0 ? c & 0x0f : c & 0x07);
    }
  }
  return points;
}

bool IsIn(const std::vector<CodeRange>& ranges, uint32_t point) {
  const auto next =
      std::partition_point(ranges.begin(), ranges.end(), [&](const CodeRange& range) { return range.last < point; });
  return next != ranges.end() && next->first <= point;
}

bool IsLabelText(const std::string& text) {
  if (!IsText(text)) return false;
  const std::vector<uint32_t> points = CodePoints(text);
  return points.size() <= kMostLetters && std::all_of(points.begin(), points.end(), [](uint32_t point) {
           return IsIn(LowerCaseLetters(), point) || IsIn(Numbers(), point) || point == '-' || point == '_';
         });
}

bool IsLabelKey(const std::string& text) {
  return !text.empty() && IsLabelText(text) && IsIn(LowerCaseLetters(), CodePoints(text)[0]);
}

absl::Status WrongLabel(const std::string& place, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(place, " ", what));
}

}  // namespace

absl::StatusOr<Labels> ReadLabels(const json& labels) {
  if (!labels.is_object()) return WrongLabel("labels", "must be an object of texts");
  if (labels.size() > kMostLabels) {
    return WrongLabel("labels", absl::StrCat("are ", labels.size(), ", and a job has at most ", kMostLabels));
  }
  const std::string letters = absl::StrCat("lower case letters, digits, - and _, of at most ", kMostLetters);
  Labels read;
  for (const auto& [key, value] : labels.items()) {
    const std::string shown_key = OneLine(key, kMostShown);
    if (!value.is_string()) return WrongLabel(absl::StrCat("labels.", shown_key), "must be text");
    const std::string& text = value.get_ref<const std::string&>();
    const std::string place = absl::StrCat("labels ", shown_key, "=", OneLine(text, kMostShown), ":");
    if (!IsLabelKey(key)) {
      return WrongLabel(place, absl::StrCat("the key must be a lower case letter, then ", letters, " in all"));
    }
    if (!IsLabelText(text)) return WrongLabel(place, absl::StrCat("the value must be ", letters));
    read[key] = text;
  }
  return read;
}

}  // namespace downpour
