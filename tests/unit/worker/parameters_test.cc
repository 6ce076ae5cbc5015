#include <gtest/gtest.h>

#include <vector>

#include "worker/parameter_set.h"

namespace downpour {
namespace {

constexpr SliceEpoch kEpoch{1, 1};

ParameterSet Versions(uint64_t x, uint64_t y, SliceEpoch epoch = kEpoch) {
  ParameterSet set(2);
  set.versions = {{epoch, x}, {epoch, y}};
  set.values = {Payload::Zeros(4), Payload::Zeros(4)};
  return set;
}

std::vector<SliceId> SlicesOf(const SliceValues& updates) {
  std::vector<SliceId> slices;
  for (const auto& [slice, values] : updates) slices.push_back(slice);
  return slices;
}

TEST(DeviceParametersTest, LoadsWhatDiffersFromWhatTheDeviceHolds) {
  DeviceParameters device(2);
  EXPECT_EQ(SlicesOf(device.Load(Versions(0, 0))), (std::vector{SliceId{0}, SliceId{1}})) << "version 0 is something";
  EXPECT_EQ(SlicesOf(device.Load(Versions(0, 0))), std::vector<SliceId>{});
  EXPECT_EQ(SlicesOf(device.Load(Versions(0, 7))), std::vector{SliceId{1}});
  // To older ones, as an evaluation's are, and back.
  EXPECT_EQ(SlicesOf(device.Load(Versions(0, 5))), std::vector{SliceId{1}});
  EXPECT_EQ(SlicesOf(device.Load(Versions(0, 7))), std::vector{SliceId{1}});
  // The same number in another epoch names other values.
  EXPECT_EQ(SlicesOf(device.Load(Versions(0, 7, {1, 2}))), (std::vector{SliceId{0}, SliceId{1}}));
}

TEST(VersionSummaryTest, DependsOnEverySliceEpochAndNumber) {
  const VersionSummary summary = Summarize(Versions(3, 9));
  EXPECT_EQ(summary.oldest, 3u);
  EXPECT_EQ(summary.newest, 9u);
  EXPECT_EQ(summary.digest, Summarize(Versions(3, 9)).digest);
  EXPECT_NE(summary.digest, Summarize(Versions(9, 3)).digest);
  EXPECT_NE(summary.digest, Summarize(Versions(3, 8)).digest);
  EXPECT_NE(summary.digest, Summarize(Versions(3, 9, {1, 2})).digest);
}

}  // namespace
}  // namespace downpour
