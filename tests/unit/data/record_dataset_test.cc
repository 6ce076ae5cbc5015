#include "data/record_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/data/packed.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// Records "i,2i" from `begin` on, as pandas has them.
std::string Rows(int begin, int end) {
  std::string text = "x,y\n";
  for (int i = begin; i < end; ++i) absl::StrAppend(&text, i, ",", 2 * i, "\n");
  return text;
}

class RecordDatasetTest : public testing::Test {
 protected:
  RecordDatasetTest() {
    data_.format = kCsvFormat;
    ColumnSpec x;
    x.name = "x";
    x.from = {"x"};
    data_.columns = {x};
    data_.label.column = "y";
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Open(std::vector<std::string> files) const {
    for (std::string& file : files) file = folder_.path() + "/" + file;
    return OpenDataset(data_, {"", "", std::move(files)});
  }
  std::string ErrorOf(std::vector<std::string> files) const {
    const auto opened = Open(std::move(files));
    if (!opened.ok()) return std::string(opened.status().message());
    const absl::StatusOr<std::vector<int64_t>> read = Labels(**opened);
    return std::string(read.status().message());
  }
  static absl::StatusOr<std::vector<int64_t>> Labels(const Dataset& data, std::vector<uint64_t> ids = {}) {
    if (ids.empty()) {
      ids.resize(data.size());
      std::iota(ids.begin(), ids.end(), 0);
    }
    const size_t wanted[] = {0, 1};
    std::vector<ColumnValues> values(2);
    if (absl::Status read = data.ReadBatch(ids, wanted, absl::MakeSpan(values)); !read.ok()) return read;
    const auto& labels = std::get<std::vector<int64_t>>(values[1]);
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(std::get<std::vector<float>>(values[0])[i] * 2, static_cast<float>(labels[i]));
    }
    return labels;
  }

  ScratchFolder folder_;
  DataSpec data_;
};

TEST_F(RecordDatasetTest, ExamplesAreTheRecordsOfAllFilesInOrder) {
  folder_.Write("b/part-1.csv", Rows(1000, 1003));
  folder_.Write("b/part-0.csv", Rows(0, 1000));
  folder_.Write("b/part-2.csv.gz", Packed(Rows(1003, 5000)));
  folder_.Write("b/part-0.csv.downpour-index", "no data");
  const auto data = Open({"b/part-*"}).value();
  ASSERT_EQ(data->size(), 5000u);
  std::vector<uint64_t> ids(5000);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  ids.push_back(ids.front());
  const std::vector<int64_t> labels = Labels(*data, ids).value();
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(labels[i], static_cast<int64_t>(2 * ids[i]));
  EXPECT_TRUE(absl::IsOutOfRange(Labels(*data, {5000}).status()));
  EXPECT_EQ(data->columns(), (std::vector<Column>{{"x", ColumnType::kFloat}, {"label", ColumnType::kInt64}}));
}

