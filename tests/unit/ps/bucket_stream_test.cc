// A bucket's record, from its ps to another one: in parts, cut anywhere, with pushes in between.
#include "ps/bucket_stream.h"

#include <gtest/gtest.h>

#include "optimizer/update_rule.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr uint32_t kBucket = 1, kBuckets = 2;

class BucketStreamTest : public testing::Test {
 protected:
  BucketStreamTest() {
    job_.model.tables = {{.name = "a", .width = 3}, {.name = "b", .width = 1}};
    job_.model.table_buckets = kBuckets;
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
    state.slice = SliceId{4};
    state.epoch = {1, 2};
    state.version = pushes_;
    state.finished.InsertRange(0, pushes_);
    return state;
  }

  // Of the point at which it begins; one push comes behind each part.
  std::string Record() {
    std::string record;
    const auto append = [&record](const std::vector<Payload>& blocks) {
      for (const Payload& block : blocks) record.append(reinterpret_cast<const char*>(block.data()), block.size());
    };
    append(EncodeRecord(State()));
    rows_->BeginRecord();
    while (rows_->recording()) {
      append(FramePart(rows_->NextPart(/*max_bytes=*/2000)));
      Push(-3);
    }
    return record;
  }

  absl::StatusOr<BucketStream::Installed> Installed(const std::string& record, size_t cut, uint64_t consumed) {
    BucketStream stream(tables_, kBucket, /*copy=*/6);
    for (size_t at = 0; at < record.size(); at += cut) {
      const Payload piece = Payload::CopyOf(record.data() + at, std::min(cut, record.size() - at));
      if (absl::Status status = stream.Add(piece.bytes()); !status.ok()) return status;
    }
    return std::move(stream).Finish(consumed);
  }

  std::string Shown(const BucketRows& rows) const {
    const Payload values = rows.Gather(all_);
    return std::string(reinterpret_cast<const char*>(values.data()), values.size());
  }

  JobSpec job_;
  std::vector<TableSpec> tables_;
  std::unique_ptr<BucketRows> rows_;
  RowKeys all_;
  uint64_t pushes_ = 0;
};

TEST_F(BucketStreamTest, ARecordIsOfOnePointHoweverManyPushesComeBetweenItsPartsAndHoweverItIsCut) {
  Push(1);
  rows_->ConsumeEmpty();
  ++pushes_;
  Push(2);
  const std::string before = Shown(*rows_);
  const uint64_t consumed = pushes_;
  const std::string record = Record();
  ASSERT_GT(pushes_, consumed + 3) << "few parts";
  for (const size_t cut : {size_t{1}, size_t{7}, size_t{1000}, record.size()}) {
    const auto installed = Installed(record, cut, consumed);
    ASSERT_TRUE(installed.ok()) << installed.status();
    EXPECT_EQ(Shown(installed->rows), before) << cut;
    EXPECT_EQ(installed->state.version, consumed);
    EXPECT_EQ(installed->state.slice, SliceId{4});
  }
}

TEST_F(BucketStreamTest, ABucketWithoutRowsHasARecordToo) {
  const auto installed = Installed(Record(), 64, 0);
  ASSERT_TRUE(installed.ok()) << installed.status();
  EXPECT_EQ(installed->rows.rows(), 0u);
}

TEST_F(BucketStreamTest, CountersOfAnotherPointAreNotThoseOfTheRows) {
  Push(1);
  const std::string record = Record();
  EXPECT_TRUE(Installed(record, 64, 1).ok());
  EXPECT_FALSE(Installed(record, 64, 2).ok());
}

TEST_F(BucketStreamTest, ARecordThatIsCutShortOrDamagedIsNotInstalled) {
  Push(1);
  const std::string record = Record();
  for (size_t bytes = 0; bytes < record.size(); bytes += 97) {
    EXPECT_FALSE(Installed(record.substr(0, bytes), 512, 1).ok()) << bytes;
  }
  Prng prng(3);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = record;
    damaged[prng.Below(damaged.size())] ^= static_cast<char>(1 << prng.Below(8));
    EXPECT_FALSE(Installed(damaged, 512, 1).ok());
  }
  EXPECT_FALSE(Installed(record + record, 512, 1).ok()) << "and another one behind it";
}

TEST_F(BucketStreamTest, APushThatOneTableCannotTakeHasNoEffectOnAny) {
  Push(1);
  const std::string before = Shown(*rows_);
  std::vector<float> numbers(3 * all_.counts[0] + all_.counts[1], 1);
  numbers.back() = std::numeric_limits<float>::infinity();  // of the second table
  std::vector<Update> updates;
  for (const ModelTable& table : job_.model.tables) updates.push_back(UpdateFor(table.optimizer, Damping(), 1, 1));
  EXPECT_FALSE(rows_->Apply({.rows = all_, .numbers = numbers}, updates));
  ++pushes_;
  EXPECT_EQ(Shown(*rows_), before);
  EXPECT_TRUE(Installed(Record(), 64, 2).ok()) << "but it was consumed";
}

}  // namespace
}  // namespace downpour
