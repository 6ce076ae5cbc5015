// Both kinds of state as the counters see them. A record goes from its ps to another one: in pieces that are cut
// anywhere, a bucket's with pushes in between.
#include <gtest/gtest.h>

#include "optimizer/update_rule.h"
#include "ps/bucket_parts.h"
#include "ps/guarded_state.h"
#include "ps/optimizer.h"
#include "ps/table/bucket_rows.h"
#include "runtime/prng.h"
#include "runtime/row_frames.h"
#include "schema/limits.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

constexpr uint32_t kBucket = 1, kBuckets = 2;

using Installed = absl::StatusOr<std::unique_ptr<GuardedState>>;

Installed Install(const std::string& record, size_t cut, uint64_t consumed, std::unique_ptr<IncomingRecord> whole) {
  for (size_t at = 0; at < record.size(); at += cut) {
    const Payload piece = Payload::CopyOf(record.data() + at, std::min(cut, record.size() - at));
    if (absl::Status status = whole->Add(piece); !status.ok()) return status;
  }
  if (const auto head = whole->Head(); !head.ok()) return head.status();
  return whole->Finish(consumed);
}

std::string Joined(const std::vector<Payload>& blocks) {
  std::string bytes;
  for (const Payload& block : blocks) bytes.append(reinterpret_cast<const char*>(block.data()), block.size());
  return bytes;
}

class BucketRecordTest : public testing::Test {
 protected:
  BucketRecordTest() {
    job_.model.tables = {{.name = "a", .width = 3}, {.name = "b", .width = 1}};
    job_.model.table_buckets = kBuckets;
    grid_ = {.variables = {}, .slices = {}, .row_widths = {3, 1}, .buckets = kBuckets};
    for (uint32_t i = 0; i < kBuckets; ++i) grid_.slices.push_back({SliceId{i}, kNoVariable, i, 0});
    tables_ = TablesOf(job_);
    rows_ = std::make_unique<BucketRows>(tables_, kBucket, /*copy=*/5);
    for (uint64_t table = 0; table < 2; ++table) {
      const size_t before = all_.keys.size();
      for (uint64_t key = 0; key < 400; ++key) {
        if (BucketOf(table, key, kBuckets) == kBucket) all_.keys.push_back(key);
      }
      all_.counts.push_back(static_cast<uint32_t>(all_.keys.size() - before));
    }
  }

  // Of all keys, each gradient the same.
  void Push(float gradient) {
    std::vector<Update> updates;
    for (const ModelTable& table : job_.model.tables) updates.push_back(UpdateFor(table.optimizer, Damping(), 1, 1));
    const size_t numbers = 3 * all_.counts[0] + all_.counts[1];
    EXPECT_TRUE(rows_->Apply({.rows = all_, .numbers = std::vector<float>(numbers, gradient)}, updates));
    ++pushes_;
  }

  SliceState State() const {
    SliceState state;
    state.slice = grid_.BucketAt(kBucket);
    state.epoch = {1, 2};
    state.version = pushes_;
    state.finished.InsertRange(0, pushes_);
    return state;
  }

  // Of the point at which it begins; one push comes behind each part.
  std::string Record() {
    std::string record = Joined(EncodeRecord(State()));
    rows_->BeginRecord();
    while (rows_->recording()) {
      record += Joined(FramePart(rows_->NextPart(/*max_bytes=*/2000)));
      Push(-3);
    }
    return record;
  }

  Installed Install(const std::string& record, size_t cut, uint64_t consumed) {
    return downpour::Install(record, cut, consumed, AwaitedRecord(job_, grid_, grid_.BucketAt(kBucket), /*copy=*/6));
  }

  std::string Shown() const { return Joined({rows_->Gather(all_)}); }
  std::string Shown(GuardedState& state) const {
    return Joined({state.ValuesFor({.slice = {}, .epoch = {}, .have = {}, .keys = PackKeys(all_)}, {}, grid_)});
  }

  JobSpec job_;
  SliceGrid grid_;
  std::vector<TableSpec> tables_;
  std::unique_ptr<BucketRows> rows_;
  RowKeys all_;
  uint64_t pushes_ = 0;
};

TEST_F(BucketRecordTest, ARecordIsOfOnePointHoweverManyPushesComeBetweenItsPartsAndHoweverItIsCut) {
  Push(1);
  rows_->ConsumeEmpty();
  ++pushes_;
  Push(2);
  const std::string before = Shown();
  const uint64_t consumed = pushes_;
  const std::string record = Record();
  ASSERT_GT(pushes_, consumed + 3) << "few parts";
  for (const size_t cut : {size_t{1}, size_t{7}, size_t{1000}, record.size()}) {
    const auto installed = Install(record, cut, consumed);
    ASSERT_TRUE(installed.ok()) << installed.status();
    EXPECT_EQ(Shown(**installed), before) << cut;
  }
}

TEST_F(BucketRecordTest, ABucketWithoutRowsHasARecordToo) {
  const auto installed = Install(Record(), 64, 0);
  ASSERT_TRUE(installed.ok()) << installed.status();
  TableTotals totals;
  (*installed)->AddTo(totals);
  EXPECT_EQ(totals.rows, 0u);
}

