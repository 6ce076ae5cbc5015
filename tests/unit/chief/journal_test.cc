#include "chief/folder/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schema/limits.h"
#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class JournalTest : public PartsFixture {
 protected:
  JournalTest() {
    journal.record() = {.run = UINT64_MAX,
                        .began_unix_ms = 1700000000000,
                        .chiefs = 3,
                        .job = CanonicalJob(SmallJob()),
                        .data = DataShape{12, 10, UINT64_MAX - 1, {{"a.csv", 5, 1}, {"b.csv", 12, UINT64_MAX}}},
                        .data_grow = true,
                        .workers = 1024,
                        .early = {.evaluated = 9, .best = 1.0 / 3, .best_epoch = 7, .without_gain = 2, .epochs = 10},
                        .best = {.round = {2, 1}, .metric = "auc", .value = 1.0 / 3, .epoch = 7},
                        .master = "worker-1",
                        .ended = "",
                        .why = "",
                        .newest = {2, 3},
                        .abandoned = {1, UINT32_MAX}};
  }
  void Advance(Duration after = {}) {
    context.now += after;
    journal.Advance();
    Settle();
  }
  std::unique_ptr<Journal> Load() {
    auto next = std::make_unique<Journal>(context, storage, Timing{});
    bool loaded = false;
    next->Load([&] { loaded = true; });
    Settle();
    EXPECT_TRUE(loaded);
    return next;
  }
  Journal journal{context, storage, Timing{}};
};

TEST_F(JournalTest, AnEntryComesBackAsItWas) {
  JournalEntry entry{.number = 7,
                     .record = journal.record(),
                     .costs = {.workers_lost = 1,
                               .servers_lost = 2,
                               .leases_handed_on = 3,
                               .batches_recomputed = 4,
                               .failures = {},
                               .skips_listed = {{"ps-0", 2}, {"ps-1", UINT64_MAX}}},
                     .batches_committed = 5,
                     .checkpoints = {.servers_lost = 6,
                                     .lived = 1.0 / 3,
                                     .losses = 0.1,
                                     .rounds = 8,
                                     .inside = 1e-9,
                                     .inside_commits = 10,
                                     .outside = 11.5,
                                     .outside_commits = 12},
                     .clock = {.age_ms = 13, .unix_ms = 14, .steady_ms = 15, .boot = "b"}};
  entry.costs.failures.push_back({1700000000123, 123, "ps-1", "no heartbeat for 5.0 s"});
  const auto read = DecodeEntry(EncodeEntry(entry));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, entry);
}

