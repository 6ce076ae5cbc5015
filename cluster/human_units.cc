#include "cluster/human_units.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/text.h"

namespace downpour {

std::string HumanCount(double count) {
  std::string digits = absl::StrFormat("%.0f", std::abs(count));
  if (!std::isfinite(count)) return digits;
  for (int place = static_cast<int>(digits.size()) - 3; place > 0; place -= 3) digits.insert(place, 1, ',');
  return (count < 0 ? "-" : "") + digits;
}

std::string HumanBytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrFormat(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
}

std::string HumanSeconds(double seconds) {
  if (!(seconds < 1e9)) return "very long";
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrFormat("%d s", whole);
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole % 3600 / 60);
}

std::string HumanPercent(double share, int decimals) { return absl::StrFormat("%.*f %%", decimals, 100 * share); }

std::string HumanMetric(const std::pair<std::string, double>& metric) {
  return absl::StrCat(metric.first, " ", HumanLoss(metric.second));
}

std::string HumanLoss(double loss) {
  const bool plain = loss == 0 || (std::abs(loss) >= 0.001 && std::abs(loss) < 1000);
  return absl::StrFormat(plain ? "%.4f" : "%.3g", loss);
}

std::string HumanNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  if (names.size() <= kMost + 1) return absl::StrJoin(names, ", ");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + kMost, ", "), " and ", names.size() - kMost,
                      " more");
}

std::string Printable(std::string_view words, size_t limit) {
  std::string line = OneLine(words, limit);
  // U+202A to U+202E and U+2066 to U+2069 turn the order of what follows on the line.
  for (size_t at = 0; at + 2 < line.size(); ++at) {
    const std::string_view here = std::string_view(line).substr(at, 3);
    const bool turns =
        (here >= "\xe2\x80\xaa" && here <= "\xe2\x80\xae") || (here >= "\xe2\x81\xa6" && here <= "\xe2\x81\xa9");
    if (turns) line.replace(at, 3, "?");
  }
  return line;
}

}  // namespace downpour
