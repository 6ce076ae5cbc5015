#include "data/row_group_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "data/checked_source.h"
#include "job/data_formats.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// A format of this test: "x,y" on each line, and an empty line between groups.
struct Counts {
  int cursors = 0;
  uint64_t skipped = 0;
};
Counts counts;

using Rows = std::vector<std::vector<std::string>>;

class LineCursor final : public RowGroupCursor {
 public:
  LineCursor(Rows rows, std::vector<size_t> fields) : rows_(std::move(rows)), fields_(std::move(fields)) {
    ++counts.cursors;
  }
  absl::Status Skip(uint64_t rows) override {
    at_ += rows;
    counts.skipped += rows;
    return absl::OkStatus();
  }
  absl::Status Read(uint32_t rows, absl::Span<FieldColumn> columns) override {
    for (size_t i = 0; i < fields_.size(); ++i) {
      FieldColumn& to = columns[i];
      to.Clear();
      to.type = fields_[i] == 0 ? FieldColumn::Type::kDouble : FieldColumn::Type::kText;
      for (size_t row = at_; row < at_ + rows; ++row) {
        const std::string& word = rows_[row][fields_[i]];
        double number = 0;
        if (fields_[i] == 0 && absl::SimpleAtod(word, &number)) to.doubles.push_back(number);
        if (fields_[i] == 0) continue;
        to.text += word;
        to.text_ends.push_back(to.text.size());
      }
    }
    at_ += rows;
    return absl::OkStatus();
  }

 private:
  const Rows rows_;
  const std::vector<size_t> fields_;
  size_t at_ = 0;
};

class LineGroups final : public RowGroups {
 public:
  explicit LineGroups(const std::string& text) {
    for (const auto group : absl::StrSplit(text, "\n\n")) {
      Rows& rows = rows_.emplace_back();
      for (const auto line : absl::StrSplit(group, '\n', absl::SkipEmpty())) rows.push_back(absl::StrSplit(line, ','));
      groups_.push_back({.rows = rows.size(), .bytes = group.size(), .values = 2 * rows.size()});
    }
  }
  const std::vector<std::string>& fields() const override { return fields_; }
  const std::string& layout() const override { return layout_; }
  const std::vector<RowGroupSize>& groups() const override { return groups_; }
  absl::StatusOr<std::unique_ptr<RowGroupCursor>> NewCursor(size_t group,
                                                            absl::Span<const std::string> fields) const override {
    std::vector<size_t> places;
    for (const std::string& field : fields) places.push_back(field == "y");
    return std::make_unique<LineCursor>(rows_[group], std::move(places));
  }

 private:
  const std::vector<std::string> fields_ = {"x", "y"};
  const std::string layout_ = "x y";
  std::vector<Rows> rows_;
  std::vector<RowGroupSize> groups_;
};

