#include "chief/known/epoch_table.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/limits.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr double kMostEpoch = uint64_t{1} << 53;

}  // namespace

// Numbers that are not finite are null in a line of the file.
void EpochTable::Note(const Json& line) {
  if (!line.is_object()) return;
  const auto number = [](const Json& of, const char* key) {
    const auto found = of.find(key);
    const bool is_known = found != of.end() && found->is_number();
    return is_known ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
  };
  const double epoch = number(line, "epoch");
  if (!(epoch >= 1 && epoch <= kMostEpoch)) return;
  auto& entry = epochs_[static_cast<uint64_t>(epoch)];
  if (line.value("kind", Json()) == "epoch") {
    if (line.contains("loss")) entry["loss"] = number(line, "loss");
  } else {
    entry["evalLoss"] = number(line, "loss");
    if (line.contains("accuracy")) entry["evalAccuracy"] = number(line, "accuracy");
    const auto metrics = line.find("metrics");
    if (metrics != line.end() && metrics->is_object()) {
      for (const auto& [name, value] : metrics->items()) entry[name] = number(*metrics, name.c_str());
    }
  }
  if (epochs_.size() > kMost) epochs_.erase(epochs_.begin());
}

std::string EpochTable::Text() const {
  std::vector<std::string> entries;
  size_t bytes = 2;
  for (auto at = epochs_.rbegin(); at != epochs_.rend(); ++at) {
    Json entry = {{"epoch", at->first}};
    for (const auto& [name, value] : at->second) entry[name] = value;
    entries.push_back(entry.dump(-1, ' ', false, Json::error_handler_t::replace));
    bytes += entries.back().size() + 1;
    if (bytes <= kMaxTextBytes) continue;
    entries.pop_back();
    break;
  }
  std::reverse(entries.begin(), entries.end());
  return absl::StrCat("[", absl::StrJoin(entries, ","), "]");
}

}  // namespace downpour
