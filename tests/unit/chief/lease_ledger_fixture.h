// LeaseLedgerTest: a ledger of two slices, and what two workers ask of it, for the tests of LeaseLedger.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "chief/known/lease_ledger.h"

namespace downpour {

class LeaseLedgerTest : public ::testing::Test {
 protected:
  static constexpr Incarnation kA{11};
  static constexpr Incarnation kB{12};

  static std::vector<uint64_t> Numbers(const std::vector<LeaseId>& leases) {
    std::vector<uint64_t> numbers;
    for (const LeaseId lease : leases) numbers.push_back(ToNumber(lease));
    return numbers;
  }
  // `leases` of 2 batches of 4 examples, in one epoch; the last batch has 3.
  void Open(uint64_t leases, const IntervalSet& finished = {}) {
    job.training.batch_size = 4;
    job.training.lease_batches = 2;
    ledger.Open(Plan(job, leases * 8 - 1), finished);
  }
  std::vector<uint64_t> Ask(Incarnation worker, uint32_t wanted, std::vector<LeaseId> holding = {}) {
    const auto repeats = ledger.Ask(worker, holding, wanted);
    EXPECT_TRUE(repeats.ok()) << repeats.status();
    last_repeats = Numbers(*repeats);
    std::vector<uint64_t> granted;
    for (const auto& grant : ledger.Distribute()) {
      if (grant.worker == worker) granted.push_back(ToNumber(grant.lease));
    }
    return granted;
  }
  absl::StatusOr<bool> Done(uint64_t lease, std::vector<LeaseDone::Evidence> evidence) {
    return ledger.Decide({.from = kA, .lease = LeaseId{lease}, .evidence = std::move(evidence)}, epochs);
  }
  absl::StatusOr<bool> Done(uint64_t lease) { return Done(lease, {{SliceId{0}, epochs[0]}, {SliceId{1}, epochs[1]}}); }

  JobSpec job;
  LeaseLedger ledger;
  std::vector<SliceEpoch> epochs{{1, 1}, {1, 1}};
  std::vector<uint64_t> last_repeats;
};

}  // namespace downpour
