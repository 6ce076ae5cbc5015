// Which rows a step asks for, and what it makes of them.
#include "model/embedding_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "runtime/prng.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Keys = std::vector<int64_t>;
using Row = std::pair<size_t, uint64_t>;  // table, key

TEST(KeyNumbersTest, NumbersComeInTheOrderOfKeys) {
  KeyNumbers numbers;
  for (const uint64_t count : {100000u, 10u, 1000u}) {  // of a larger use and of a smaller one before
    numbers.Clear();
    for (int again = 0; again < 2; ++again) {
      for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(numbers.NumberOf((i + 1) << 32), i);
    }
    EXPECT_EQ(numbers.keys().size(), count);
    EXPECT_EQ(numbers.keys().back(), count << 32);
  }
  EXPECT_EQ(numbers.NumberOf(0), 1000u) << "any number is a key";
  EXPECT_EQ(numbers.NumberOf(UINT64_MAX), 1001u);
}

class EmbeddingRowsTest : public testing::Test {
 protected:
  // Layers read tables "a" of width 2 and "b" of width 3.
  void Make(std::vector<EmbeddingSpec> layers, int64_t buckets = 8) {
    model_.tables = {{.name = "a", .width = 2}, {.name = "b", .width = 3}};
    model_.table_buckets = buckets;
    model_.loss = Loss::kMeanSquaredError;
    for (size_t i = 0; i < layers.size(); ++i) {
      model_.layers.push_back({"layer_" + std::to_string(i), {}, layers[i]});
    }
    for (const ModelTable& table : model_.tables) grid_.row_widths.push_back(static_cast<uint32_t>(table.width));
    grid_.buckets = static_cast<uint32_t>(buckets);
    for (int64_t i = 0; i < buckets; ++i) grid_.slices.push_back({static_cast<SliceId>(i), kNoVariable, i, 0});
    rows_.emplace(model_, &grid_);
    rows_->Begin();
  }

  // A row's numbers, from its table and key alone.
  float Number(size_t table, uint64_t key, size_t column) const {
    return static_cast<float>(1000 * table + 10 * (key % 100) + column);
  }
  SliceValues Answer(const SliceValues& frames) const {
    SliceValues answer;
    for (const auto& [id, frame] : frames) {
      const RowKeys keys = UnpackKeys(frame, grid_.row_widths).value();
      Payload rows = Payload::Allocate(RowBytes(keys, grid_.row_widths));
      float* to = rows.mutable_floats().data();
      ForEach(keys, [&](size_t table, uint64_t key) {
        for (size_t i = 0; i < grid_.row_widths[table]; ++i) *to++ = Number(table, key, i);
      });
      answer.emplace_back(id, std::move(rows));
    }
    return answer;
  }
  template <typename Use>
  static void ForEach(const RowKeys& keys, const Use& use) {
    size_t at = 0;
    for (size_t table = 0; table < keys.counts.size(); ++table) {
      for (uint32_t i = 0; i < keys.counts[table]; ++i) use(table, keys.keys[at++]);
    }
  }
  std::map<Row, std::vector<float>> Gradients() const {
    SliceValues frames;
    rows_->AppendGradients(&frames);
    std::map<Row, std::vector<float>> gradients;
    for (const auto& [id, frame] : frames) {
      const RowGradients got = UnpackGradients(frame, grid_.row_widths).value();
      size_t at = 0;
      ForEach(got.rows, [&](size_t table, uint64_t key) {
        EXPECT_EQ(grid_.BucketAt(BucketOf(table, key, grid_.buckets)), id);
        std::vector<float>& row = gradients[{table, key}];
        EXPECT_TRUE(row.empty()) << "a key twice";
        for (size_t i = 0; i < grid_.row_widths[table]; ++i) row.push_back(got.numbers[at++]);
      });
    }
    return gradients;
  }

  // With the rows of what was found until now.
  std::vector<float> Pooled(size_t batch, size_t examples) {
    std::vector<float> pooled(examples * rows_->width(), std::nanf(""));
    rows_->Pool(batch, rows_->width(), pooled.data());
    return pooled;
  }

  ModelSpec model_;
  SliceGrid grid_;
  std::optional<EmbeddingRows> rows_;
};

TEST_F(EmbeddingRowsTest, ColumnsAreReadOnceAndHaveAPlaceEach) {
  Make({{"a", {"x", "y"}}, {"b", {"y", "z"}, Pooling::kSum, true}, {"a", {"x"}}});
  EXPECT_THAT(KeyColumnsOf(model_), ElementsAre("x", "y", "z"));
  EXPECT_EQ(EmbeddingWidthOf(model_), 2 * 2 + 3 + 2);
  EXPECT_EQ(rows_->width(), 9u);
}

TEST_F(EmbeddingRowsTest, AStepAsksForEachRowOnce) {
  Make({{"a", {"x", "y"}}, {"b", {"x"}}});
  rows_->Find({Keys{7, 7, -1}, Keys{8, 7, kNoKey}}, 3);
  rows_->Find({Keys{9, 8}, Keys{9, 9}}, 2);  // another batch of the step
  const SliceValues frames = rows_->Keys();
  std::multiset<Row> asked;
  for (const auto& [id, frame] : frames) {
    ForEach(UnpackKeys(frame, grid_.row_widths).value(), [&, id = id](size_t table, uint64_t key) {
      EXPECT_EQ(grid_.BucketAt(BucketOf(table, key, grid_.buckets)), id);
      asked.insert({table, key});
    });
  }
  const uint64_t minus_one = UINT64_MAX;
  EXPECT_EQ(asked,
            (std::multiset<Row>{{0, 7}, {0, 8}, {0, 9}, {0, minus_one}, {1, 7}, {1, 8}, {1, 9}, {1, minus_one}}));
  rows_->Begin();
  EXPECT_TRUE(rows_->Keys().empty()) << "a step without keys";
  EXPECT_TRUE(rows_->SetRows({}).ok());
  EXPECT_TRUE(Gradients().empty());
}

