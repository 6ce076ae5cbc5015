#include <gtest/gtest.h>

#include <algorithm>

#include "ps/table/record_scan.h"
#include "tests/unit/ps/table/table_oracle.h"

namespace downpour {
namespace {

// Small parts, so that pushes come in between.
size_t PartBytes(const TableSpec& spec) { return 200 + 3 * ShapeOf(spec).bytes(); }

// One record of a pair, with pushes between its parts; as the oracle was at its point.
struct Recorded {
  RecordPoint point;
  RecordPoint base;
  TableOracle oracle;
  std::vector<Payload> parts;
};

Recorded Record(TablePair& pair, const std::optional<RecordPoint>& base) {
  Recorded recorded{{}, base.value_or(RecordPoint()), pair.oracle, {}};
  recorded.point = pair.bucket.BeginRecord(base);
  while (pair.bucket.recording()) {
    recorded.parts.push_back(pair.bucket.NextPart(PartBytes(pair.bucket.spec())));
    for (uint64_t pushes = pair.prng().Below(3); pushes > 0; --pushes) pair.Push();
  }
  return recorded;
}

// Its own parts, then those of the records that it builds on.
std::vector<Payload> Chain(const std::vector<Recorded>& records, size_t newest) {
  std::vector<Payload> parts;
  for (const Recorded* record = &records[newest];;) {
    parts.insert(parts.end(), record->parts.begin(), record->parts.end());
    if (record->base.number == 0) return parts;
    record = &*std::find_if(records.begin(), records.end(),
                            [&](const Recorded& other) { return other.point == record->base; });
  }
}

TEST(TableRecordTest, ARecordIsOfItsPointThoughPushesGoOn) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    const TableSpec spec = DrawSpec(prng);
    TablePair pair(spec, seed);
    for (int push = 0; push < 20; ++push) pair.Push();
    const Recorded recorded = Record(pair, std::nullopt);
    absl::StatusOr<TableBucket> installed = Install(spec, recorded.parts);
    ASSERT_TRUE(installed.ok()) << installed.status();
    ASSERT_NO_FATAL_FAILURE(pair.ExpectSame(*installed, recorded.oracle));
    // And goes on as it would have: admission counts, slots and ages are there too.
    TablePair other(spec, seed, 9);
    other.bucket = *std::move(installed);
    other.oracle = recorded.oracle;
    for (int push = 0; push < 20; ++push) {
      ASSERT_NO_FATAL_FAILURE(other.Push());
      ASSERT_NO_FATAL_FAILURE(other.ExpectSame());
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(TableRecordTest, ChainsOfRecordsHoldTheirPointWhateverBecameOfTheRounds) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    const TableSpec spec = DrawSpec(prng);
    TablePair pair(spec, seed);
    std::vector<Recorded> durable;
    for (int round = 0; round < 8; ++round) {
      for (uint64_t pushes = prng.Below(8); pushes > 0; --pushes) pair.Push();
      std::optional<RecordPoint> base;
      if (!durable.empty() && prng.Chance(0.8)) base = durable[prng.Below(durable.size())].point;
      if (prng.Chance(0.3)) {  // abandoned on its way; the next one begins as if it had never been
        pair.bucket.BeginRecord(base);
        pair.bucket.NextPart(PartBytes(spec));
        pair.Push();
        if (prng.Chance(0.5)) pair.bucket.DropRecord();
      }
      Recorded recorded = Record(pair, base);
      if (prng.Chance(0.3)) continue;  // never durable: no record names it
      durable.push_back(std::move(recorded));
      const absl::StatusOr<TableBucket> installed = Install(spec, Chain(durable, durable.size() - 1));
      ASSERT_TRUE(installed.ok()) << installed.status();
      ASSERT_NO_FATAL_FAILURE(pair.ExpectSame(*installed, durable.back().oracle));
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_NO_FATAL_FAILURE(pair.ExpectSame());
  }
}

TEST(TableRecordTest, RowsGoToAnotherNumberOfBucketsAndKeepTheirAges) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    TableSpec spec = DrawSpec(prng);
    const auto from = static_cast<uint32_t>(1 + prng.Below(4)), to = static_cast<uint32_t>(1 + prng.Below(4));
    std::vector<std::vector<Payload>> records;
    std::vector<TableOracle> oracles;
    std::vector<std::unique_ptr<TablePair>> pairs;
    uint64_t clock = 0;
    for (uint32_t bucket = 0; bucket < from; ++bucket) {
      spec.bucket = bucket, spec.buckets = from;
      pairs.push_back(std::make_unique<TablePair>(spec, seed + 1000 * bucket));
      for (uint64_t pushes = 10 + prng.Below(10); pushes > 0; --pushes) pairs.back()->Push();
      Recorded recorded = Record(*pairs.back(), std::nullopt);
      records.push_back(std::move(recorded.parts));
      oracles.push_back(std::move(recorded.oracle));
    }
    for (uint32_t bucket = 0; bucket < to; ++bucket) {
      spec.bucket = bucket, spec.buckets = to;
      TableInstaller installer(spec, 5);
      clock = 0;
      std::vector<TableOracle> parts;
      for (uint32_t i = 0; i < from; ++i) {
        if (i * to >= (bucket + 1) * from || (i + 1) * to <= bucket * from) continue;
        for (const Payload& part : records[i]) ASSERT_TRUE(installer.Add(part.bytes()).ok());
        clock = std::max(clock, oracles[i].clock);
        parts.push_back(oracles[i]);
      }
      for (TableOracle& part : parts) part.Restrict(spec, clock);
      for (size_t i = 1; i < parts.size(); ++i) parts[0].Merge(parts[i]);
      const absl::StatusOr<TableBucket> installed = std::move(installer).Finish();
      ASSERT_TRUE(installed.ok()) << installed.status();
      for (const auto& pair : pairs) {
        EXPECT_EQ(installed->rows(), parts[0].rows().size());
        ASSERT_NO_FATAL_FAILURE(pair->ExpectSame(*installed, parts[0]));
      }
    }
    if (testing::Test::HasFailure()) return;
  }
}

