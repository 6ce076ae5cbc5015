#include "tests/sim/disk.h"

#include <gtest/gtest.h>

#include <set>

namespace downpour {
namespace {

using Kind = StorageOp::Kind;

StorageOp Op(Kind kind, std::string path, std::string text = "", std::string target = "") {
  StorageOp op;
  op.kind = kind;
  op.path = std::move(path);
  op.target = std::move(target);
  if (!text.empty()) op.data = {Payload::CopyOf(text.data(), text.size())};
  op.bytes = 1000;
  return op;
}

std::string Text(const Payload& payload) { return {reinterpret_cast<const char*>(payload.data()), payload.size()}; }

// A file replaced as a whole: beside, synced, renamed, folder synced; stopped after `steps` of these four.
void Replace(Disk& disk, const std::string& text, int steps) {
  const StorageOp ops[] = {Op(Kind::kWrite, "f.tmp", text), Op(Kind::kSync, "f.tmp"),
                           Op(Kind::kRename, "f.tmp", "", "f"), Op(Kind::kSyncDir, "")};
  for (int i = 0; i < steps; ++i) ASSERT_TRUE(disk.Carry(ops[i]).status.ok());
}

TEST(Disk, ReadsWhatWasWritten) {
  Disk disk(1);
  EXPECT_TRUE(absl::IsNotFound(disk.Carry(Op(Kind::kAppend, "a/b/f", "x")).status));
  EXPECT_TRUE(disk.Carry(Op(Kind::kMakeDir, "a/b")).status.ok());
  EXPECT_TRUE(disk.Carry(Op(Kind::kMakeDir, "a/b")).status.ok());
  EXPECT_TRUE(disk.Carry(Op(Kind::kWrite, "a/b/f", "one")).status.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(disk.Carry(Op(Kind::kWrite, "a/b/f", "two")).status));
  EXPECT_TRUE(disk.Carry(Op(Kind::kAppend, "a/b/f", "two")).status.ok());
  EXPECT_EQ(Text(disk.Carry(Op(Kind::kRead, "a/b/f")).data), "onetwo");
  StorageOp tail = Op(Kind::kRead, "a/b/f");
  tail.offset = 4;
  EXPECT_EQ(Text(disk.Carry(tail).data), "wo");
  EXPECT_EQ(disk.Carry(Op(Kind::kList, "a")).names, (std::vector<std::string>{"b/"}));
  EXPECT_EQ(disk.Carry(Op(Kind::kList, "a/b")).names, (std::vector<std::string>{"f"}));
  EXPECT_TRUE(disk.Carry(Op(Kind::kRemove, "a")).status.ok());
  EXPECT_TRUE(absl::IsNotFound(disk.Carry(Op(Kind::kRead, "a/b/f")).status));
}

TEST(Disk, FailsOnlyWhereItMay) {
  Disk disk(1);
  disk.set_faults({.no_space = 1, .io_error = 1});
  EXPECT_TRUE(disk.Carry(Op(Kind::kAppend, "f", "x"), /*may_fail=*/false).status.ok());
  EXPECT_TRUE(disk.Carry(Op(Kind::kSync, "f"), /*may_fail=*/false).status.ok());
  EXPECT_FALSE(disk.Carry(Op(Kind::kAppend, "f", "x")).status.ok());
  EXPECT_FALSE(disk.Carry(Op(Kind::kSync, "f")).status.ok());
}

TEST(Disk, LetsNobodyOutOfTheJobFolder) {
  Disk disk(1);
  for (const char* path : {"/etc/passwd", "../f", "a/../../f", "a//f", "a/"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(disk.Carry(Op(Kind::kWrite, path, "x")).status)) << path;
  }
}

TEST(Disk, KeepsWhatIsSyncedThroughAPowerFailure) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Disk disk(seed);
    Replace(disk, "old", 4);
    EXPECT_EQ(disk.ReadDurable("f").value(), "old");
    disk.PowerFailure();
    EXPECT_EQ(Text(disk.Carry(Op(Kind::kRead, "f")).data), "old");
  }
}

TEST(Disk, MayLoseWhatIsNotSynced) {
  std::set<std::string> found[4];
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (int steps = 1; steps < 4; ++steps) {
      Disk disk(seed);
      Replace(disk, "old", 4);
      Replace(disk, "new", steps);
      EXPECT_EQ(disk.ReadDurable("f").value(), "old");
      disk.PowerFailure();
      found[steps].insert(Text(disk.Carry(Op(Kind::kRead, "f")).data));
    }
  }
  EXPECT_EQ(found[1], (std::set<std::string>{"old"}));
  EXPECT_EQ(found[2], (std::set<std::string>{"old"}));
  EXPECT_EQ(found[3], (std::set<std::string>{"old", "new"}));
}

