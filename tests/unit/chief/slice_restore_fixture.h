// All slices of a grid placed on one ps, for tests of how their state gets there.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chief/assignment.h"
#include "chief/folder/checkpoint_store.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {

class SliceRestoreFixture : public PartsFixture {
 protected:
  static constexpr PeerId kControl{uint64_t{1} << 32};
  static constexpr PeerId kBulk{(uint64_t{1} << 32) + 1};

  explicit SliceRestoreFixture(SliceGrid its_grid)
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
    assignment.Place(3, {ps}, 12, {std::move(sources), "", std::move(initial)});
    effects = Settle();
  }
  void Tick(Duration after) {
    context.now += after;
    restore.Tick();
    effects = Settle();
  }
  absl::Status Report(SliceId slice, const IntervalSet& finished, const std::string& error = "") {
    SliceReport report{.from = ps->incarnation, .slices = {}};
    report.slices.push_back({slice, placement.epochs().at(ToNumber(slice)), error, finished});
    const absl::Status status = restore.Receive(report);
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
  SlicePlacement placement{grid};
  SliceRestore restore{context, storage, members, failures, placement, Timing{}};
  Assignment assignment{context, placement, restore};
  Task* ps = nullptr;
  std::vector<Effect> effects;
};

// One ps with both slices of the small job.
class SliceRestoreTest : public SliceRestoreFixture {
 protected:
  SliceRestoreTest() : SliceRestoreFixture(*GridOf(SmallJob().model)) {}

  // A checkpoint on disk in which slice i has finished `finished[i]`.
  Manifest PutCheckpoint(Round round, const std::vector<std::vector<uint64_t>>& finished) {
    Manifest manifest;
    manifest.round = round;
    std::string file;
    for (const Slice& slice : grid.slices) {
      const auto bytes = static_cast<size_t>(slice.bytes());
      SliceState state{.slice = slice.id,
                       .epoch = {1, 1},
                       .finished = {},
                       .counters = {},
                       .values = Payload::Zeros(bytes),
                       .slots = {}};
      for (const uint64_t lease : finished[ToNumber(slice.id)]) state.finished.Insert(lease);
      Manifest::Record record{.slice = slice.id, .offset = file.size()};
      for (const Payload& block : EncodeRecord(state)) {
        record.crc32c = Crc32c(block.bytes(), record.crc32c);
        record.bytes += block.size();
        file += ToString(block);
      }
      manifest.records.push_back(record);
    }
    manifest.files = {{"ps-0.shard", file.size()}};
    disk.Put(ShardPath(round, "ps-0.shard"), file);
    return manifest;
  }
  // Counts the `reads` of round 1-2, and fails them.
  void Hide() {
    disk.fate = [this](const StorageOp& op) {
      const bool hidden = op.path == ShardPath({1, 2}, "ps-0.shard");
      reads += hidden;
      return hidden ? absl::PermissionDeniedError("permission denied") : absl::OkStatus();
    };
  }
  // {older, newer}: the newer one cannot be read, until the older one is taken in its place.
  std::pair<Manifest, Manifest> FallBack() {
    const Manifest older = PutCheckpoint({1, 1}, {{0}, {0}});
    const Manifest newer = PutCheckpoint({1, 2}, {{0, 1}, {0, 1}});
    Hide();
    Place({newer, older});
    for (int i = 0; i < SliceRestore::kReads && Restores().empty(); ++i) Tick(Timing{}.dead_after);
    return {older, newer};
  }
  int reads = 0;
};

}  // namespace downpour
