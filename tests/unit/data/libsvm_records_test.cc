#include "data/libsvm_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/scan_records.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ScannedRecords Scan(const std::string& text, const std::vector<std::string>& wanted, int64_t width = 4,
                    const std::string& row = "features") {
  DataSpec data;
  data.format = kLibsvmFormat;
  data.columns.emplace_back().from = {row};
  data.columns[0].numbers = width;
  return ScanRecords(text, wanted, data);
}

std::string Wrong(const std::string& line, const std::string& field = "features") {
  const ScannedRecords scanned = Scan("0 1:1\n" + line + "\n0 2:1\n", {field});
  EXPECT_EQ(scanned.error, "");
  if (scanned.records.size() != 3) return "records: " + std::to_string(scanned.records.size());
  EXPECT_EQ(scanned.places[1], "source:2");
  return scanned.records[1];
}

TEST(LibsvmRecordsTest, TheRowIsDense) {
  const ScannedRecords scanned =
      Scan("# made by hand\n+1 1:0.5 4:-2e1 \r\n\n-1\n2.5 qid:3 2:+7 # 3:1\n  # x\n3 3:1", {"features", "label"});
  EXPECT_THAT(scanned.records, ElementsAre("[0.5 0 0 -20]|+1", "[0 0 0 0]|-1", "[0 7 0 0]|2.5", "[0 0 1 0]|3"));
  EXPECT_THAT(scanned.places, ElementsAre("source:2", "source:4", "source:5", "source:7"));
}

TEST(LibsvmRecordsTest, SingleIndicesAreFields) {
  EXPECT_THAT(Scan("1 2:3 900000:5\n0\n", {"900000", "2", "7", "label"}).records, ElementsAre("5|3|0|1", "0|0|0|0"));
  EXPECT_THAT(Scan("1 2:3 4:5\n", {"features", "4"}).records, ElementsAre("[0 3 0 5]|5"));
  EXPECT_THAT(Scan("1 1:3\n", {"features"}, 1).records, ElementsAre("3"));
}

TEST(LibsvmRecordsTest, IndicesCountFromOneUnlessItIsSaid) {
  EXPECT_THAT(Wrong("1 0:2"), HasSubstr("index 0, where indices count from 1: if this file's count from 0, make the "
                                        "column of field features0"));
  EXPECT_THAT(Scan("1 0:2 3:1\n", {"features0"}, 4, "features0").records, ElementsAre("[2 0 0 1]"));
  EXPECT_THAT(Scan("1 0:2 3:1\n", {"0", "3"}).records, ElementsAre("2|1"));
  EXPECT_THAT(Scan("1 4:1\n", {"features0"}, 4, "features0").records[0], HasSubstr("index 4 is beyond"));
  EXPECT_THAT(Scan("1 1:1\n", {"features", "0"}).error, HasSubstr("columns need one of the two"));
}

// As scikit-learn writes the sets of classes of examples.
TEST(LibsvmRecordsTest, ALabelOfSeveralClassesMayHaveNone) {
  DataSpec data;
  data.format = kLibsvmFormat;
  data.columns.emplace_back().from = {"features"};
  data.columns[0].numbers = 4;
  data.label.column = "label";
  data.label.is_multiple = true;
  const ScannedRecords scanned = ScanRecords("0,2 1:1\n 2:1\n3:5\n1\n", {"label", "features"}, data);
  EXPECT_THAT(scanned.records, ElementsAre("0,2|[1 0 0 0]", "|[0 1 0 0]", "|[0 0 5 0]", "1|[0 0 0 0]"));
  EXPECT_THAT(Wrong("2:1 3:1"), HasSubstr("a record begins with its label"));
}

TEST(LibsvmRecordsTest, ARecordThatCannotBeReadIsWrongAlone) {
  EXPECT_THAT(Wrong("1 5:2"), HasSubstr("index 5 is beyond the column's width of 4, which has 1 to 4"));
  EXPECT_THAT(Wrong("1 2:2 2:3"), HasSubstr("index 2 stands behind a larger or equal one"));
  EXPECT_THAT(Wrong("1 3:2 2:3"), HasSubstr("index 2 stands behind"));
  EXPECT_THAT(Wrong("1 2"), HasSubstr("'2' is no index:value"));
  EXPECT_THAT(Wrong("1 -2:1"), HasSubstr("'-2:1' is no index:value"));
  EXPECT_THAT(Wrong("1 99999999999999999999:1"), HasSubstr("is no index:value"));
  for (const char* value : {"2:", "2:x", "2:1x", "2:nan", "2:inf", "2:1e999", "2:+-1"}) {
    EXPECT_THAT(Wrong(std::string("1 ") + value), HasSubstr("has no finite number as its value")) << value;
  }
  EXPECT_THAT(Wrong(" 1:1"), HasSubstr("a record begins with its label"));
}

TEST(LibsvmRecordsTest, OtherFieldsAreRefused) {
  EXPECT_EQ(Scan("1 1:1\n", {"age"}).error,
            "source has no field 'age'; it has label, features (the row), indices (keys), and 1, 2, ...");
}

TEST(LibsvmRecordsTest, FileLooksLikeIt) {
  EXPECT_TRUE(LooksLikeLibsvm("# c\n\n-1 3:1 11:1 \n"));
  EXPECT_TRUE(LooksLikeLibsvm("1 qid:1 3:1\n"));
  EXPECT_FALSE(LooksLikeLibsvm("a,b\n1 2:3\n"));
  EXPECT_FALSE(LooksLikeLibsvm("10:30 1:1\n"));
  EXPECT_FALSE(LooksLikeLibsvm("at 10:30\n"));
  EXPECT_TRUE(LooksLikeLibsvm("1,3 10:30\n"));
  EXPECT_FALSE(LooksLikeLibsvm("1\n"));
  EXPECT_FALSE(LooksLikeLibsvm("# only\n"));
}

}  // namespace
}  // namespace downpour
