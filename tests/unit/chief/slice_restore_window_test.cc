// How much of a restore is on its way to one ps.
#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/codec.h"
#include "tests/unit/chief/slice_restore_fixture.h"

namespace downpour {
namespace {

constexpr int kSlices = 100;

SliceGrid GridOfManySlices() {
  std::vector<VariableSpec> variables;
  for (int i = 0; i < kSlices; ++i) variables.push_back({.name = absl::StrCat("bias_", i), .shape = {16}});
  return MakeSliceGrid(std::move(variables));
}

class SliceRestoreWindowTest : public SliceRestoreFixture {
 protected:
  SliceRestoreWindowTest() : SliceRestoreFixture(GridOfManySlices()) {}

  // Restores from a checkpoint whose records are of so many bytes. How many of them are read at once.
  uint64_t BeginWith(uint64_t record_bytes) {
    Manifest manifest;
    manifest.round = {1, 2};
    manifest.files = {{"ps-0.shard", record_bytes * kSlices}};
    for (const Slice& slice : grid.slices) {
      manifest.records.push_back(
          {.slice = slice.id, .offset = ToNumber(slice.id) * record_bytes, .bytes = record_bytes});
    }
    assignment.Place(3, {ps}, 12, {{manifest}, "", {}});
    return TakeReads();
  }
  // None of them is carried out.
  uint64_t TakeReads() {
    reads_.clear();
    for (const Effect& effect : context.out.Take()) {
      const auto* op = std::get_if<StorageOp>(&effect);
      if (op != nullptr && op->kind == StorageOp::Kind::kRead) reads_.push_back(*op);
    }
    return reads_.size();
  }
  // Of the slice's record that was read first.
  uint64_t FirstRead() const { return reads_.at(0).offset / reads_.at(0).bytes; }
  void FailReads() {
    for (const StorageOp& read : std::exchange(reads_, {})) {
      StorageDone done;
      done.ticket = read.ticket;
      done.status = absl::UnknownError("input/output error");
      storage.Complete(done);
    }
  }
  uint64_t ReadsAfterReportOf(uint32_t slice) {
    SliceReport report{.from = ps->incarnation, .slices = {}};
    report.slices.push_back({SliceId{slice}, placement.epochs().at(slice), "", {}});
    EXPECT_TRUE(restore.Receive(report).ok());
    return TakeReads();
  }

 private:
  std::vector<StorageOp> reads_;  // taken last
};

TEST_F(SliceRestoreWindowTest, IsCountedInBytes) {
  constexpr uint64_t kMib = uint64_t{1} << 20;
  EXPECT_EQ(BeginWith(kMib), SliceRestore::kRestoreWindow / kMib);
  context.now += Timing{}.tick;
  restore.Tick();
  EXPECT_EQ(TakeReads(), 0u) << "it is full";
  EXPECT_EQ(ReadsAfterReportOf(1), 1u) << "in any order";
  EXPECT_EQ(ReadsAfterReportOf(0), 1u);
  EXPECT_EQ(ReadsAfterReportOf(0), 0u) << "a repeated report makes no room";
}

TEST_F(SliceRestoreWindowTest, HoldsTheLargestRecords) {
  EXPECT_EQ(BeginWith(kMaxRecordBytes), SliceRestore::kRestoreWindow / kMaxRecordBytes);
  EXPECT_EQ(ReadsAfterReportOf(0), 1u);
}

TEST_F(SliceRestoreWindowTest, HoldsNoneThatWaitsForItsDisk) {
  constexpr uint64_t kAtOnce = SliceRestore::kRestoreWindow / kMaxRecordBytes;
  ASSERT_EQ(BeginWith(kMaxRecordBytes), kAtOnce);
  FailReads();
  context.now += Timing{}.tick;
  restore.Tick();
  EXPECT_EQ(TakeReads(), kAtOnce) << "others, which lie elsewhere on it";
}

TEST_F(SliceRestoreWindowTest, OneToBeTriedAgainComesBehindThoseThatWereNotTriedYet) {
  const uint64_t at_once = BeginWith(kMaxRecordBytes);
  ASSERT_EQ(FirstRead(), 0u);
  FailReads();
  context.now += Timing{}.dead_after;
  restore.Tick();
  ASSERT_EQ(TakeReads(), at_once);
  EXPECT_EQ(FirstRead(), at_once);
}

TEST_F(SliceRestoreWindowTest, HoldsNoMoreSmallRecordsThanAQueueOfMessagesTakes) {
  EXPECT_EQ(BeginWith(100), SliceRestore::kRestoreWindow / SliceRestore::kLeastRecord);
  EXPECT_LT(SliceRestore::kRestoreWindow / SliceRestore::kLeastRecord, kSlices);
  EXPECT_EQ(ReadsAfterReportOf(0), 1u);
}

}  // namespace
}  // namespace downpour
