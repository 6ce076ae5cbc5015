#include "schema/bounded_json.h"

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace downpour {

absl::StatusOr<nlohmann::json> ParseBoundedJson(std::string_view text, int most_levels) {
  bool too_deep = false;
  const auto bound = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    too_deep |= depth > most_levels;
    return !too_deep;
  };
  nlohmann::json parsed = nlohmann::json::parse(text, bound, /*allow_exceptions=*/false);
  if (too_deep) return absl::OutOfRangeError(absl::StrCat("the JSON has more than ", most_levels, " levels"));
  if (parsed.is_discarded()) return absl::InvalidArgumentError("is no JSON");
  return parsed;
}

}  // namespace downpour
