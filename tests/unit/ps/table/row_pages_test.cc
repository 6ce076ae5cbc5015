#include "ps/table/row_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace downpour {
namespace {

TEST(RowPagesTest, RowsDoNotMoveAndDoNotOverlap) {
  RowPages pages(48 * 1024);  // few in a page
  ASSERT_GT(pages.rows_in_page(), 1u);
  std::vector<std::byte*> rows;
  std::vector<uint32_t> places;
  for (uint32_t i = 0; i < 5 * pages.rows_in_page(); ++i) {
    places.push_back(pages.Take());
    rows.push_back(pages.row(places.back()));
    std::memset(rows.back(), static_cast<int>(i % 251), pages.row_bytes());
    EXPECT_EQ(pages.at(places.back()).last, 0u);
    pages.at(places.back()) = {.key = i, .mark = i, .last = i + 1};
  }
  for (uint32_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(pages.row(places[i]), rows[i]);
    EXPECT_EQ(rows[i][0], static_cast<std::byte>(i % 251));
    EXPECT_EQ(rows[i][pages.row_bytes() - 1], static_cast<std::byte>(i % 251));
    EXPECT_EQ(pages.at(places[i]).key, i);
  }
}

TEST(RowPagesTest, NextGoesThroughAllPlacesInTheirOrder) {
  RowPages pages(48 * 1024);
  std::vector<uint32_t> taken, passed;
  for (uint32_t i = 0; i < 3 * pages.rows_in_page() + 1; ++i) taken.push_back(pages.Take());
  for (uint32_t place = 0; place < pages.end(); place = pages.Next(place)) passed.push_back(place);
  EXPECT_EQ(passed, taken);
}

TEST(RowPagesTest, AFreedPlaceIsTakenAgainAndKeepsItsMark) {
  RowPages pages(64);
  const uint32_t first = pages.Take(), second = pages.Take();
  pages.at(first) = {.key = 1, .mark = 7, .last = 3};
  pages.at(second) = {.key = 2, .mark = 8, .last = 3};
  pages.Free(first);
  pages.Free(second);
  EXPECT_EQ(pages.at(second).last, 0u);
  EXPECT_EQ(pages.Take(), second);
  EXPECT_EQ(pages.at(second).mark, 8u);
  EXPECT_EQ(pages.Take(), first);
  EXPECT_EQ(pages.at(first).mark, 7u);
  EXPECT_GT(pages.Take(), second);
}

TEST(RowPagesTest, BytesAreThoseThatRowsHaveTouched) {
  RowPages pages(128);
  for (int i = 0; i < 1000; ++i) pages.Take();
  EXPECT_EQ(pages.bytes(), 1000u * (128 + sizeof(Place)));
}

}  // namespace
}  // namespace downpour
