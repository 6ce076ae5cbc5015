#include "chief/checkpoint_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schema/variables.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two ps with two slices each (dense_0 and dense_1, kernel and bias).
class CheckpointRoundsTest : public PartsFixture {
 protected:
  CheckpointRoundsTest()
      : grid(MakeSliceGrid(
            *InferVariables(SmallJob({"model.layers=[{dense: {units: 3}}, {dense: {units: 3}}]"}).model))),
        members({.scale_tier = "CUSTOM", .worker_count = 1, .parameter_server_count = 2}, Timing{}) {
    members.Begin(1);
    for (uint64_t i = 0; i < 2; ++i) {
      Join join;
      join.role = TaskRole::kPs;
      join.endpoint = "h1:1";
      join.nonce = i;
      Task* task = members.Admit(turn.now, PeerId{2 * i + 10}, join).task;
      task->bulk = PeerId{2 * i + 11};
    }
    assignment.Place(1, members.Alive(TaskRole::kPs), 12, {});
    for (const Assignment::Server& server : assignment.servers()) {
      SliceReport report{.from = server.incarnation, .slices = {}};
      for (const SliceId slice : server.slices) report.slices.push_back({slice, {1, 1}, "", {}, {}});
      EXPECT_TRUE(assignment.Receive(report).ok());
    }
    committed.InsertRange(0, 3);
    MakeRounds({});
    Settle();
  }

  void MakeRounds(const CheckpointSpec& spec) {
    rounds = std::make_unique<CheckpointRounds>(
        CheckpointRounds::Parts{turn, storage, members, assignment, store, failures}, spec, Timing{});
  }
  void Start(Round round) {
    rounds->Start(round, {"{}", {12, 10, 7}, committed});
    effects = Settle();
  }
  const Assignment::Server& Server(size_t i) const { return assignment.servers()[i]; }
  std::vector<SnapshotRequest> Requests(size_t server) { return SentOf<SnapshotRequest>(effects, Bulk(server)); }
  static PeerId Control(size_t server) { return PeerId{2 * server + 10}; }
  static PeerId Bulk(size_t server) { return PeerId{2 * server + 11}; }

  SliceRecord RecordOf(size_t server, SliceId slice, Round round) const {
    return {.from = Server(server).incarnation,
            .round = round,
            .slice = slice,
            .epoch = assignment.epochs()[ToNumber(slice)],
            .finished = committed,
            .blocks = {Payload::CopyOf("0123456789", 10), Payload::CopyOf("abc", 3)}};
  }
  absl::Status Receive(const auto& message) {
    const absl::Status status = rounds->Receive(message);
    for (Effect& effect : Settle()) effects.push_back(std::move(effect));
    return status;
  }
  // Answers everything that was asked for, as long as anything is.
  void AnswerAll(Round round) {
    for (size_t server = 0; server < 2; ++server) {
      for (const SliceId slice : Server(server).slices) {
        EXPECT_TRUE(Receive(RecordOf(server, slice, round)).ok());
      }
    }
  }
  ShardWritten WrittenOf(size_t server, Round round) const {
    ShardWritten written{.from = Server(server).incarnation, .round = round, .error = {}, .bytes = 0, .slices = {}};
    for (const SliceId slice : Server(server).slices) {
      written.slices.push_back({slice, assignment.epochs()[ToNumber(slice)], committed, written.bytes, 10, 99});
      written.bytes += 10;
    }
    return written;
  }

  const SliceGrid grid;
  Membership members;
  FailureList failures{turn};
  Assignment assignment{turn, storage, members, failures, grid, Timing{}};
  CheckpointStore store{storage};
  std::unique_ptr<CheckpointRounds> rounds;
  IntervalSet committed;
  std::vector<Effect> effects;
};

