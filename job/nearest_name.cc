#include "job/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/ascii.h"

namespace downpour {
namespace {

constexpr size_t kMostCompared = 64;
constexpr size_t kLeastMeant = 3;  // lr is no slip for l1

std::string Plain(const std::string& name) {
  std::string plain;
  for (char c : name) {
    if (c != '-' && c != '_') plain += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return plain;
}

// Optimal string alignment: three rows of the table suffice.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(const std::string& name, const std::vector<std::string>& known) {
  if (name.size() > kMostCompared) return "";
  const std::string wanted = Plain(name);
  size_t best = (wanted.size() < kLeastMeant ? 0 : std::max<size_t>(1, wanted.size() / 3)) + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    if (candidate.size() > kMostCompared) continue;
    const size_t distance = EditDistance(wanted, Plain(candidate));
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string WhatWasMeant(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : "did you mean " + nearest + "?";
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& known) {
  const std::string meant = WhatWasMeant(name, known);
  return meant.empty() ? "" : "; " + meant;
}

}  // namespace downpour
