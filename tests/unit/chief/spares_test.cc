#include "chief/known/spares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr PeerId kPeer{9};

Join Process(uint64_t nonce) {
  Join join;
  join.nonce = nonce;
  join.host = "h\x1b[31m2";
  join.pid = 7;
  return join;
}

TEST(SparesTest, WaitAsLongAsTheyAsk) {
  Spares spares;
  EXPECT_TRUE(spares.Note(Time{0s}, kPeer, Process(1), "all are there"));
  EXPECT_FALSE(spares.Note(Time{2s}, kPeer, Process(1), "all are there"));
  ASSERT_THAT(spares.Waiting(Time{4s}), SizeIs(1));
  EXPECT_EQ(spares.Waiting(Time{4s})[0].host, "h?[31m2");
  EXPECT_EQ(spares.Waiting(Time{4s})[0].pid, 7u);
  EXPECT_EQ(spares.Waiting(Time{4s})[0].why, "all are there");
  EXPECT_THAT(spares.Waiting(Time{5s}), IsEmpty());
  EXPECT_FALSE(spares.Note(Time{9s}, kPeer, Process(1), "all are there")) << "it is known";
}

TEST(SparesTest, OneThatGotAPlaceIsNoneAnyMore) {
  Spares spares;
  spares.Note(Time{0s}, kPeer, Process(1), "");
  spares.Admitted(1);
  EXPECT_THAT(spares.Waiting(Time{0s}), IsEmpty());
  EXPECT_TRUE(spares.Note(Time{0s}, kPeer, Process(1), ""));
}

TEST(SparesTest, TheirNumberIsBounded) {
  Spares spares;
  for (uint64_t i = 0; i < 2 * Spares::kMost; ++i) spares.Note(Time{0s}, kPeer, Process(i), "");
  EXPECT_THAT(spares.Waiting(Time{0s}), SizeIs(Spares::kMost));
}

}  // namespace
}  // namespace downpour