class LargeRecordTest : public testing::Test {
 protected:
  void Push(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> keys;
    for (uint64_t key = begin; key < end; ++key) keys.push_back(key);
    const std::vector<float> gradients(keys.size() * spec_.width, 1);
    ASSERT_TRUE(bucket_.Apply({keys, absl::MakeConstSpan(gradients), SgdUpdate{1}}).ok());
  }
  static size_t BytesOf(const std::vector<Payload>& parts) {
    size_t sum = 0;
    for (const Payload& part : parts) sum += part.size();
    return sum;
  }

  const TableSpec spec_ = {.width = 16, .optimizer = OptimizerKind::kSgd};
  TableBucket bucket_{spec_, 1};
};

TEST_F(LargeRecordTest, ARecordWithABaseHasWhatChanged) {
  for (uint64_t begin = 0; begin < 50'000; begin += 1000) Push(begin, begin + 1000);
  const RecordPoint first = bucket_.BeginRecord(std::nullopt);
  const std::vector<Payload> whole = RestOfRecord(bucket_, 1 << 16);
  EXPECT_GE(BytesOf(whole), 50'000u * 80);
  for (const Payload& part : whole) EXPECT_LE(part.size(), size_t{1} << 16);
  Push(7000, 7500);
  bucket_.BeginRecord(first);
  const std::vector<Payload> changed = RestOfRecord(bucket_);
  EXPECT_LE(BytesOf(changed), 500u * 80 + 100);
}

TEST_F(LargeRecordTest, WhatIsSavedIsWhatWasPushedAheadOfTheCursorOnce) {
  for (uint64_t begin = 0; begin < 50'000; begin += 1000) Push(begin, begin + 1000);
  const size_t before = bucket_.bytes();
  bucket_.BeginRecord(std::nullopt);
  const size_t begun = bucket_.record_bytes();
  bucket_.NextPart(1 << 16);
  Push(0, 100);  // the cursor has passed these
  EXPECT_EQ(bucket_.record_bytes(), begun);
  Push(49'000, 49'100);
  const size_t once = bucket_.record_bytes();
  EXPECT_GT(once, begun + 100 * 80);
  Push(49'000, 49'100);
  EXPECT_EQ(bucket_.record_bytes(), once);
  EXPECT_EQ(bucket_.bytes(), before + once);
  bucket_.DropRecord();
  EXPECT_EQ(bucket_.record_bytes(), 0u);
}

TEST_F(LargeRecordTest, ABaseOfAnotherCopyMakesTheRecordWhole) {
  Push(0, 100);
  const RecordPoint point = bucket_.BeginRecord(std::nullopt);
  absl::StatusOr<TableBucket> other = Install(spec_, RestOfRecord(bucket_), 2);
  ASSERT_TRUE(other.ok()) << other.status();
  for (const RecordPoint& base : {point, RecordPoint{2, 1, 1}, RecordPoint{2, 0, 0}}) {
    TableBucket fresh = Install(
                            spec_,
                            [&] {
                              bucket_.BeginRecord(std::nullopt);
                              return RestOfRecord(bucket_);
                            }(),
                            2)
                            .value();
    fresh.BeginRecord(base);
    EXPECT_TRUE(Install(spec_, RestOfRecord(fresh), 3).ok());
  }
}

TEST_F(LargeRecordTest, APartPassesSoManyPlacesAtMost) {
  for (uint64_t begin = 0; begin < 300'000; begin += 10'000) Push(begin, begin + 10'000);
  const RecordPoint first = bucket_.BeginRecord(std::nullopt);
  RestOfRecord(bucket_);
  bucket_.BeginRecord(first);
  const std::vector<Payload> parts = RestOfRecord(bucket_);
  EXPECT_EQ(parts.size(), 2u);  // though there is nothing in them
}

}  // namespace
}  // namespace downpour
