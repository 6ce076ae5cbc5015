#include "schema/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kKey = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";
const std::string kOther = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const std::string kHead = "downpour-key 1\ncluster 0123456789abcdef0123456789abcdef\nrole ps\n";

TEST(KeyFileTest, WhatIsPrintedIsReadAgain) {
  const KeyFile file{"0123456789abcdef0123456789abcdef", PeerRole::kClient, {kKey, kOther}, kKey};
  const absl::StatusOr<KeyFile> again = ParseKeyFile(PrintKeyFile(file));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->cluster, file.cluster);
  EXPECT_EQ(again->role, PeerRole::kClient);
  EXPECT_THAT(again->public_keys, ElementsAre(kKey, kOther));
  EXPECT_EQ(again->secret_key, kKey);
}

TEST(KeyFileTest, WhatIsNoKeyFileIsRefusedByLineAndNeverRepeated) {
  ASSERT_TRUE(ParseKeyFile(kHead + "public " + kKey + "\n").ok());
  for (const auto& [text, place] : std::vector<std::pair<std::string, std::string>>{
           {"", "1: "},
           {"-----BEGIN PRIVATE KEY-----\n", "1: "},
           {"downpour-key 2\n", "1: "},
           {kHead, "is missing"},
           {"downpour-key 1\nrole ps\npublic " + kKey + "\n", "is missing"},
           {kHead + "public\n", "4: "},
           {kHead + "public " + kKey.substr(1) + "\n", "4: "},
           {kHead + "public " + kKey + "x\n", "4: "},
           {kHead + "public " + std::string(40, '"') + "\n", "4: "},
           {kHead + "public " + std::string(40, '#') + "\n", "4: "},  // a number above 32 bits
           {kHead + "secret " + kKey + "\nsecret " + kKey + "\n", "5: "},
           {kHead + "role ps\n", "4: "},
           {kHead + std::string(3, '\0') + "\n", "4: "},
           {"downpour-key 1\nrole king\n", "2: "},
           {"downpour-key 1\ncluster xyz\n", "2: "}}) {
    const absl::Status status = ParseKeyFile(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(place));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kKey.substr(1))));
  }
}

}  // namespace
}  // namespace downpour
