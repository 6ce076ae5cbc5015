#include "schema/sha256.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

Payload Of(const std::string& text) { return Payload::CopyOf(text.data(), text.size()); }

// The examples of FIPS 180-4, however they are cut.
TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(Sha256Of({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(Sha256Of({Of("abc")}), abc);
  EXPECT_EQ(Sha256Of({Of("a"), Payload(), Of("bc")}), abc);
}

}  // namespace
}  // namespace downpour