TEST_F(EmbeddingRowsTest, KeysOfOneTableAscend) {
  Make({{"a", {"x"}}, {"b", {"x"}}}, 1);
  rows_->Find({Keys{5, 3, 5, 4}}, 4);
  const RowKeys keys = UnpackKeys(rows_->Keys()[0].second, grid_.row_widths).value();
  EXPECT_THAT(keys.counts, ElementsAre(3, 3));
  EXPECT_THAT(keys.keys, ElementsAre(3, 4, 5, 3, 4, 5));
}

TEST_F(EmbeddingRowsTest, KeysArePooledAndNoKeyIsZero) {
  for (const Pooling pooling : {Pooling::kSum, Pooling::kMean, Pooling::kSqrtN}) {
    SCOPED_TRACE(static_cast<int>(pooling));
    model_ = {};
    grid_ = {};
    Make({{"a", {"x"}, pooling}});
    rows_->Find({Keys{1, 2, kNoKey, 5, kNoKey, 5, kNoKey, kNoKey, kNoKey}}, 3);
    ASSERT_TRUE(rows_->SetRows(Answer(rows_->Keys())).ok());
    const float scale = pooling == Pooling::kSum ? 1 : pooling == Pooling::kMean ? 0.5f : 1 / std::sqrt(2.0f);
    EXPECT_THAT(Pooled(0, 3), testing::Pointwise(testing::FloatEq(), {scale * 30, scale * 32,    // 10 + 20, 11 + 21
                                                                      scale * 100, scale * 102,  // the same one twice
                                                                      0.0f, 0.0f}));
    rows_->AddGradients(0, 2, std::vector<float>{1, 2, 3, 4, 100, 100}.data());
    const auto gradients = Gradients();
    ASSERT_EQ(gradients.size(), 3u);
    EXPECT_THAT(gradients.at({0, 1}), ElementsAre(testing::FloatEq(scale), testing::FloatEq(2 * scale)));
    EXPECT_THAT(gradients.at({0, 2}), ElementsAre(testing::FloatEq(scale), testing::FloatEq(2 * scale)));
    EXPECT_THAT(gradients.at({0, 5}), ElementsAre(testing::FloatEq(6 * scale), testing::FloatEq(8 * scale)));
  }
}

TEST_F(EmbeddingRowsTest, ColumnsLieSideBySideOrAreAddedUp) {
  Make({{"a", {"x", "y"}}, {"a", {"x", "y"}, Pooling::kSum, true}});
  rows_->Find({Keys{1, 3}, Keys{2, 3}}, 2);
  ASSERT_TRUE(rows_->SetRows(Answer(rows_->Keys())).ok());
  EXPECT_THAT(Pooled(0, 2), ElementsAre(10, 11, 20, 21, 30, 32,  //
                                        30, 31, 30, 31, 60, 62));
  rows_->AddGradients(0, 7, std::vector<float>{1, 2, 3, 4, 5, 6, -1, 7, 8, 9, 10, 11, 12}.data());
  const auto gradients = Gradients();
  EXPECT_THAT(gradients.at({0, 1}), ElementsAre(1 + 5, 2 + 6));
  EXPECT_THAT(gradients.at({0, 2}), ElementsAre(3 + 5, 4 + 6));
  EXPECT_THAT(gradients.at({0, 3}), ElementsAre(7 + 9 + 11 + 11, 8 + 10 + 12 + 12));
}

TEST_F(EmbeddingRowsTest, BatchesOfAStepShareTheirRows) {
  Make({{"b", {"x"}}});
  rows_->Find({Keys{1, 2}}, 2);
  rows_->Find({Keys{2}}, 1);
  const SliceValues answer = Answer(rows_->Keys());
  for (int again = 0; again < 2; ++again) {  // the second begins with gradients of zero
    ASSERT_TRUE(rows_->SetRows(answer).ok());
    EXPECT_THAT(Pooled(1, 1), ElementsAre(1020, 1021, 1022));
    EXPECT_THAT(Pooled(0, 2), ElementsAre(1010, 1011, 1012, 1020, 1021, 1022));
    rows_->AddGradients(0, 3, std::vector<float>{1, 2, 3, 4, 5, 6}.data());
    rows_->AddGradients(1, 3, std::vector<float>{10, 20, 30}.data());
    EXPECT_EQ(Gradients(), (std::map<Row, std::vector<float>>{{{1, 1}, {1, 2, 3}}, {{1, 2}, {14, 25, 36}}}));
  }
}

TEST_F(EmbeddingRowsTest, RowsThatAreNotTheBucketsAreRefused) {
  Make({{"a", {"x"}}}, 2);
  int64_t other = 1;  // of the bucket that key 0 is not in
  while (BucketOf(0, static_cast<uint64_t>(other), 2) == BucketOf(0, 0, 2)) ++other;
  rows_->Find({Keys{0, other}}, 2);
  SliceValues answer = Answer(rows_->Keys());
  ASSERT_EQ(answer.size(), 2u);
  const absl::Status missing = rows_->SetRows({answer[0]});
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("rows of bucket 1"));
  answer[1].second = Payload::Zeros(12);
  const absl::Status status = rows_->SetRows(answer);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rows of 12 bytes for 1 keys of bucket 1, which have 8"));
}

}  // namespace
}  // namespace downpour
