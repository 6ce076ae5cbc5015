#include "data/index_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/open_indexed_file.h"
#include "data/set_files.h"
#include "data/word_hash.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

std::string Rows(int count) {
  std::string text = "x,y\n";
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i, ",\"", i, "\n\"\n", i % 200 == 0 ? "\n\n" : "");
  return text;
}

class IndexFileTest : public testing::Test {
 protected:
  IndexFileTest() { data_.format = kCsvFormat; }
  // "" where the index beside the file fits.
  std::string WhyNot() const {
    const auto index = ReadIndex(path_ + kIndexSuffix);
    if (!index.ok()) return std::string(index.status().message());
    const auto source = OpenFile(path_).value();
    const auto file = OpenRecordFile(data_, *source).value();
    return std::string(CheckIndex(*index, CuttingOf(data_.format, *file), *source, file->begin()).message());
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.Write("a.csv", Rows(1000));
  DataSpec data_;
};

TEST_F(IndexFileTest, WhatIsReadIsWhatWasWritten) {
  const auto made = OpenIndexedFile(data_, path_).value();
  RecordIndex index = made->index();
  EXPECT_EQ(index.records(), 1000u);
  EXPECT_EQ(index.pieces.size(), 8u);
  EXPECT_EQ(index.pieces[0].offset, 4u);
  EXPECT_EQ(index.pieces[0].line, 2u);
  EXPECT_EQ(index.pieces[1].line, 2u + 2 * 128 + 2) << "each record has two lines, and two are empty";
  EXPECT_EQ(index.PieceOf(127), 0u);
  EXPECT_EQ(index.PieceOf(128), 1u);
  index.left_out = {7, {3, 999}};
  EXPECT_EQ(DecodeIndex(EncodeIndex(index)).value(), index);
  EXPECT_EQ(DecodeIndex(EncodeIndex({})).value(), RecordIndex());
}

TEST_F(IndexFileTest, AnIndexFitsTheFileThatItIsOf) {
  EXPECT_THAT(WhyNot(), HasSubstr("No such file"));
  ASSERT_TRUE(OpenIndexedFile(data_, path_).value()->WriteIndex().ok());
  EXPECT_EQ(WhyNot(), "");
  data_.header = false;
  EXPECT_EQ(WhyNot(), "the file is to be read in another way");
  data_.header = std::nullopt;
  const auto time = std::filesystem::last_write_time(path_);
  std::filesystem::last_write_time(path_, time + std::chrono::seconds(1));
  EXPECT_EQ(WhyNot(), "the file was changed at another time");
  std::string text = Rows(1000);
  text.back() = ' ';
  folder_.Write("a.csv", text);
  std::filesystem::last_write_time(path_, time);
  EXPECT_EQ(WhyNot(), "the file has other bytes");
  folder_.Write("a.csv", text + "1,2\n");
  EXPECT_EQ(WhyNot(), "the file has another size");
}

TEST_F(IndexFileTest, ADamagedIndexIsRefused) {
  const std::string bytes = EncodeIndex(OpenIndexedFile(data_, path_).value()->index());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(DecodeIndex(bytes.substr(0, size)).ok()) << size;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 4;
    EXPECT_FALSE(DecodeIndex(damaged).ok()) << i;
  }
}

// One that lies has a right checksum too.
TEST_F(IndexFileTest, AnIndexThatClaimsWhatCannotBeIsRefused) {
  const RecordIndex good = OpenIndexedFile(data_, path_).value()->index();
  const auto is_refused = [](const RecordIndex& index) { return !DecodeIndex(EncodeIndex(index)).ok(); };
  EXPECT_FALSE(is_refused(good));
  RecordIndex bad = good;
  bad.left_out.records = {5, 5};
  EXPECT_TRUE(is_refused(bad));
  bad.left_out.records = {1000};
  EXPECT_TRUE(is_refused(bad));
  bad = good;
  bad.pieces[1].records = kPieceRecords + 1;
  EXPECT_TRUE(is_refused(bad));
  bad = good;
  bad.pieces[1].bytes = ~uint32_t{0};
  EXPECT_TRUE(is_refused(bad));
  bad = good;
  bad.cutting = std::string(10'000, 'x');
  EXPECT_TRUE(is_refused(bad));
  std::string many = EncodeIndex(good);
  for (size_t i = 40; i < 72; ++i) many[i] = '\xff';  // among them the count of pieces
  many.resize(many.size() - 8);
  const uint64_t seal = HashWord(many);
  many.append(reinterpret_cast<const char*>(&seal), 8);
  EXPECT_EQ(DecodeIndex(many).status().message(), "claims what cannot be");
}

TEST_F(IndexFileTest, WhoeverMayReadTheFileMayReadItsIndex) {
  chmod(path_.c_str(), 0640);
  ASSERT_TRUE(OpenIndexedFile(data_, path_).value()->WriteIndex().ok());
  struct stat at {};
  ASSERT_EQ(stat((path_ + kIndexSuffix).c_str(), &at), 0);
  EXPECT_EQ(at.st_mode & 0777, 0640u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 2) << "nothing else stays";
}

// A lie about records that both its seal and the pieces' checksums hold.
TEST_F(IndexFileTest, AnIndexOfOtherRecordsIsNamedWhenItIsRead) {
  const auto made = OpenIndexedFile(data_, path_).value();
  RecordIndex index = made->index();
  for (Piece& piece : index.pieces) piece.records = std::min<uint32_t>(piece.records, 100);
  ASSERT_TRUE(WriteIndex(path_ + kIndexSuffix, index, path_).ok());
  const auto file = OpenIndexedFile(data_, path_).value();
  data_.label.column = "x";
  const ColumnReader columns(data_);
  const auto read = file->Decode(columns, 0, [](uint64_t, const absl::Status& why) { return why; });
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("a.csv:2: has 100 records or more where its index says"));
}

}  // namespace
}  // namespace downpour
