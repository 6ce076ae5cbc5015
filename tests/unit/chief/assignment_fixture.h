// An assignment of all slices of a grid to one ps, for tests of it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chief/assignment.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {

class AssignmentFixture : public PartsFixture {
 protected:
  static constexpr PeerId kControl{uint64_t{1} << 32};
  static constexpr PeerId kBulk{(uint64_t{1} << 32) + 1};

  explicit AssignmentFixture(SliceGrid its_grid)
      : grid(std::move(its_grid)),
        members({.scale_tier = "CUSTOM", .worker_count = 1, .parameter_server_count = 1}, Timing{}) {
    members.Begin(context.now, 3, /*run=*/1);
    Join join;
    join.role = TaskRole::kPs;
    join.endpoint = "h1:1";
    ps = members.Admit(context.now, kControl, join).task;
    ps->bulk = kBulk;
  }

  void Place(std::vector<Manifest> sources = {}, std::optional<Manifest> initial = {}) {
    assignment.Place(3, {ps}, 12, std::move(sources), "", std::move(initial));
    effects = Settle();
  }
  void Tick(Duration after) {
    context.now += after;
    assignment.Tick();
    effects = Settle();
  }
  absl::Status Report(SliceId slice, const IntervalSet& finished, const std::string& error = "") {
    SliceReport report{.from = ps->incarnation, .slices = {}};
    report.slices.push_back({slice, assignment.epochs().at(ToNumber(slice)), error, finished});
    const absl::Status status = assignment.Receive(report);
    effects = Settle();
    return status;
  }
  static IntervalSet SetOf(const std::vector<uint64_t>& leases) {
    IntervalSet set;
    for (const uint64_t lease : leases) set.Insert(lease);
    return set;
  }
  std::vector<Assign> Assigns() { return SentOf<Assign>(effects, kControl); }
  std::vector<RestoreSlice> Restores() { return SentOf<RestoreSlice>(effects, kBulk); }

  const SliceGrid grid;
  Membership members;
  JobCosts costs;
  FailureLog failures{context, costs};
  Assignment assignment{context, storage, members, failures, grid, Timing{}};
  Task* ps = nullptr;
  std::vector<Effect> effects;
};

}  // namespace downpour