TEST_F(CheckpointRoundsTest, BringsEverySlicesRecordUnderAManifest) {
  Start({1, 1});
  ASSERT_THAT(Requests(0), SizeIs(1));
  EXPECT_THAT(Requests(0)[0].slices, SizeIs(2));
  EXPECT_EQ(rounds->writing(), "1-1: 0 of 4 slices");
  AnswerAll({1, 1});
  ASSERT_FALSE(rounds->active()) << rounds->last_error();
  ASSERT_TRUE(rounds->durable().has_value());
  EXPECT_EQ(rounds->durable()->bytes, 52u);
  const absl::StatusOr<Manifest> manifest = DecodeManifest(disk.At("checkpoints/1-1/MANIFEST"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->committed, committed);
  EXPECT_EQ(manifest->data_fingerprint, 7u);
  ASSERT_THAT(manifest->records, SizeIs(4));
  for (const Manifest::Record& record : manifest->records) {
    const std::string file = disk.At(ShardPath({1, 1}, manifest->files[record.file].name));
    EXPECT_EQ(file.substr(record.offset, record.bytes), "0123456789abc");
    EXPECT_EQ(record.crc32c, Crc32c(Payload::CopyOf("0123456789abc", 13).bytes()));
  }
  const auto is_durable = [](const Effect& effect) {
    const auto* trace = std::get_if<TraceRecord>(&effect);
    return trace != nullptr && trace->kind == TraceRecord::Kind::kDurable && trace->count == ((uint64_t{1} << 32) | 1);
  };
  EXPECT_EQ(std::count_if(effects.begin(), effects.end(), is_durable), 1);
}

TEST_F(CheckpointRoundsTest, TheManifestComesAfterAllElseIsSynced) {
  std::vector<std::string> ops;
  disk.fate = [&](const StorageOp& op) {
    static const char* const kKinds[] = {"mkdir",  "write",  "append", "sync", "syncdir",
                                         "rename", "remove", "read",   "list"};
    ops.push_back(absl::StrCat(kKinds[static_cast<int>(op.kind)], " ", op.path));
    return absl::OkStatus();
  };
  Start({1, 1});
  AnswerAll({1, 1});
  const std::string dir = "checkpoints/1-1";
  const auto first_sync = std::find(ops.begin(), ops.end(), "sync " + dir + "/ps-0.shard");
  ASSERT_NE(first_sync, ops.end());
  EXPECT_EQ(std::count(ops.begin(), first_sync, "append " + dir + "/ps-0.shard"), 2);
  EXPECT_EQ(std::count(ops.begin(), first_sync, "append " + dir + "/ps-1.shard"), 2);
  EXPECT_THAT(std::vector<std::string>(first_sync, ops.end()),
              ElementsAre("sync " + dir + "/ps-0.shard", "sync " + dir + "/ps-1.shard", "syncdir " + dir,
                          "remove " + dir + "/MANIFEST.tmp", "write " + dir + "/MANIFEST.tmp",
                          "sync " + dir + "/MANIFEST.tmp", "rename " + dir + "/MANIFEST.tmp", "syncdir " + dir));
  EXPECT_EQ(ops[1], "syncdir checkpoints");
}

// Whatever operation fails, the round is given up, the older checkpoint stays, and the next round can succeed.
TEST_F(CheckpointRoundsTest, AFailureAtAnyStepLeavesTheOldOne) {
  Start({1, 1});
  AnswerAll({1, 1});
  ASSERT_TRUE(rounds->durable().has_value());
  for (uint32_t failing = 1;; ++failing) {
    uint32_t op_number = 0;
    bool failed = false;
    disk.fate = [&](const StorageOp&) {
      failed |= ++op_number == failing;
      return op_number == failing ? absl::ResourceExhaustedError("no space left on device") : absl::OkStatus();
    };
    const Round round{1, 1 + failing};
    Start(round);
    AnswerAll(round);
    disk.fate = nullptr;
    if (!failed || rounds->durable()->round == round) break;  // all steps up to the commit were tried
    EXPECT_FALSE(rounds->active());
    EXPECT_THAT(rounds->last_error(), HasSubstr("no space left on device"));
    EXPECT_EQ(rounds->durable()->round, (Round{1, 1}));
    EXPECT_TRUE(DecodeManifest(disk.At("checkpoints/1-1/MANIFEST")).ok());
    EXPECT_FALSE(disk.Has("checkpoints/1-1/MANIFEST.tmp"));
    EXPECT_THAT(failures.list().back().what, HasSubstr(ToString(round)));
    ASSERT_LT(failing, 50u);
  }
  EXPECT_GT(failures.list().size(), 10u);
  EXPECT_EQ(rounds->last_error(), "") << "a good round ends the complaint";
}

TEST_F(CheckpointRoundsTest, FewRecordsAreInFlightPerPs) {
  rounds->Start({1, 1}, {"{}", {}, committed});
  effects = Settle();
  size_t asked = 0;
  for (const SnapshotRequest& request : Requests(0)) asked += request.slices.size();
  EXPECT_LE(asked, CheckpointRounds::kRecordsInFlight);
}

TEST_F(CheckpointRoundsTest, ALostRequestOrRecordIsAskedForAgain) {
  Start({1, 1});
  const std::vector<SliceId> slices = Server(0).slices;
  ASSERT_TRUE(Receive(RecordOf(0, slices[0], {1, 1})).ok());
  effects.clear();
  turn.now += Timing{}.control_retry;
  rounds->Tick();
  effects = Settle();
  ASSERT_THAT(Requests(0), SizeIs(1));
  ASSERT_THAT(Requests(0)[0].slices, SizeIs(1));
  EXPECT_EQ(Requests(0)[0].slices[0].slice, slices[1]);
  EXPECT_EQ(Requests(0)[0].slices[0].epoch, (SliceEpoch{1, 1}));
}

TEST_F(CheckpointRoundsTest, ARecordSaidTwiceIsWrittenOnce) {
  Start({1, 1});
  ASSERT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  ASSERT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  EXPECT_EQ(disk.At("checkpoints/1-1/ps-0.shard").size(), 13u);
}

// Protocol hole A5: an answer to another round is never taken for one to this.
TEST_F(CheckpointRoundsTest, RecordsOfAnotherRoundAreLate) {
  Start({1, 2});
  EXPECT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  EXPECT_FALSE(disk.Has("checkpoints/1-2/ps-0.shard"));
}

// Protocol hole A4: a round does not span a restore.
TEST_F(CheckpointRoundsTest, ARoundEndsWhenASlicesEpochChanges) {
  Start({1, 1});
  ASSERT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  Assignment moved(turn, storage, members, failures, grid, Timing{});
  Manifest source;
  source.records.resize(grid.size());
  source.files.resize(1);
  moved.Place(1, members.Alive(TaskRole::kPs), 12, {source});
  turn.out.Take();
  rounds = std::make_unique<CheckpointRounds>(CheckpointRounds::Parts{turn, storage, members, moved, store, failures},
                                              CheckpointSpec{}, Timing{});
  Start({1, 2});
  SliceReport bad{.from = Server(0).incarnation, .slices = {}};
  bad.slices.push_back({Server(0).slices[0], {1, 1}, "cannot be installed", {}, {}});
  ASSERT_TRUE(moved.Receive(bad).ok());
  EXPECT_TRUE(Receive(RecordOf(1, Server(1).slices[0], {1, 2})).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("moved"));
  EXPECT_FALSE(disk.Has("checkpoints/1-2/ps-1.shard"));
}

TEST_F(CheckpointRoundsTest, ARecordWithoutACommittedLeaseEndsTheRoundAndIsTold) {
  Start({1, 1});
  SliceRecord record = RecordOf(0, Server(0).slices[0], {1, 1});
  record.finished = IntervalSet();
  record.finished.InsertRange(0, 2);
  EXPECT_TRUE(Receive(record).ok());
  EXPECT_FALSE(rounds->active());
  const std::optional<IntervalSet> lacking = rounds->TakeLacking();
  ASSERT_TRUE(lacking.has_value());
  EXPECT_FALSE(lacking->Contains(2));
  EXPECT_FALSE(rounds->TakeLacking().has_value());
  EXPECT_FALSE(disk.Has("checkpoints/1-1/MANIFEST"));
}

TEST_F(CheckpointRoundsTest, RefusesRecordsThatNoHonestPsSends) {
  Start({1, 1});
  const SliceId others = Server(1).slices[0];
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(RecordOf(0, others, {1, 1}))));
  SliceRecord record = RecordOf(0, Server(0).slices[0], {1, 1});
  record.blocks.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(record)));
  record.blocks.assign(5, Payload::Zeros(1 << 20));
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(record)));
  record = RecordOf(0, Server(0).slices[0], {1, 1});
  record.from = Incarnation{77};
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(record)));
  record = RecordOf(0, Server(0).slices[0], {1, 1});
  record.epoch = {1, 9};
  EXPECT_TRUE(Receive(record).ok());
  EXPECT_FALSE(disk.Has("checkpoints/1-1/ps-0.shard"));
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(WrittenOf(0, {1, 1})))) << "via chief";
  AnswerAll({1, 1});
  EXPECT_FALSE(rounds->active());
  EXPECT_TRUE(rounds->durable().has_value());
}

