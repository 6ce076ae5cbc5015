#include "tools/digits.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "data/idx.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

using Image = std::array<uint8_t, kDigitSide * kDigitSide>;

// The drawn set is part of the project's contract: figures and references hold for these bytes only.
TEST(DigitsTest, TheSameBytesOnEveryMachine) {
  uint64_t hash = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    Image image;
    hash = MixAll(hash, DrawDigit(1, i, Difficulty::kUsual, image.data()));
    for (uint8_t pixel : image) hash = MixAll(hash, pixel);
  }
  EXPECT_EQ(hash, 1157326151394506055u);
}

TEST(DigitsTest, AllDigitsAppearAndNoTwoImagesAreAlike) {
  std::array<int, 10> counts{};
  std::vector<Image> images(300);
  for (uint64_t i = 0; i < images.size(); ++i) ++counts[DrawDigit(1, i, Difficulty::kUsual, images[i].data())];
  for (int count : counts) EXPECT_GT(count, 10);
  for (size_t i = 0; i < images.size(); ++i) {
    for (size_t k = i + 1; k < images.size(); ++k) EXPECT_NE(images[i], images[k]);
  }
}

}  // namespace
}  // namespace downpour
