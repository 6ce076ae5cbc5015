// Which samples took effect on every slice, recounted from a checkpoint's counters.
//
//   const Ledger ledger = MakeLedger(checkpoint);
//
// Order: a slice counts a step once and changes its version with it, or leaves it where the push had no effect; so a
//   version beyond the steps counted would be a push that took effect twice.
// Cost: O(epochs begun + leases begun), whatever the plan holds.
// Tests: tests/unit/tools/cli/ledger_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/checkpoint_reader.h"

namespace downpour {

struct Ledger {
  uint64_t epochs = 0;
  std::map<uint64_t, uint64_t> samples;     // epoch -> samples that each epoch from there on has
  std::map<uint64_t, uint64_t> everywhere;  // epoch, from 0 -> samples that every slice has counted; absent: none
  uint64_t without_effect = 0;              // pushes that slices counted and that changed nothing, over all slices
  std::map<uint32_t, uint64_t> doubled;     // slice -> pushes beyond the steps that it counted
  bool complete() const;                    // every sample of every epoch
  uint64_t SamplesOf(uint64_t epoch) const;
};

Ledger MakeLedger(const LoadedCheckpoint& checkpoint);

// "epochs 1 to 3: 60,000 of 60,000 samples ..." and a line for each finding; runs of equal epochs are one line.
std::string LedgerLines(const Ledger& ledger);

}  // namespace downpour