TEST_F(CheckpointRoundsTest, APsThatSendsNothingEndsTheRound) {
  Start({1, 1});
  for (Time end = turn.now + 14s; turn.now < end; turn.now += 500ms) rounds->Tick();
  EXPECT_TRUE(rounds->active());
  EXPECT_THAT(rounds->Waits(), SizeIs(2));
  turn.now += 1s;
  rounds->Tick();
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("ps-0"));
}

TEST_F(CheckpointRoundsTest, OldOnesGoOnlyAfterTheNewOneIsDurable) {
  CheckpointSpec spec;
  spec.keep = 1;
  MakeRounds(spec);
  Start({1, 1});
  AnswerAll({1, 1});
  disk.fate = [&](const StorageOp& op) {
    if (op.kind == StorageOp::Kind::kRemove && op.path == ManifestPath({1, 1})) {
      EXPECT_TRUE(disk.Has(ManifestPath({1, 2})));
    }
    return absl::OkStatus();
  };
  Start({1, 2});
  EXPECT_TRUE(disk.Has(ManifestPath({1, 1})));
  AnswerAll({1, 2});
  EXPECT_FALSE(disk.Has(ManifestPath({1, 1})));
  EXPECT_TRUE(disk.Has(ManifestPath({1, 2})));
}

class SharedCheckpointTest : public CheckpointRoundsTest {
 protected:
  SharedCheckpointTest() {
    CheckpointSpec spec;
    spec.via = CheckpointVia::kShared;
    MakeRounds(spec);
    Start({1, 1});
  }
  void PutFiles(size_t bytes = 20) {
    for (const char* file : {"ps-0.shard", "ps-1.shard"}) disk.Put(ShardPath({1, 1}, file), std::string(bytes, 'x'));
  }
};

