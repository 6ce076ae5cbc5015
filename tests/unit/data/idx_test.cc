#include "data/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

class IdxTest : public testing::Test {
 protected:
  void SetUp() override {
    files_ = {Path("images"), Path("labels")};
    for (int i = 0; i < 3 * 4; ++i) pixels_.push_back(static_cast<uint8_t>(20 * i));
    ASSERT_TRUE(WriteIdx(files_.images, {3, 2, 2}, pixels_).ok());
    ASSERT_TRUE(WriteIdx(files_.labels, {3}, {7, 0, 9}).ok());
  }
  std::string Path(const std::string& name) { return folder_.path() + "/" + name; }

  std::string Bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  void WriteGzip(const std::string& path, const std::string& bytes) {
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  std::string Error() {
    auto data = OpenIdxDataset(files_);
    return data.ok() ? "" : std::string(data.status().message());
  }

  const ScratchFolder folder_;
  SetFiles files_;
  std::vector<uint8_t> pixels_;
};

TEST_F(IdxTest, ReadsBatchesInTheOrderAskedFor) {
  auto data = OpenIdxDataset(files_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 3u);
  EXPECT_EQ((*data)->columns(),
            (std::vector<Column>{{"image", ColumnType::kBytes, 4}, {kLabelColumn, ColumnType::kInt64, 1}}));
  EXPECT_EQ(CountLabels(**data, 1).value(), (std::vector<uint64_t>{1, 0, 0, 0, 0, 0, 0, 1, 0, 1}));
  std::vector<ColumnValues> values(2);  // labels first, as is asked
  ASSERT_TRUE((*data)->ReadBatch({2, 0}, {1, 0}, absl::MakeSpan(values)).ok());
  EXPECT_EQ(std::get<std::vector<int64_t>>(values[0]), (std::vector<int64_t>{9, 7}));
  EXPECT_EQ(std::get<std::vector<uint8_t>>(values[1]), (std::vector<uint8_t>{160, 180, 200, 220, 0, 20, 40, 60}));
  EXPECT_FALSE((*data)->ReadBatch({3}, {1, 0}, absl::MakeSpan(values)).ok());
}

TEST_F(IdxTest, GzippedFilesAreTheSameData) {
  const uint64_t plain = (*OpenIdxDataset(files_))->fingerprint();
  WriteGzip(Path("images.gz"), Bytes(files_.images));
  files_.images = Path("images.gz");
  auto data = OpenIdxDataset(files_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->fingerprint(), plain);
}

TEST_F(IdxTest, EveryByteChangesTheFingerprint) {
  const uint64_t before = (*OpenIdxDataset(files_))->fingerprint();
  for (const std::string& path : {files_.images, files_.labels}) {
    const std::string whole = Bytes(path);
    const size_t header = path == files_.images ? 16 : 8;
    for (size_t i = header; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      Write(path, changed);
      EXPECT_NE((*OpenIdxDataset(files_))->fingerprint(), before) << path << " byte " << i;
    }
    Write(path, whole);
  }
}

// Cut anywhere, plain or compressed, the file is refused, and the error names it.
TEST_F(IdxTest, TruncationIsNamedWithItsOffset) {
  const std::string whole = Bytes(files_.images);
  for (size_t keep = 0; keep < whole.size(); ++keep) {
    Write(files_.images, whole.substr(0, keep));
    EXPECT_NE(Error().find("images: truncated"), std::string::npos) << keep << ": " << Error();
  }
  Write(files_.images, whole.substr(0, 20));
  EXPECT_NE(Error().find("at byte 20: its header promises 28 bytes"), std::string::npos) << Error();
  WriteGzip(files_.images, whole);
  const std::string packed = Bytes(files_.images);
  for (size_t keep = 0; keep < packed.size(); ++keep) {
    Write(files_.images, packed.substr(0, keep));
    EXPECT_NE(Error(), "") << keep;
  }
}

TEST_F(IdxTest, TheHeaderIsReadWithoutWhatFollows) {
  const std::string header = Bytes(files_.images).substr(0, 16);
  EXPECT_EQ(ReadIdxHeader(files_.images, 3).value(), (std::vector<uint32_t>{3, 2, 2}));
  std::string noise;  // which hardly shrinks: its end lies far behind what is unpacked at once
  for (uint32_t seed = 1; noise.size() < size_t{2} << 20; seed = seed * 1664525u + 1013904223u) {
    noise += static_cast<char>(seed >> 24);
  }
  WriteGzip(files_.images, header + noise);
  Write(files_.images, Bytes(files_.images).substr(0, size_t{1} << 20));
  EXPECT_EQ(ReadIdxHeader(files_.images, 3).value(), (std::vector<uint32_t>{3, 2, 2})) << "it is cut behind that";
  EXPECT_FALSE(ReadIdxSizes(files_.images, 3).ok());
  EXPECT_FALSE(ReadIdxHeader(files_.labels, 3).ok());
}

TEST_F(IdxTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  files_.images = Path("pipe");
  ASSERT_EQ(mkfifo(files_.images.c_str(), 0600), 0);
  EXPECT_NE(Error().find("pipe is no regular file"), std::string::npos) << Error();
  files_.images = folder_.path();
  EXPECT_NE(Error().find("is no regular file"), std::string::npos) << Error();
}

TEST_F(IdxTest, WhatIsNotIdxIsRefusedByName) {
  const std::string whole = Bytes(files_.images);
  Write(files_.images, whole + "x");
  EXPECT_NE(Error().find("beyond the 28"), std::string::npos) << Error();
  Write(files_.images, "PNG" + whole);
  EXPECT_NE(Error().find("wrong magic 0x504e4700 at byte 0"), std::string::npos) << Error();
  EXPECT_EQ(Error().find("looks like text"), std::string::npos) << Error();
  Write(files_.images, "age,work,pay\n39,State-gov,1.5\n");
  EXPECT_NE(Error().find("it looks like text: `downpour data stats " + files_.images), std::string::npos) << Error();
  Write(files_.images, Bytes(files_.labels));
  EXPECT_NE(Error().find("wrong magic 0x00000801"), std::string::npos) << Error();
  std::string absurd = whole;
  for (int i = 4; i < 16; ++i) absurd[i] = '\xff';
  Write(files_.images, absurd);
  EXPECT_NE(Error().find("absurd sizes"), std::string::npos) << Error();
  const std::string wraps("\x01\0\0\0\0\x01\0\0\x01\0\0\0", 12);  // to 2^64
  Write(files_.images, whole.substr(0, 4) + wraps);
  EXPECT_NE(Error().find("absurd sizes in the header, at byte 12"), std::string::npos) << Error();
  EXPECT_FALSE(ReadIdxSizes(files_.images, 3).ok());
  std::string lying = whole;
  lying[4] = '\x7f';  // two billion images, within bounds, but not in the file: must not be allocated on its word
  Write(files_.images, lying);
  EXPECT_NE(Error().find("truncated at byte 28"), std::string::npos) << Error();
}

TEST_F(IdxTest, CountsMustAgreeAndFilesMustBeThere) {
  ASSERT_TRUE(WriteIdx(files_.labels, {2}, {1, 2}).ok());
  EXPECT_NE(Error().find("has 3 images"), std::string::npos) << Error();
  files_.labels = Path("absent");
  EXPECT_NE(Error().find("cannot open " + Path("absent")), std::string::npos) << Error();
  DataSpec unknown;
  unknown.format = "avro";
  EXPECT_FALSE(OpenDataset(unknown, files_).ok());
}

}  // namespace
}  // namespace downpour
