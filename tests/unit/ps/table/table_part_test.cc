#include "ps/table/table_part.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace downpour {
namespace {

const TableSpec kSpec = {.id = 4, .width = 3, .optimizer = OptimizerKind::kAdagrad, .bucket = 1, .buckets = 2};

TablePartHeader HeaderOf(const TableSpec& spec) {
  return {.table = spec.id,
          .point = {.copy = 8, .number = 2, .clock = 9},
          .unborn = 5,
          .base = 1,
          .index = 3,
          .width = spec.width,
          .form = FormOf(spec),
          .bucket = spec.bucket,
          .buckets = spec.buckets,
          .born = 6};
}

Payload SomePart() {
  TablePartWriter writer(HeaderOf(kSpec), kSpec, 4096);
  const std::vector<float> row = {1, 2, 3, 4, 5, 6};
  writer.AddRow(7, {.key = 70, .last = 3}, reinterpret_cast<const std::byte*>(row.data()));
  writer.AddEmpty(8);
  writer.AddRow(9, {.key = 90, .last = 4}, reinterpret_cast<const std::byte*>(row.data()));
  writer.AddCount(11, {.key = 110, .last = 5, .count = 2});
  return std::move(writer).Finish(/*is_last=*/true);
}

absl::StatusCode CodeOf(const std::string& bytes, const TableSpec& spec = kSpec) {
  return ReadTablePart({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, spec).status().code();
}

TEST(TablePartTest, ReadsWhatWasWritten) {
  const Payload bytes = SomePart();
  const absl::StatusOr<TablePart> part = ReadTablePart(bytes.bytes(), kSpec);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->header.point, (RecordPoint{8, 2, 9}));
  EXPECT_EQ(part->header.unborn, 5u);
  EXPECT_EQ(part->header.base, 1u);
  EXPECT_EQ(part->header.index, 3u);
  EXPECT_EQ(part->header.is_last, 1u);
  EXPECT_EQ(part->header.born, 6u);
  ASSERT_EQ(part->header.rows, 2u);
  EXPECT_EQ(part->Row(1).number, 9u);
  EXPECT_EQ(part->Row(1).key, 90u);
  EXPECT_EQ(part->Row(1).last, 4u);
  float last_number;
  std::memcpy(&last_number, part->Content(1) + 20, sizeof(last_number));
  EXPECT_EQ(last_number, 6);
  ASSERT_EQ(part->header.empties, 1u);
  EXPECT_EQ(part->Empty(0), 8u);
  ASSERT_EQ(part->header.counts, 1u);
  EXPECT_EQ(part->Count(0).number, 11u);
  EXPECT_EQ(part->Count(0).key, 110u);
  EXPECT_EQ(part->Count(0).count, 2u);
}

TEST(TablePartTest, StaysWithinItsBytes) {
  for (const size_t most : {150, 200, 1000}) {
    TablePartWriter writer(HeaderOf(kSpec), kSpec, most);
    const std::vector<float> row(6);
    for (uint32_t i = 0; writer.HasRoom(); ++i) {
      if (i % 3 == 0) writer.AddRow(i, {.key = i, .last = 1}, reinterpret_cast<const std::byte*>(row.data()));
      if (i % 3 == 1) writer.AddEmpty(i);
      if (i % 3 == 2) writer.AddCount(i, {.key = i, .last = 1, .count = 1});
    }
    EXPECT_LE(std::move(writer).Finish(false).size(), most);
  }
}

TEST(TablePartTest, EveryBitThatIsFlippedAndEveryCutIsDamage) {
  const Payload part = SomePart();
  const std::string bytes(reinterpret_cast<const char*>(part.data()), part.size());
  EXPECT_EQ(CodeOf(bytes), absl::StatusCode::kOk);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(CodeOf(bytes.substr(0, i)), absl::StatusCode::kDataLoss) << i;
    std::string flipped = bytes;
    flipped[i] ^= 1 << (i % 8);
    EXPECT_EQ(CodeOf(flipped), absl::StatusCode::kDataLoss) << i;
  }
  EXPECT_EQ(CodeOf(bytes + "x"), absl::StatusCode::kDataLoss);
}

TEST(TablePartTest, ARecordOfAnotherTableWidthOrOptimizerDoesNotFit) {
  const Payload part = SomePart();
  const std::string bytes(reinterpret_cast<const char*>(part.data()), part.size());
  const auto code = [&](auto change) {
    TableSpec spec = kSpec;
    change(spec);
    return CodeOf(bytes, spec);
  };
  EXPECT_EQ(code([](TableSpec& spec) { spec.id = 5; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TableSpec& spec) { spec.width = 4; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TableSpec& spec) { spec.optimizer = OptimizerKind::kFtrl; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TableSpec& spec) { spec.row_wise = true; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TableSpec& spec) { spec.halves = true; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](TableSpec& spec) { spec.admit_after = 2; }), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace downpour
