#include "data/parquet_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/data/text_source.h"

namespace downpour {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& file) {
  return std::string(OpenParquet(std::make_shared<TextSource>(file)).status().message());
}

#ifdef DOWNPOUR_WITH_PARQUET
TEST(ParquetModuleTest, ItIsOfThisReleaseAndOfTheLibrariesThatItWasBuiltWith) {
  const absl::StatusOr<const ParquetModule*> module = LoadParquetModule();
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_STREQ((*module)->arrow_built, (*module)->arrow_here);
}

TEST(ParquetModuleTest, WhatIsNoParquetIsRefused) {
  for (const std::string& file : {std::string(), std::string("PAR1"), "PAR1" + std::string(100, 'x') + "PAR1",
                                  std::string("PAR1\xff\xff\xff\xffPAR1"), std::string(1000, '\0')}) {
    EXPECT_THAT(ErrorOf(file), HasSubstr("the file is damaged, or is no Parquet"));
  }
}
#else
TEST(ParquetModuleTest, WhatToInstallIsSaidWhereItIsMissing) {
  EXPECT_THAT(ErrorOf("PAR1"), HasSubstr("pip install pyarrow, then configure the build anew"));
}
#endif

TEST(ParquetModuleTest, FileLooksLikeIt) {
  EXPECT_TRUE(LooksLikeParquet("PAR1\x15"));
  EXPECT_FALSE(LooksLikeParquet("PARE"));
}

}  // namespace
}  // namespace downpour
