#include "worker/python/gradient_sets.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace downpour {
namespace {

constexpr size_t kBytes = 64;

std::shared_ptr<std::byte> Memory(size_t sets) {
  return {new std::byte[sets * kBytes](), std::default_delete<std::byte[]>()};
}

TEST(GradientSetsTest, WhatIsLentIsNotFreeUntilItsLastHolderLetsGo) {
  GradientSets sets(Memory(3), kBytes, 3);
  const size_t first = sets.Free();
  EXPECT_EQ(sets.Free(), first) << "nothing was lent";
  Payload lent = sets.Lend(first);
  EXPECT_EQ(lent.data(), sets.at(first));
  EXPECT_EQ(lent.size(), kBytes);
  EXPECT_NE(sets.Free(), first);
  Payload part = lent.Sub(16, 16);
  lent = Payload();
  EXPECT_NE(sets.Free(), first) << "a slice of it is still on its way";
  part = Payload();
  EXPECT_EQ(sets.Free(), first);
}

TEST(GradientSetsTest, TheLastFreeOneIsNotLent) {
  GradientSets sets(Memory(3), kBytes, 3);
  std::vector<Payload> held;
  std::set<size_t> used;
  for (int i = 0; i < 2; ++i) {
    used.insert(sets.Free());
    held.push_back(sets.Lend(sets.Free()));
    EXPECT_FALSE(held.back().empty());
  }
  EXPECT_EQ(used.size(), 2u);
  const size_t last = sets.Free();
  EXPECT_EQ(used.count(last), 0u);
  EXPECT_TRUE(sets.Lend(last).empty());
  EXPECT_EQ(sets.Free(), last) << "it may be written again";
  held.pop_back();
  EXPECT_FALSE(sets.Lend(last).empty());
}

TEST(GradientSetsTest, PayloadsOutliveTheSetsAndHoldTheirMemory) {
  bool is_there = true;
  std::optional<GradientSets> sets;
  {
    auto bytes = std::make_unique<std::byte[]>(2 * kBytes);
    std::byte* const raw = bytes.get();
    sets.emplace(std::shared_ptr<std::byte>(raw,
                                            [&is_there, held = std::shared_ptr(std::move(bytes))](std::byte*) mutable {
                                              held.reset();
                                              is_there = false;
                                            }),
                 kBytes, 2);
  }
  Payload lent = sets->Lend(0);
  sets.reset();
  EXPECT_TRUE(is_there);
  EXPECT_EQ(lent.bytes()[0], std::byte{0});
  lent = Payload();
  EXPECT_FALSE(is_there);
}

}  // namespace
}  // namespace downpour
