// A checkpoint round of two servers, for tests: what is on disk, who asked for what, and records to answer with.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "chief/assignment.h"
#include "chief/checkpoint_rounds.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {

inline constexpr char kTwoLayers[] = "[{dense: {units: 3}}, {dense: {units: 3}}]";

// Two ps with two slices each (dense_0 and dense_1, kernel and bias).
class CheckpointRoundsTest : public PartsFixture {
 protected:
  explicit CheckpointRoundsTest(const std::string& layers = kTwoLayers)
      : grid(*GridOf(SmallJob({"model.layers=" + layers}).model)),
        members({.scale_tier = "CUSTOM", .worker_count = 1, .parameter_server_count = 2}, Timing{}) {
    members.Begin(context.now, 1, /*run=*/1);
    for (uint64_t i = 0; i < 2; ++i) {
      Join join;
      join.role = TaskRole::kPs;
      join.endpoint = "h1:1";
      join.nonce = i;
      Task* task = members.Admit(context.now, PeerId{2 * i + 10}, join).task;
      task->bulk = PeerId{2 * i + 11};
    }
    assignment.Place(1, members.Alive(TaskRole::kPs), 12, {});
    for (const auto& [id, server] : placement.servers()) {
      servers_.push_back({id.incarnation, server.name, server.slices});
      SliceReport report{.from = id.incarnation, .slices = {}};
      for (const SliceId slice : server.slices) report.slices.push_back({slice, {1, 1}, "", {}});
      EXPECT_TRUE(restore.Receive(report).ok());
    }
    committed.InsertRange(0, 3);
    MakeRounds({});
    Settle();
  }

  void MakeRounds(const CheckpointSpec& spec) {
    rounds = std::make_unique<CheckpointRounds>(context, storage, members, placement, store, failures, spec, Timing{});
  }
  void Start(Round round, bool urgent = false, uint64_t most_skipped = UINT64_MAX) {
    rounds->Start(round, {"{}", {12, 10, 7}, committed, most_skipped}, urgent);
    effects = Settle();
  }
  struct Holder {
    Incarnation incarnation{};
    std::string name;
    std::vector<SliceId> slices;
  };
  const Holder& Server(size_t i) const { return servers_.at(i); }
  std::vector<SnapshotRequest> Requests(size_t server) { return SentOf<SnapshotRequest>(effects, Bulk(server)); }
  static PeerId Control(size_t server) { return PeerId{2 * server + 10}; }
  static PeerId Bulk(size_t server) { return PeerId{2 * server + 11}; }

  SliceRecord RecordOf(size_t server, SliceId slice, Round round) const {
    return {.from = Server(server).incarnation,
            .round = round,
            .slice = slice,
            .epoch = placement.EpochOf(slice),
            .finished = committed,
            .blocks = {Payload::CopyOf("0123456789", 10), Payload::CopyOf("abc", 3)}};
  }
  absl::Status Receive(const auto& message) {
    const absl::Status status = rounds->Receive(message);
    for (Effect& effect : Settle()) effects.push_back(std::move(effect));
    return status;
  }
  void Tick(Duration after) {
    context.now += after;
    rounds->Tick();
    effects = Settle();
  }
  // Answers everything that was asked for, as long as anything is.
  void AnswerAll(Round round) {
    for (size_t server = 0; server < 2; ++server) {
      for (const SliceId slice : Server(server).slices) {
        EXPECT_TRUE(Receive(RecordOf(server, slice, round)).ok());
      }
    }
  }
  static IntervalSet LeasesOf(uint64_t lease) {
    IntervalSet leases;
    leases.Insert(lease);
    return leases;
  }
  IntervalSet LeasesBut(uint64_t lease) const { return committed.Except(LeasesOf(lease)); }
  ShardWritten WrittenOf(size_t server, Round round) const {
    ShardWritten written{.from = Server(server).incarnation, .round = round, .error = {}, .bytes = 0, .slices = {}};
    for (const SliceId slice : Server(server).slices) {
      written.slices.push_back({slice, placement.EpochOf(slice), committed, written.bytes, 10, 99});
      written.bytes += 10;
    }
    return written;
  }

  const SliceGrid grid;
  Membership members;
  JobCosts costs;
  FailureLog failures{context, costs};
  SlicePlacement placement{grid};
  SliceRestore restore{context, storage, members, failures, placement, Timing{}};
  Assignment assignment{context, placement, restore};
  CheckpointStore store{storage};
  std::unique_ptr<CheckpointRounds> rounds;
  IntervalSet committed;
  std::vector<Effect> effects;

 private:
  std::vector<Holder> servers_;
};

}  // namespace downpour