TEST_F(BucketRecordTest, CountersOfAnotherPointAreNotThoseOfTheRows) {
  Push(1);
  const std::string record = Record();
  EXPECT_TRUE(Install(record, 64, 1).ok());
  EXPECT_FALSE(Install(record, 64, 2).ok());
}

TEST_F(BucketRecordTest, ARecordThatIsCutShortOrDamagedIsNotInstalled) {
  Push(1);
  const std::string record = Record();
  for (size_t bytes = 0; bytes < record.size(); bytes += 97) {
    EXPECT_FALSE(Install(record.substr(0, bytes), 512, 1).ok()) << bytes;
  }
  Prng prng(3);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = record;
    damaged[prng.Below(damaged.size())] ^= static_cast<char>(1 << prng.Below(8));
    EXPECT_FALSE(Install(damaged, 512, 1).ok());
  }
  EXPECT_FALSE(Install(record + record, 512, 1).ok()) << "and another one behind it";
}

TEST_F(BucketRecordTest, APushThatOneTableCannotTakeHasNoEffectOnAny) {
  Push(1);
  const std::string before = Shown();
  std::vector<float> numbers(3 * all_.counts[0] + all_.counts[1], 1);
  numbers.back() = std::numeric_limits<float>::infinity();  // of the second table
  std::vector<Update> updates;
  for (const ModelTable& table : job_.model.tables) updates.push_back(UpdateFor(table.optimizer, Damping(), 1, 1));
  EXPECT_FALSE(rows_->Apply({.rows = all_, .numbers = numbers}, updates));
  ++pushes_;
  EXPECT_EQ(Shown(), before);
  EXPECT_TRUE(Install(Record(), 64, 2).ok()) << "but it was consumed";
}

// ---- The slice of a variable ----------------------------------------------------------------------------------------

TEST(DenseStateTest, AnswersAPullOfItsOwnVersionWithNothing) {
  const std::unique_ptr<GuardedState> state = InitialState(TinyJob(), TinyGrid(), kBias, 0);
  const Version now{{1, 1}, 3};
  EXPECT_EQ(state->ValuesFor({.slice = kBias, .epoch = {1, 1}, .have = {}}, now, TinyGrid()).size(),
            TinyGrid().WireBytes(kBias));
  EXPECT_TRUE(state->ValuesFor({.slice = kBias, .epoch = {1, 1}, .have = now}, now, TinyGrid()).empty());
  const Version before{{1, 0}, 3};
  EXPECT_FALSE(state->ValuesFor({.slice = kBias, .epoch = {1, 1}, .have = before}, now, TinyGrid()).empty());
}

TEST(DenseStateTest, ARecordIsInstalledWholeHoweverItIsCutAndNothingFollowsIt) {
  const std::unique_ptr<GuardedState> before = InitialState(TinyJob(), TinyGrid(), kKernel, 0);
  SliceState state;
  state.slice = kKernel;
  before->Complete(state);
  EXPECT_FALSE(before->BeginParts());
  const std::string record = Joined(EncodeRecord(state));
  const auto install = [](const std::string& bytes, size_t cut, SliceId slice) {
    return Install(bytes, cut, 0, AwaitedRecord(TinyJob(), TinyGrid(), slice, 0));
  };
  for (const size_t cut : {size_t{1}, size_t{7}, record.size()}) {
    const Installed installed = install(record, cut, kKernel);
    ASSERT_TRUE(installed.ok()) << installed.status();
    SliceState after;
    (*installed)->Complete(after);
    EXPECT_EQ(Joined({after.values}), Joined({state.values})) << cut;
    EXPECT_EQ(Joined(after.slots), Joined(state.slots)) << cut;
  }
  EXPECT_FALSE(install(record.substr(0, record.size() - 1), 7, kKernel).ok());
  EXPECT_FALSE(install(record, 7, kBias).ok()) << "of another slice";
  EXPECT_FALSE(install(std::string(kMaxRecordBytes + 1, 'x'), 1 << 20, kKernel).ok());
}

TEST(DenseStateTest, AGradientRaisesTheEnvelopesVersionAndOneThatIsNotFiniteLeavesItAlone) {
  const std::unique_ptr<GuardedState> state = InitialState(TinyJob(), TinyGrid(), kBias, 0);
  const Optimizer optimizer(TinyJob(), TinyGrid(), TinyPlan());
  const size_t bytes = TinyGrid().WireBytes(kBias);
  SliceEnvelope envelope;
  const Payload good = Payload::Zeros(bytes);
  EXPECT_TRUE(state->Update({.slice = kBias, .gradient = good, .staleness = 0}, TinyGrid(), optimizer, envelope));
  EXPECT_EQ(envelope.version, 1u);
  Payload bad = Payload::Zeros(bytes);
  bad.mutable_floats()[0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(state->Update({.slice = kBias, .gradient = bad, .staleness = 0}, TinyGrid(), optimizer, envelope));
  EXPECT_EQ(envelope.version, 1u);
  EXPECT_EQ(envelope.consumed, 0u) << "which is counted by others";
}

}  // namespace
}  // namespace downpour
