#include "predict/table_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "runtime/prng.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TableSpec Spec(uint32_t width, bool halves = false) {
  return {.id = 0, .width = width, .halves = halves, .seed = 7, .initial = 0.5};
}

using Rows = std::map<uint64_t, std::vector<float>>;

std::vector<std::byte> ContentOf(const TableSpec& spec, const std::vector<float>& values) {
  std::vector<std::byte> content(ShapeOf(spec).bytes());
  BeginRow(ShapeOf(spec), values.data(), content.data());
  return content;
}

absl::Status Fill(const Rows& rows, TableRows* table) {
  for (const auto& [key, values] : rows) table->Count(key);
  if (absl::Status status = table->Allocate(); !status.ok()) return status;
  for (const auto& [key, values] : rows) {
    if (absl::Status status = table->Add(key, ContentOf(table->spec(), values).data()); !status.ok()) return status;
  }
  return table->Finish();
}

std::vector<float> Found(const TableRows& table, uint64_t key) {
  std::vector<float> scratch(table.spec().width);
  const float* const found = table.Find(key, scratch.data());
  return {found, found + table.spec().width};
}

std::vector<float> Initial(const TableSpec& spec, uint64_t key) {
  std::vector<float> values(spec.width);
  InitialRow(spec, key, values.data());
  return values;
}

TEST(TableRows, HasEachRowAndTheInitialValuesOfAllOtherKeys) {
  Rows rows;
  Prng prng(1);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t key = i % 2 == 0 ? prng.Next() : static_cast<uint64_t>(i);
    rows[key] = {static_cast<float>(i), -static_cast<float>(i)};
  }
  TableRows table(Spec(2));
  ASSERT_TRUE(Fill(rows, &table).ok());
  EXPECT_EQ(table.rows(), rows.size());
  for (const auto& [key, values] : rows) ASSERT_EQ(Found(table, key), values) << key;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t key = prng.Next();
    EXPECT_EQ(Found(table, key), Initial(table.spec(), key)) << key;
  }
}

// Keys of one group, as somebody can choose them: nothing of it is slow or wrong.
TEST(TableRows, FindsKeysThatAllLieInOneGroup) {
  Rows rows;
  std::vector<uint64_t> others;
  for (uint64_t key = 0; rows.size() < 40; ++key) {
    if (Mix(key) >> 48 != 12345) continue;
    (others.size() * 3 < rows.size() ? others.push_back(key) : void(rows[key] = {static_cast<float>(key)}));
  }
  TableRows table(Spec(1));
  ASSERT_TRUE(Fill(rows, &table).ok());
  for (const auto& [key, values] : rows) EXPECT_EQ(Found(table, key), values) << key;
  for (const uint64_t key : others) EXPECT_EQ(Found(table, key), Initial(table.spec(), key)) << key;
}

TEST(TableRows, KeepsHalvesAsHalves) {
  TableRows table(Spec(3, /*halves=*/true));
  ASSERT_TRUE(Fill({{5, {1, 0.5, -2}}}, &table).ok());
  EXPECT_THAT(Found(table, 5), ElementsAre(1, 0.5, -2));
  EXPECT_EQ(Found(table, 6), Initial(table.spec(), 6));
}

TEST(TableRows, OfNoRowsHasInitialValues) {
  TableRows table(Spec(4));
  ASSERT_TRUE(Fill({}, &table).ok());
  EXPECT_EQ(Found(table, 1), Initial(table.spec(), 1));
}

TEST(TableRows, TakesAtMostATenthMoreThanItsValues) {
  TableRows table(Spec(16));
  constexpr uint64_t kRows = 3'000'000;
  for (uint64_t key = 0; key < kRows; ++key) table.Count(key);
  EXPECT_LE(table.bytes(), kRows * 16 * sizeof(float) * 11 / 10 + (1 << 20));
}

TEST(TableRows, RefusesWhatWasNotCountedAndWhatComesTwice) {
  const std::vector<std::byte> content = ContentOf(Spec(1), {1});
  TableRows table(Spec(1));
  table.Count(1);
  table.Count(2);
  ASSERT_TRUE(table.Allocate().ok());
  ASSERT_TRUE(table.Add(1, content.data()).ok());
  EXPECT_THAT(table.Finish().message(), HasSubstr("did not come"));
  TableRows twice(Spec(1));
  twice.Count(1);
  twice.Count(1);
  ASSERT_TRUE(twice.Allocate().ok());
  ASSERT_TRUE(twice.Add(1, content.data()).ok());
  ASSERT_TRUE(twice.Add(1, content.data()).ok());
  EXPECT_THAT(twice.Finish().message(), HasSubstr("two rows"));
  TableRows none(Spec(1));
  ASSERT_TRUE(none.Allocate().ok());
  EXPECT_THAT(none.Add(1, content.data()).message(), HasSubstr("not counted"));
}

}  // namespace
}  // namespace downpour
