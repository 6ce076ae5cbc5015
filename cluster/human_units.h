// Numbers as people read them in tables and progress lines.
//
// Tests: tests/unit/cluster/human_units_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace downpour {

std::string HumanCount(double count);                                   // 48,211
std::string HumanBytes(double bytes);                                   // 84.0 MiB
std::string HumanSeconds(double seconds);                               // 0.2 s, 40 s, 3 min 20 s, 2 h 05 min
std::string HumanPercent(double share, int decimals = 1);               // 0.324 -> 32.4 %
std::string HumanLoss(double loss);                                     // four digits that matter
std::string HumanMetric(const std::pair<std::string, double>& metric);  // its name, then as a loss

// worker-0, worker-1 and 3 more
std::string HumanNames(const std::vector<std::string>& names);

// Words of a remote process as one line that is safe for a terminal: what could drive it becomes '?'.
std::string Printable(std::string_view words, size_t limit = std::string_view::npos);

}  // namespace downpour