absl::StatusOr<std::unique_ptr<RowGroups>> OpenLines(std::shared_ptr<const ByteSource> source) {
  std::string text(source->size(), '\0');
  const auto got = source->Read(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  if (!got.ok()) return got.status();
  return std::make_unique<LineGroups>(text);
}

class RowGroupFileTest : public testing::Test {
 protected:
  RowGroupFileTest() {
    data_.format = kParquetFormat;
    data_.columns = {ColumnSpec{.name = "x", .from = {"x"}}};
    data_.label.column = "y";
    counts = {};
  }

  // Rows "i,2i" of such numbers, in groups of those sizes.
  std::string Text(const std::vector<uint64_t>& sizes) {
    std::string text;
    uint64_t i = 0;
    for (const uint64_t size : sizes) {
      absl::StrAppend(&text, text.empty() ? "" : "\n");
      for (uint64_t row = 0; row < size; ++row, ++i) absl::StrAppend(&text, i, ",", 2 * i, "\n");
    }
    return text;
  }
  absl::StatusOr<std::unique_ptr<IndexedFile>> Open(const std::string& text) {
    folder_.Write("a", text);
    return Reopen();
  }
  absl::StatusOr<std::unique_ptr<IndexedFile>> Reopen() const {
    return RowGroupFile::Open(data_, path(), &OpenLines, false);
  }
  std::string path() const { return folder_.path() + "/a"; }
  absl::StatusOr<std::vector<ColumnValues>> Decode(const IndexedFile& file, size_t piece) const {
    return file.Decode(ColumnReader(data_), piece, [](uint64_t, const absl::Status& why) { return why; });
  }

  ScratchFolder folder_;
  DataSpec data_;
};

TEST_F(RowGroupFileTest, PiecesAreRowsOfOneGroupInAnyOrder) {
  const auto file = Open(Text({2500, 1, 0, 1024, 10})).value();
  ASSERT_EQ(file->records(), 3535u);
  ASSERT_EQ(file->pieces(), 3u + 1 + 1 + 1);
  std::vector<size_t> order(file->pieces());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  uint64_t seen = 0;
  for (const size_t piece : order) {
    const IndexedFile::Rows rows = file->RowsOf(piece);
    const std::vector<ColumnValues> values = Decode(*file, piece).value();
    for (uint32_t row = 0; row < rows.count; ++row, ++seen) {
      EXPECT_EQ(file->PieceOf(rows.first + row), piece);
      EXPECT_EQ(std::get<std::vector<float>>(values[0])[row], static_cast<float>(rows.first + row));
      EXPECT_EQ(std::get<std::vector<int64_t>>(values[1])[row], static_cast<int64_t>(2 * (rows.first + row)));
    }
  }
  EXPECT_EQ(seen, 3535u);
}

TEST_F(RowGroupFileTest, PiecesInARowDecodeAGroupOnce) {
  const auto file = Open(Text({5000, 5000})).value();
  for (size_t piece = 0; piece < file->pieces(); ++piece) ASSERT_TRUE(Decode(*file, piece).ok());
  EXPECT_EQ(counts.cursors, 2);
  EXPECT_EQ(counts.skipped, 0u);
  ASSERT_TRUE(Decode(*file, 3).ok());
  EXPECT_EQ(counts.cursors, 3);
  EXPECT_EQ(counts.skipped, 3 * kPieceRows);
  ASSERT_TRUE(Decode(*file, 4).ok());
  EXPECT_EQ(counts.cursors, 3) << "the one that was kept stands there";
}

TEST_F(RowGroupFileTest, LargeRecordsHaveSmallPieces) {
  EXPECT_EQ(PieceRowsOf({.rows = 1'000'000, .bytes = 100'000'000, .values = 20'000'000}), kPieceRows);
  EXPECT_EQ(PieceRowsOf({.rows = 1000, .bytes = 1000 << 20, .values = 1000}), 4u);
  EXPECT_EQ(PieceRowsOf({.rows = 10, .bytes = 10, .values = 10 * kMostPieceValues}), 1u);
  EXPECT_EQ(PieceRowsOf({.rows = 1, .bytes = UINT64_MAX, .values = UINT64_MAX - 1}), 1u);
}

TEST_F(RowGroupFileTest, WhatCannotBeReadIsNamedWithItsRow) {
  std::string text = Text({1500});
  text.insert(text.find("\n1200,") + 6, "no");
  const auto file = Open(text).value();
  EXPECT_TRUE(Decode(*file, 0).ok());
  EXPECT_THAT(std::string(Decode(*file, 1).status().message()),
              HasSubstr(path() + " at row 1200: field 'y': 'no2400' is no class"));
  EXPECT_EQ(file->CheckFields({"why"}).message(), path() + " has no field 'why'; it has x, y");
  std::vector<uint64_t> bad;
  const auto note = [&](uint64_t record, const absl::Status&) {
    bad.push_back(record);
    return absl::OkStatus();
  };
  EXPECT_TRUE(file->Decode(ColumnReader(data_), 1, note).ok());
  EXPECT_EQ(bad, std::vector<uint64_t>{1200});
}

TEST_F(RowGroupFileTest, AChangedByteIsNamedAndAnIndexOfOtherBytesIsNotUsed) {
  const std::string text = Text({40'000});
  auto file = Open(text).value();
  const uint64_t fingerprint = file->MixedInto(1);
  ASSERT_TRUE(file->WriteIndex().ok());
  EXPECT_EQ(Reopen().value()->MixedInto(1), fingerprint);
  std::string changed = text;
  changed[changed.size() - 2] ^= 1;
  file.reset();
  file = Open(changed).value();
  EXPECT_NE(file->MixedInto(1), fingerprint);
  folder_.Write("a", text);
  file = RowGroupFile::Open(data_, path(), &OpenLines, false).value();
  std::vector<Piece> pieces = ScanBytes("", *OpenFile(path()).value()).value().pieces;
  folder_.Write("a", changed);
  const CheckedSource source(OpenFile(path()).value(), pieces);
  std::vector<uint8_t> some(1000);
  EXPECT_EQ(source.Read(100, absl::MakeSpan(some)).value(), 1000u);
  const absl::Status read = source.Read(text.size() - 5, absl::MakeSpan(some)).status();
  EXPECT_TRUE(absl::IsDataLoss(read));
  EXPECT_THAT(std::string(read.message()), HasSubstr(absl::StrCat(path(), ": the bytes from ", pieces.back().offset)));
  EXPECT_EQ(source.Read(text.size() + 5, absl::MakeSpan(some)).value(), 0u);
}

TEST_F(RowGroupFileTest, AnIndexOfOtherPiecesIsNotUsed) {
  Open(Text({40'000})).value();
  RecordIndex index = ScanBytes("", *OpenFile(path()).value()).value();
  ASSERT_GT(index.pieces.size(), 1u);
  EXPECT_TRUE(IsOfCheckedPieces(index));
  RecordIndex cut = index;
  cut.pieces.pop_back();
  EXPECT_FALSE(IsOfCheckedPieces(cut));
  index.pieces[0].bytes += index.pieces[1].bytes;
  index.pieces.erase(index.pieces.begin() + 1);
  EXPECT_FALSE(IsOfCheckedPieces(index));
}

TEST_F(RowGroupFileTest, APackedFileIsToBeUnpacked) {
  EXPECT_THAT(std::string(Open("\x1f\x8b...").status().message()), HasSubstr(path() + " is packed as a whole"));
}

}  // namespace
}  // namespace downpour