TEST_F(RecordDatasetTest, ThreadsReadTheSame) {
  folder_.Write("a.csv", Rows(0, 3000));
  const auto data = Open({"a.csv"}).value();
  std::vector<std::thread> threads;
  std::vector<std::vector<int64_t>> read(4);
  for (auto& labels : read) {
    threads.emplace_back([&] { labels = Labels(*data).value(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& labels : read) EXPECT_EQ(labels, read[0]);
  EXPECT_EQ(read[0][2999], 5998);
}

TEST_F(RecordDatasetTest, WhatIsReadAheadIsReadAsWithout) {
  folder_.Write("a.csv", Rows(0, 5000));
  std::string bad = Rows(5000, 5400);
  bad.replace(bad.find("5300"), 4, "5e3x");
  folder_.Write("b.csv", bad);
  const auto data = Open({"a.csv", "b.csv"}).value();
  std::vector<uint64_t> ids(5400);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  std::vector<uint64_t> beyond = ids;
  beyond.push_back(5400);
  data->ReadAhead(beyond);
  EXPECT_THAT(std::string(Labels(*data, ids).status().message()), HasSubstr("b.csv:302: ")) << "told by who reads it";
  std::erase_if(ids, [](uint64_t id) { return id >= 5000; });
  data->ReadAhead(ids);
  const std::vector<int64_t> labels = Labels(*data, ids).value();
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(labels[i], static_cast<int64_t>(2 * ids[i]));
}

TEST_F(RecordDatasetTest, CopiesHaveTheSameFingerprintWhereverTheyLie) {
  folder_.Write("one/a.csv", Rows(0, 1000));
  folder_.Write("two/other.csv.gz", Packed(Rows(0, 1000)));
  std::string changed = Rows(0, 1000);
  changed[changed.size() / 2] ^= 1;
  folder_.Write("three/a.csv", changed);
  const auto one = Open({"one/a.csv"}).value(), two = Open({"two/other.csv.gz"}).value();
  EXPECT_EQ(one->fingerprint(), two->fingerprint());
  EXPECT_NE(one->fingerprint(), Open({"three/a.csv"}).value()->fingerprint()) << "one byte in the middle";
  std::string renamed = Rows(0, 1000);
  data_.columns[0].from = data_.columns[0].from;
  folder_.Write("four/a.csv", "y,x\n" + renamed.substr(4));
  EXPECT_NE(one->fingerprint(), Open({"four/a.csv"}).value()->fingerprint()) << "fields of other names";
}

// So a chief knows a set of which others are the beginning, and the file that is another one.
TEST_F(RecordDatasetTest, EachFileSaysWhatTheSetIsUpToItsEnd) {
  folder_.Write("a.csv", Rows(0, 300));
  folder_.Write("b.csv", Rows(300, 400));
  folder_.Write("c.csv", Rows(400, 900));
  const auto one = Open({"a.csv"}).value(), two = Open({"a.csv", "b.csv"}).value();
  const std::vector<DataFile> files = Open({"a.csv", "b.csv", "c.csv"}).value()->files();
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0], (DataFile{folder_.path() + "/a.csv", 300, one->fingerprint()}));
  EXPECT_EQ(files[1], (DataFile{folder_.path() + "/b.csv", 400, two->fingerprint()}));
  EXPECT_EQ(files[2].examples, 900u);
  EXPECT_NE(Open({"b.csv", "a.csv"}).value()->files()[1].fingerprint, files[1].fingerprint) << "another order";
}

TEST_F(RecordDatasetTest, WhatCannotBeReadIsNamedWithItsLine) {
  folder_.Write("a.csv", Rows(0, 300) + "7,maybe\n" + Rows(300, 400).substr(4));
  EXPECT_EQ(ErrorOf({"a.csv"}),
            folder_.path() +
                "/a.csv:302: field 'y': 'maybe' is no class from 0 to 999999: name the words of each class in "
                "data.label.classes, or leave such records out by data.skip");
  EXPECT_EQ(ErrorOf({"none-*.csv"}),
            "no file matches " + folder_.path() + "/none-*.csv: is the folder there on this host?");
  EXPECT_EQ(ErrorOf({"absent.csv"}), "cannot open " + folder_.path() + "/absent.csv: No such file or directory");
  data_.label.column = "why";
  EXPECT_EQ(ErrorOf({"a.csv"}), folder_.path() + "/a.csv has no field 'why'; it has x, y");
}

TEST_F(RecordDatasetTest, UnreadableRecordsAreLeftOutUpToALimit) {
  folder_.Write("a.csv", "x,y\n0,0\n1,no\n1,2\n" + Rows(2, 200).substr(4) + "9\n");
  folder_.Write("b.csv", "x,y\n?,1\n" + Rows(200, 400).substr(4));
  data_.skip = 3;
  const auto data = Open({"a.csv", "b.csv"}).value();
  ASSERT_EQ(data->size(), 400u);
  const std::vector<int64_t> labels = Labels(*data).value();
  for (size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(labels[i], static_cast<int64_t>(2 * i));
  data_.skip = 2;
  EXPECT_THAT(ErrorOf({"a.csv", "b.csv"}),
              HasSubstr("more than 2 records cannot be read, which is all that data.skip allows; the first: " +
                        folder_.path() + "/a.csv:3: field 'y': 'no'"));
}

TEST_F(RecordDatasetTest, AFileThatChangesIsNamedWhenItIsRead) {
  folder_.Write("a.csv", Rows(0, 1000));
  const auto data = Open({"a.csv"}).value();
  std::string changed = Rows(0, 1000);
  changed[changed.find("\n500,") + 1] = '6';
  folder_.Write("a.csv", changed);
  EXPECT_TRUE(Labels(*data, {0}).ok());
  const absl::Status read = Labels(*data, {500}).status();
  EXPECT_TRUE(absl::IsDataLoss(read));
  EXPECT_THAT(std::string(read.message()), HasSubstr(folder_.path() + "/a.csv: the bytes from "));
  EXPECT_THAT(std::string(read.message()), HasSubstr("the file was changed after it was opened"));
}

TEST_F(RecordDatasetTest, APackedFileNeedsRoomToBeUnpacked) {
  folder_.Write("a.csv.gz", Packed(Rows(0, 1000)));
  setenv("TMPDIR", "/dev/null", 1);
  EXPECT_THAT(ErrorOf({"a.csv.gz"}), HasSubstr("/a.csv.gz into /dev/null: Not a directory; set TMPDIR to a folder"));
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace downpour