TEST_F(JournalTest, WhatNoChiefWroteIsRefusedAndFieldsOfOtherReleasesAreLeftOut) {
  for (const char* text : {"", "{", "[]", "{}", R"({"number":0})", R"({"number":"1"})", R"({"number":-1})",
                           R"({"number":18446744073709551615})"}) {
    EXPECT_FALSE(DecodeEntry(text).ok()) << text;
  }
  const auto read =
      DecodeEntry(R"({"number":3,"job":7,"toll":[],"data":{},"failures":1,"checkpoints":{"lived":"1"},"later":{}})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, (JournalEntry{.number = 3, .record = {}, .costs = {}}));
  EXPECT_THAT(DecodeEntry(R"({"number":3,"toll":{"failures":[1,{"task":2}]}})")->costs.failures, SizeIs(1));
}

TEST_F(JournalTest, WhatIsSavedIsFoundByTheNext) {
  EXPECT_FALSE(journal.durable());
  Advance();
  EXPECT_TRUE(journal.durable());
  const auto next = Load();
  EXPECT_TRUE(next->found());
  EXPECT_EQ(next->record(), journal.record());
  EXPECT_EQ(next->damage(), "");
}

// As JSON has them: each quote takes two bytes.
TEST_F(JournalTest, TheLongestTextAndTheMostFilesAreReadBack) {
  journal.record().job = std::string(kMaxTextBytes, '"');
  journal.record().data->files.assign(kMostFilesTold, {std::string(kMaxFileName, '"'), UINT64_MAX, UINT64_MAX});
  Advance();
  const auto next = Load();
  EXPECT_EQ(next->damage(), "");
  EXPECT_EQ(next->record().job, journal.record().job);
  EXPECT_EQ(next->record().data->files, journal.record().data->files);
}

TEST_F(JournalTest, OnlyWhatChangedIsWritten) {
  Advance();
  int ops = 0;
  disk.fate = [&](const StorageOp&) { return ++ops, absl::OkStatus(); };
  Advance(1s);
  EXPECT_EQ(ops, 0);
  journal.record().ended = "SUCCEEDED";
  EXPECT_FALSE(journal.durable());
  Advance(1s);
  EXPECT_GT(ops, 0);
  EXPECT_EQ(Load()->record().ended, "SUCCEEDED");
}

TEST_F(JournalTest, TheCostsAreWrittenAtOnceThenOnceASecond) {
  Advance();
  Advance(2s);
  int saves = 0;
  disk.fate = [&](const StorageOp& op) { return saves += op.target == "journal.b", absl::OkStatus(); };
  for (int i = 0; i < 10; ++i) {
    ++journal.costs().workers_lost;
    Advance();
    EXPECT_TRUE(journal.durable()) << "nothing that is said rests on it";
  }
  EXPECT_EQ(saves, 1);
  EXPECT_EQ(Load()->costs().workers_lost, 1u);
  Advance(Journal::kCostsEvery);
  Advance(Journal::kCostsEvery);
  EXPECT_EQ(saves, 2);
  EXPECT_EQ(Load()->costs().workers_lost, 10u);
}

TEST_F(JournalTest, WhatIsKnownOfRoundsIsWrittenAlong) {
  Advance();
  int ops = 0;
  disk.fate = [&](const StorageOp&) { return ++ops, absl::OkStatus(); };
  journal.NoteCheckpoints({.lived = 7});
  Advance(10s);
  EXPECT_EQ(ops, 0) << "it changes all the time, and nothing rests on it";
  journal.record().newest = {2, 4};
  Advance();
  EXPECT_EQ(Load()->checkpoint_history().lived, 7);
}

TEST_F(JournalTest, WhatIsCommittedIsWrittenNowAndThenAndOfThisRunAlone) {
  Advance();
  int saves = 0;
  disk.fate = [&](const StorageOp& op) { return saves += op.target == "journal.b", absl::OkStatus(); };
  for (Duration waited{}; waited < Journal::kCommitsEvery * 4; waited += 500ms) {
    journal.NoteCommitted(journal.batches_committed() + 1);
    Advance(500ms);
    EXPECT_TRUE(journal.durable()) << "nothing that is said rests on it";
  }
  EXPECT_EQ(saves, 4);
  EXPECT_GT(Load()->batches_committed(), 30u);
  journal.NoteCheckpoints({.servers_lost = 1});
  journal.BeginRun(JobRecord());
  EXPECT_EQ(journal.batches_committed(), 0u);
  EXPECT_EQ(journal.checkpoint_history(), CheckpointHistory());
}

// A chief may live for less than that, and the next one starts from what it says.
TEST_F(JournalTest, WhatIsCommittedFirstIsWrittenAtOnce) {
  journal.Save([](const absl::Status&) {});
  Settle();
  journal.NoteCommitted(3);
  Advance(1ms);
  EXPECT_EQ(Load()->batches_committed(), 3u);
  journal.NoteCommitted(4);
  Advance(1ms);
  EXPECT_EQ(Load()->batches_committed(), 3u);
}

// A crash after any operation of a save leaves the record before it, or the new one.
TEST_F(JournalTest, ACrashAtAnyStepLeavesAWholeRecord) {
  for (int survived = 0;; ++survived) {
    disk = MemoryDisk();
    Journal first(context, storage, Timing{});
    first.record() = journal.record();
    first.Save([](const absl::Status&) {});
    Settle();
    int ops = 0;
    disk.fate = [&](const StorageOp&) {
      return ops++ < survived ? absl::OkStatus() : absl::DataLossError("the chief is no more");
    };
    first.record().ended = "FAILED";
    first.Save([](const absl::Status&) {});
    Settle();
    disk.fate = nullptr;
    const auto next = Load();
    ASSERT_TRUE(next->found()) << survived;
    EXPECT_EQ(next->damage(), "") << survived;
    EXPECT_EQ(next->record().run, journal.record().run);
    if (ops <= survived) {
      EXPECT_EQ(next->record().ended, "FAILED");
      break;
    }
  }
}

TEST_F(JournalTest, OneDamagedFileIsNamedAndTheOtherCounts) {
  Advance();
  for (const char* file : {"journal.a", "journal.b"}) {
    disk.At(file)[5] ^= 4;
    const auto next = Load();
    EXPECT_EQ(next->record(), journal.record());
    EXPECT_THAT(next->damage(), HasSubstr(file));
    disk.At(file)[5] ^= 4;
  }
}

TEST_F(JournalTest, AFullDiskIsToldAndTriedAgain) {
  disk.fate = [](const StorageOp& op) {
    return op.kind == StorageOp::Kind::kWrite ? absl::ResourceExhaustedError("no space left on device")
                                              : absl::OkStatus();
  };
  Advance();
  EXPECT_FALSE(journal.durable());
  EXPECT_THAT(journal.error(), HasSubstr("journal.a.tmp: no space left on device"));
  disk.fate = nullptr;
  Advance();
  EXPECT_FALSE(journal.durable()) << "not at once: whoever fills the disk needs it too";
  Advance(Timing{}.control_retry);
  EXPECT_TRUE(journal.durable());
  EXPECT_EQ(journal.error(), "");
}

}  // namespace
}  // namespace downpour
