#include "data/cifar_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/data_formats.h"
#include "tests/unit/data/scan_records.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Record(const std::string& classes, char first, char last) {
  return classes + first + std::string(3070, '\0') + last;
}
ScannedRecords Scan(const char* format, const std::string& text, const std::vector<std::string>& wanted) {
  DataSpec data;
  data.format = format;
  return ScanRecords(text, wanted, data);
}

TEST(CifarRecordsTest, ARecordIsAClassAndAnImage) {
  const std::string text = Record("\x03", '\x01', '\xff') + Record("\x09", '\x02', '\x04');
  EXPECT_THAT(Scan(kCifar10Format, text, {"label"}).records, ElementsAre("3", "9"));
  const ScannedRecords images = Scan(kCifar10Format, text, {"image", "label"});
  ASSERT_EQ(images.records.size(), 2u);
  EXPECT_TRUE(images.records[0].starts_with("[1 0 0 ")) << images.records[0].substr(0, 20);
  EXPECT_TRUE(images.records[0].ends_with(" 0 255]|3"));
  EXPECT_THAT(images.places, ElementsAre("source at byte 0", "source at byte 3073"));
}

TEST(CifarRecordsTest, Of100ThereAreCoarseAndFineClasses) {
  const std::string text = Record("\x13\x63", '\x01', '\x02') + Record(std::string("\x00\x00", 2), '\x05', '\x02');
  EXPECT_THAT(Scan(kCifar100Format, text, {"fine", "coarse"}).records, ElementsAre("99|19", "0|0"));
}

TEST(CifarRecordsTest, WhatIsNoneIsRefused) {
  const std::string good = Record("\x03", '\x01', '\xff');
  EXPECT_THAT(Scan(kCifar10Format, good + Record("\x0a", '\x01', '\x01'), {"label"}).records,
              ElementsAre("3", HasSubstr("field 'label': 10 is no class from 0 to 9")));
  EXPECT_THAT(Scan(kCifar10Format, good + good.substr(1), {"label"}).error,
              HasSubstr("source at byte 3073: the last record is cut short"));
  EXPECT_THAT(Scan(kCifar10Format, good, {"fine"}).error, HasSubstr("has no field 'fine'; it has label, image"));
}

}  // namespace
}  // namespace downpour
