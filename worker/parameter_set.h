// Parameters as a worker holds them: values of every slice and which version they are, and what its device has of them.
// Of buckets those rows that were pulled last, for one step or batch.
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
  explicit ParameterSet(size_t dense = 0, size_t buckets = 0)
      : dense(dense), versions(dense + buckets), values(dense + buckets) {}

  size_t dense;                   // slices of variables; buckets are behind them
  std::vector<Version> versions;  // by SliceId; {{0, 0}, 0}: nothing yet
  std::vector<Payload> values;    // of a bucket that has no such rows: empty
};

// Of the buckets that have any.
SliceValues RowsOf(const ParameterSet& parameters);

// What a result computed on these parameters names as their versions: those of variables.
struct VersionSummary {
  uint64_t digest = 0;
  uint64_t oldest = 0;
  uint64_t newest = 0;
};
VersionSummary Summarize(const ParameterSet& parameters);

// Which versions the device holds, of variables; rows are brought each time. Order: the device must carry out all that
// Load returned, in that order.
class DeviceParameters {
 public:
  explicit DeviceParameters(size_t dense = 0) : loaded_(dense) {}
  SliceValues Load(const ParameterSet& wanted);

 private:
  std::vector<Version> loaded_;
};

}  // namespace downpour
