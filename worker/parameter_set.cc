#include "worker/parameter_set.h"

#include <algorithm>
#include <utility>

#include "runtime/prng.h"

namespace downpour {

VersionSummary Summarize(const ParameterSet& parameters) {
  if (parameters.dense == 0) return {};
  VersionSummary summary{.digest = 0, .oldest = UINT64_MAX, .newest = 0};
  for (size_t slice = 0; slice < parameters.dense; ++slice) {
    const Version& version = parameters.versions[slice];
    summary.digest = MixAll(summary.digest, slice, version.epoch.term, version.epoch.n, version.n);
    summary.oldest = std::min(summary.oldest, version.n);
    summary.newest = std::max(summary.newest, version.n);
  }
  return summary;
}

SliceValues RowsOf(const ParameterSet& parameters) {
  SliceValues rows;
  for (size_t bucket = parameters.dense; bucket < parameters.values.size(); ++bucket) {
    if (parameters.values[bucket].empty()) continue;
    rows.emplace_back(SliceId{static_cast<uint32_t>(bucket)}, parameters.values[bucket]);
  }
  return rows;
}

SliceValues DeviceParameters::Load(const ParameterSet& wanted) {
  SliceValues updates;
  for (size_t slice = 0; slice < loaded_.size(); ++slice) {
    if (loaded_[slice] == wanted.versions[slice]) continue;
    loaded_[slice] = wanted.versions[slice];
    updates.emplace_back(SliceId{static_cast<uint32_t>(slice)}, wanted.values[slice]);
  }
  for (auto& rows : RowsOf(wanted)) updates.push_back(std::move(rows));
  return updates;
}

}  // namespace downpour
