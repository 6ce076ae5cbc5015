#include "predict/batch.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(OutputBatch, FindsAColumnByItsName) {
  const OutputBatch batch{1, {{"scores", 2, std::vector<float>{1, 2}}, {"class", 1, std::vector<int64_t>{1}}}};
  EXPECT_EQ(batch.Find("class"), &batch.columns[1]);
  EXPECT_EQ(batch.Find("label"), nullptr);
}

}  // namespace
}  // namespace downpour
