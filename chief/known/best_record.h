// BestRecord: the checkpoint that is kept because its evaluation was the best, as the journal names it.
#pragma once

#include <cstdint>
#include <string>

#include "schema/ids.h"

namespace downpour {

struct BestRecord {
  Round round;         // {0, 0}: there is none
  std::string metric;  // by which it is the best
  double value = 0;    // of that; finite
  uint64_t epoch = 0;  // epochs committed when the evaluation began
  // Of the slices that were evaluated, and of those in the checkpoint; empty in a journal of before.
  VersionSpan evaluated = {};
  VersionSpan kept = {};
  bool operator==(const BestRecord&) const = default;
};

}  // namespace downpour
