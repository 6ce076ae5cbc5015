#include "chief/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class JournalTest : public PartsFixture {
 protected:
  JournalTest() {
    journal.record() = {.run = UINT64_MAX,
                        .began_unix_ms = 1700000000000,
                        .chiefs = 3,
                        .job = CanonicalJob(SmallJob()),
                        .data = DataShape{12, 10, UINT64_MAX - 1},
                        .ended = ""};
  }
  void Advance(Duration after = {}) {
    turn.now += after;
    journal.Advance();
    Settle();
  }
  std::unique_ptr<Journal> Load() {
    auto next = std::make_unique<Journal>(turn, storage, Timing{});
    bool loaded = false;
    next->Load([&] { loaded = true; });
    Settle();
    EXPECT_TRUE(loaded);
    return next;
  }
  Journal journal{turn, storage, Timing{}};
};

TEST_F(JournalTest, EveryFlippedBitAndEveryLostTailIsNoticed) {
  const std::string text = EncodeJobRecord(journal.record(), 7);
  const auto read = DecodeJobRecord(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->first, 7u);
  EXPECT_EQ(read->second, journal.record());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    EXPECT_FALSE(DecodeJobRecord(damaged).ok()) << i;
    EXPECT_FALSE(DecodeJobRecord(text.substr(0, i)).ok()) << i;
  }
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

// A crash after any operation of a save leaves the record before it, or the new one.
TEST_F(JournalTest, ACrashAtAnyStepLeavesAWholeRecord) {
  for (int survived = 0;; ++survived) {
    disk = MemoryDisk();
    Journal first(turn, storage, Timing{});
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
