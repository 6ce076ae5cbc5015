#include "chief/known/event_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/unit/chief/event_reader.h"

namespace downpour {
namespace {

TEST(EventRecordsTest, AFileBeginsAsThoseOfTensorFlow) {
  const std::string head = EventFileHead(0);
  const std::string message = std::string("\x09\0\0\0\0\0\0\0\0\x1a\x0d", 11) + "brain.Event:2";
  EXPECT_EQ(head.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(head.substr(12, message.size()), message);
}

TEST(EventRecordsTest, WhatIsWrittenIsRead) {
  const uint64_t step = uint64_t{1} << 40;
  const auto events = EventReader::Read(EventFileHead(12.5) +
                                        ScalarsRecord(1700000000.25, step, {{"train/loss", 0.5}, {"eval/top5", -3}}));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 12.5);
  EXPECT_EQ(events[1].wall_time, 1700000000.25);
  EXPECT_EQ(events[1].step, step);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"train/loss", 0.5f}, {"eval/top5", -3.0f}}));
}

TEST(EventRecordsTest, WhatIsNotFiniteStaysSo) {
  const auto events = EventReader::Read(ScalarsRecord(1, 1, {{"a", std::nan("")}, {"b", 1e300}}));
  EXPECT_TRUE(std::isnan(events[0].scalars.at("a")));
  EXPECT_TRUE(std::isinf(events[0].scalars.at("b")));
}

TEST(EventRecordsTest, HyperparametersHaveTheirKinds) {
  const auto events = EventReader::Read(HyperparametersRecord(
      3, "mnist", {{"batch", 128}, {"name", "adam"}, {"pullAhead", true}, {"none", nullptr}, {"list", {1, 2}}}));
  ASSERT_EQ(events.size(), 1u);
  const auto& said = events[0].hyperparameters;
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said.at("name"), "adam");
  const double batch = 128;
  EXPECT_EQ(said.at("batch"), std::string(reinterpret_cast<const char*>(&batch), 8));
  EXPECT_EQ(said.at("pullAhead")[0], 1);
}

TEST(EventRecordsTest, AnyLengthIsWritten) {
  for (const size_t length : {0u, 1u, 127u, 128u, 16383u, 16384u, 300000u}) {
    const std::string tag(length, 't');
    EXPECT_TRUE(EventReader::Read(ScalarsRecord(1, 1, {{tag, 1}}))[0].scalars.contains(tag)) << length;
  }
}

}  // namespace
}  // namespace downpour
