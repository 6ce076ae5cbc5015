#include "worker/parameter_set.h"

#include <algorithm>

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

SliceValues DeviceParameters::Load(const ParameterSet& wanted) {
  SliceValues updates;
  for (size_t slice = 0; slice < loaded_.size(); ++slice) {
    if (loaded_[slice] == wanted.versions[slice]) continue;
    loaded_[slice] = wanted.versions[slice];
    updates.emplace_back(SliceId{static_cast<uint32_t>(slice)}, wanted.values[slice]);
  }
  for (size_t bucket = loaded_.size(); bucket < wanted.values.size(); ++bucket) {
    if (wanted.values[bucket].empty()) continue;
    updates.emplace_back(SliceId{static_cast<uint32_t>(bucket)}, wanted.values[bucket]);
  }
  return updates;
}

}  // namespace downpour