TEST(Disk, KeepsAnySubsetOfTheUnsyncedNamesOfAFolder) {
  std::set<std::vector<std::string>> found;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Disk disk(seed);
    Replace(disk, "old", 4);
    disk.Carry(Op(Kind::kRemove, "f"));
    disk.Carry(Op(Kind::kMakeDir, "g"));
    disk.Carry(Op(Kind::kWrite, "h", "x"));
    disk.PowerFailure();
    found.insert(disk.Carry(Op(Kind::kList, "")).names);
  }
  EXPECT_EQ(found.size(), 8u) << "of f, g and h";
}

TEST(Disk, WhatIsRemovedMaySurviveUntilItsFolderIsSynced) {
  Disk disk(1);
  EXPECT_FALSE(disk.MaySurvive("f"));
  disk.Carry(Op(Kind::kWrite, "f", "x"));
  EXPECT_TRUE(disk.MaySurvive("f"));
  disk.Carry(Op(Kind::kSyncDir, ""));
  disk.Carry(Op(Kind::kRemove, "f"));
  EXPECT_TRUE(disk.MaySurvive("f"));
  disk.Carry(Op(Kind::kSyncDir, ""));
  EXPECT_FALSE(disk.MaySurvive("f"));
}

TEST(Disk, WhatDamageTookDoesNotComeBackWithItsFoldersSync) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Disk disk(seed);
    disk.Carry(Op(Kind::kWrite, "f", "x"));
    disk.Damage("f");
    const bool seen = disk.ReadSeen("f").ok();
    disk.Carry(Op(Kind::kSyncDir, ""));
    EXPECT_EQ(disk.MaySurvive("f"), seen) << seed;
  }
}

TEST(Disk, ARenameMayLoseItsSourceAndNotReachItsTarget) {
  std::set<std::vector<std::string>> found;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Disk disk(seed);
    Replace(disk, "text", 2);
    disk.Carry(Op(Kind::kSyncDir, ""));
    disk.Carry(Op(Kind::kRename, "f.tmp", "", "f"));
    disk.PowerFailure();
    found.insert(disk.Carry(Op(Kind::kList, "")).names);
  }
  EXPECT_EQ(found, (std::set<std::vector<std::string>>{{}, {"f"}, {"f.tmp"}, {"f", "f.tmp"}}));
}

TEST(Disk, TearsUnsyncedContents) {
  std::set<std::string> found;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Disk disk(seed);
    disk.Carry(Op(Kind::kWrite, "f", "ab"));
    disk.Carry(Op(Kind::kSync, "f"));
    disk.Carry(Op(Kind::kSyncDir, ""));
    disk.Carry(Op(Kind::kAppend, "f", "cd"));
    EXPECT_FALSE(disk.ReadDurable("f").ok());
    disk.PowerFailure();
    found.insert(Text(disk.Carry(Op(Kind::kRead, "f")).data));
  }
  EXPECT_EQ(found, (std::set<std::string>{"ab", "abc", "abcd", std::string("ab\0", 3), std::string("ab\0\0", 4),
                                          std::string("ab\0d", 4), std::string("abc\0", 4)}));
}

TEST(Disk, DoesNotFindAFileWhoseFolderIsLost) {
  Disk disk(1);
  disk.Carry(Op(Kind::kMakeDir, "c/1-1"));
  disk.Carry(Op(Kind::kWrite, "c/1-1/f", "x"));
  disk.Carry(Op(Kind::kSync, "c/1-1/f"));
  disk.Carry(Op(Kind::kSyncDir, "c/1-1"));
  disk.Carry(Op(Kind::kSyncDir, "c"));
  EXPECT_FALSE(disk.ReadDurable("c/1-1/f").ok()) << "c itself is not durable";
  disk.Carry(Op(Kind::kSyncDir, ""));
  EXPECT_EQ(disk.ReadDurable("c/1-1/f").value(), "x");
}

TEST(Disk, DealsFaults) {
  Disk disk(1);
  disk.set_faults({.no_space = 1, .io_error = 1});
  EXPECT_TRUE(absl::IsResourceExhausted(disk.Carry(Op(Kind::kWrite, "f", "text")).status));
  EXPECT_TRUE(absl::IsUnknown(disk.Carry(Op(Kind::kSync, "f")).status));
  EXPECT_EQ(disk.faults_dealt(), (FaultCounts{{"no space", 1}, {"sync error", 1}}));
}

}  // namespace
}  // namespace downpour
