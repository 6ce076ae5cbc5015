#include "schema/secret.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(SecretTest, OnlyItselfIsTheSecret) {
  EXPECT_TRUE(IsSecret("0123", "0123"));
  for (const char* said : {"", "0", "0124", "01234", "1123"}) EXPECT_FALSE(IsSecret(said, "0123")) << said;
}

TEST(SecretTest, WhereThereIsNoneNobodyKnowsIt) { EXPECT_FALSE(IsSecret("", "")); }

}  // namespace
}  // namespace downpour