TEST_F(SharedCheckpointTest, EachPsWritesItsOwnFile) {
  const auto requests = SentOf<WriteShard>(effects, Control(1));
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].file, "ps-1.shard");
  EXPECT_EQ(requests[0].to, Server(1).incarnation);
  EXPECT_THAT(requests[0].slices, SizeIs(2));
  PutFiles();
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  EXPECT_TRUE(rounds->active());
  ASSERT_TRUE(Receive(WrittenOf(1, {1, 1})).ok());
  ASSERT_FALSE(rounds->active()) << rounds->last_error();
  const absl::StatusOr<Manifest> manifest = DecodeManifest(disk.At("checkpoints/1-1/MANIFEST"));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->records[0].crc32c, 99u);
}

TEST_F(SharedCheckpointTest, ARequestIsRepeatedUntilItIsAnswered) {
  PutFiles();
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  effects.clear();
  turn.now += 1s;
  rounds->Tick();
  effects = Settle();
  EXPECT_THAT(SentOf<WriteShard>(effects, Control(0)), IsEmpty());
  EXPECT_THAT(SentOf<WriteShard>(effects, Control(1)), SizeIs(1));
}

TEST_F(SharedCheckpointTest, AFileThatIsNotHereMakesNoCheckpoint) {
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("ps-0.shard"));
}

TEST_F(SharedCheckpointTest, AFileOfAnotherLengthMakesNoCheckpoint) {
  PutFiles(21);
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("via: shared"));
}

TEST_F(SharedCheckpointTest, APsThatCannotWriteEndsTheRound) {
  ASSERT_TRUE(Receive(ShardWritten{Server(1).incarnation, {1, 1}, "no space left", 0, {}}).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("ps-1 cannot write its shard: no space left"));
}

TEST_F(SharedCheckpointTest, RefusesFilesThatNoHonestPsWrites) {
  PutFiles();
  std::vector<ShardWritten> absurd(5, WrittenOf(0, {1, 1}));
  absurd[0].slices.pop_back();
  absurd[1].slices[1].slice = absurd[1].slices[0].slice;
  absurd[2].slices[1].offset = 0;
  absurd[3].bytes = 21;
  absurd[4].slices[1].slice = Server(1).slices[0];
  for (const ShardWritten& written : absurd) EXPECT_TRUE(absl::IsInvalidArgument(Receive(written)));
  EXPECT_TRUE(rounds->active());
}

}  // namespace
}  // namespace downpour
