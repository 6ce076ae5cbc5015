#include "predict/row_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace downpour {
namespace {

using testing::ElementsAre;

TEST(RowStore, KeepsCopiesOfWhatValuesPointToUntilItIsCleared) {
  const Signature signature{.inputs = {{.name = "a"}, {.name = "b"}}, .outputs = {}};
  RowStore store(signature);
  for (int turn = 0; turn < 3; ++turn) {
    for (int row = 0; row < 1000; ++row) {
      std::string text = "row " + std::to_string(row);
      std::vector<double> numbers(static_cast<size_t>(row), row);
      const std::vector<FieldItem> items = {std::string_view(text), int64_t{row}};
      store.AddRow();
      store.at(0) = store.Kept(std::string_view(text));
      store.at(1) = row % 2 == 0 ? store.Kept(FieldList(numbers)) : store.Kept(FieldItems(items));
      text = "gone";
    }
    const InputBatch batch = store.batch();
    ASSERT_EQ(batch.rows, 1000u);
    const auto values = std::get<absl::Span<const FieldValue>>(batch.columns[1].values);
    for (size_t row = 0; row < 1000; ++row) {
      EXPECT_EQ(std::get<std::string_view>(std::get<absl::Span<const FieldValue>>(batch.columns[0].values)[row]),
                "row " + std::to_string(row));
      if (row % 2 == 0) {
        EXPECT_EQ(std::get<FieldList>(values[row]), FieldList(std::vector<double>(row, static_cast<double>(row))));
      } else {
        EXPECT_THAT(std::get<FieldItems>(values[row]),
                    ElementsAre(FieldItem(std::string_view("row " + std::to_string(row))),
                                FieldItem(static_cast<int64_t>(row))));
      }
    }
    EXPECT_EQ(std::get<std::string_view>(std::get<absl::Span<const FieldValue>>(store.row(7).columns[0].values)[0]),
              "row 7");
    store.Clear();
  }
}

TEST(KeptRuns, DoNotOverlap) {
  KeptRuns<int> runs;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<absl::Span<int>> kept;
    for (size_t size : {4095, 1, 2, 10'000, 3, 4096, 5000, 0, 7}) {
      kept.push_back(runs.Allocate(size));
      ASSERT_EQ(kept.back().size(), size);
      std::fill(kept.back().begin(), kept.back().end(), static_cast<int>(kept.size()));
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(std::all_of(kept[i].begin(), kept[i].end(), [&](int v) { return v == static_cast<int>(i + 1); }))
          << i;
    }
    runs.Clear();
  }
}

}  // namespace
}  // namespace downpour
