#include "runtime/shm/arena.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace downpour {
namespace {

TEST(SharedArenaTest, WithoutAReaderNothingComesFromIt) {
  static SharedArena arena;  // outlives what is sent
  Payload::SendFrom(&arena);
  EXPECT_FALSE(arena.Find(Payload::AllocateToSend(1 << 20)).has_value());
  const Payload before = Payload::AllocateToSend(1 << 20);
  EXPECT_TRUE(before.is_placed_to_send());
  arena.AddReader();
  EXPECT_FALSE(before.is_placed_to_send());
  const Payload placed = Payload::AllocateToSend(1 << 20);
  EXPECT_TRUE(arena.Find(placed).has_value());
  EXPECT_TRUE(placed.is_placed_to_send());
  arena.RemoveReader();
  Payload::SendFrom(nullptr);
}

TEST(SharedArenaTest, BlocksDoNotOverlapAndAreUsedAgain) {
  SharedArena arena;
  std::vector<Payload> held;
  for (int i = 0; i < 300; ++i) {
    held.push_back(Payload::AllocateFrom(arena, size_t{1} << 20));
    ASSERT_FALSE(held.back().empty());
    held.back().mutable_as<int>()[0] = i;
    held.back().mutable_as<int>()[(1 << 18) - 1] = i;
  }
  EXPECT_EQ(arena.chunks(), 2u) << "300 MiB, in chunks of 256";
  std::set<const std::byte*> places;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(held[i].as<int>()[0], i);
    EXPECT_EQ(held[i].as<int>()[(1 << 18) - 1], i);
    places.insert(held[i].data());
  }
  EXPECT_EQ(places.size(), 300u);
  held.clear();
  for (int i = 0; i < 300; ++i) held.push_back(Payload::AllocateFrom(arena, (size_t{1} << 20) - 5));
  EXPECT_EQ(arena.chunks(), 2u);
  held.clear();
}

TEST(SharedArenaTest, APartOfABlockIsFoundWhereItLies) {
  SharedArena arena;
  const Payload whole = Payload::AllocateFrom(arena, 100'000);
  const auto place = arena.Find(whole);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(arena.Find(whole.Sub(4000, 50))->offset, place->offset + 4000);
  EXPECT_FALSE(arena.Find(Payload::Zeros(100)).has_value());
}

TEST(SharedArenaTest, WhatIsTooLargeForItIsNotThere) {
  SharedArena arena;
  EXPECT_TRUE(Payload::AllocateFrom(arena, SharedArena::kLargestBlock + 1).empty());
}

}  // namespace
}  // namespace downpour
