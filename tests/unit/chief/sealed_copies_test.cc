#include "chief/folder/sealed_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SealedCopiesTest : public PartsFixture {
 protected:
  absl::Status Write(const std::string& text) {
    absl::Status status = absl::UnknownError("not called");
    storage.Run(WriteCopies("note", text), [&](const StorageDone& done) { status = done.status; });
    Settle();
    return status;
  }
  // What is whole, a before b.
  std::vector<std::string> Read() {
    std::vector<std::string> texts;
    damage = "not called";
    const auto take = [&](const std::string& text) {
      texts.push_back(text);
      return text == "odd" ? absl::DataLossError("is odd") : absl::OkStatus();
    };
    ReadCopies(storage, "note", 100, take, [&](const std::string& found) { damage = found; });
    Settle();
    return texts;
  }
  std::string damage;
};

TEST_F(SealedCopiesTest, EveryFlippedBitAndEveryLostTailIsNoticed) {
  const std::string line = Sealed("term 12");
  EXPECT_EQ(*Unsealed(line), "term 12");
  for (size_t i = 0; i < line.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = line;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_FALSE(Unsealed(damaged).ok()) << i << " " << bit;
    }
    EXPECT_FALSE(Unsealed(line.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(Unsealed(line + line).ok());
}

TEST_F(SealedCopiesTest, WhatIsNotThereIsNothingWrong) {
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_EQ(damage, "");
}

// A crash after any operation leaves a whole copy of the text before, or of the new one.
TEST_F(SealedCopiesTest, ACrashAtAnyStepLeavesAWholeCopy) {
  for (int survived = 0;; ++survived) {
    disk = MemoryDisk();
    ASSERT_TRUE(Write("old").ok());
    int ops = 0;
    disk.fate = [&](const StorageOp&) {
      return ops++ < survived ? absl::OkStatus() : absl::DataLossError("the chief is no more");
    };
    const bool done = Write("new").ok();
    disk.fate = nullptr;
    const std::vector<std::string> texts = Read();
    ASSERT_EQ(texts.size(), 2u) << survived;
    EXPECT_EQ(damage, "") << survived;
    if (done) {
      EXPECT_THAT(texts, ElementsAre("new", "new"));
      EXPECT_GE(survived, 8) << "each copy is written, synced, renamed and its folder synced";
      break;
    }
  }
}

TEST_F(SealedCopiesTest, ACopyThatIsDamagedUnreadableOrNotTakenIsNamedAndTheOtherCounts) {
  ASSERT_TRUE(Write("text").ok());
  disk.At("note.b")[1] ^= 4;
  EXPECT_THAT(Read(), ElementsAre("text"));
  EXPECT_THAT(damage, HasSubstr("note.b: its checksum does not match"));
  disk.At("note.b") = Sealed("odd");
  EXPECT_THAT(Read(), ElementsAre("text", "odd"));
  EXPECT_EQ(damage, "note.b: is odd");
  disk.fate = [](const StorageOp& op) {
    return op.path == "note.a" ? absl::PermissionDeniedError("permission denied") : absl::OkStatus();
  };
  EXPECT_THAT(Read(), ElementsAre("odd"));
  EXPECT_EQ(damage, "note.a: permission denied; note.b: is odd");
}

}  // namespace
}  // namespace downpour
