// Parameters as a worker holds them: values of every slice and which version they are, and what its device has of them.
//
//   const EvalStep step{..., device.Load(parameters)};   // brings the slices that differ
//
// Cost: payloads are shared, never copied; a version names its values, so nothing is compared by value.
// Tests: tests/unit/worker/parameters_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/compute.h"
#include "schema/ids.h"
#include "schema/payload.h"

namespace downpour {

struct ParameterSet {
  explicit ParameterSet(size_t slices = 0) : versions(slices), values(slices) {}

  std::vector<Version> versions;  // by SliceId; {{0, 0}, 0}: nothing yet
  std::vector<Payload> values;
};

// What a result computed on these parameters names as their versions.
struct VersionSummary {
  uint64_t digest = 0;
  uint64_t oldest = 0;
  uint64_t newest = 0;
};
VersionSummary Summarize(const ParameterSet& parameters);

// Which versions the device holds. Order: the device must carry out all that Load returned, in that order.
class DeviceParameters {
 public:
  explicit DeviceParameters(size_t slices = 0) : loaded_(slices) {}
  SliceValues Load(const ParameterSet& wanted);

 private:
  std::vector<Version> loaded_;
};

}  // namespace downpour
