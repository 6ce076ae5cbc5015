#include <gtest/gtest.h>

#include <cstdio>

#include "schema/checkpoint_format.h"
#include "schema/codec.h"

namespace downpour {
namespace {

Manifest SmallManifest() {
  Manifest m;
  m.round = {2, 14};
  m.unix_ms = 1700000000123;
  m.job = "{\"name\":\"digits\",\"note\":\"caf\xc3\xa9\"}\n";
  m.train_examples = 60000;
  m.eval_examples = 10000;
  m.data_fingerprint = 0xfedcba9876543210u;
  m.train_files = {{"/data/a.csv", 50000, 7}, {"/data/b.csv", 60000, UINT64_MAX}};
  m.committed.InsertRange(0, 59);
  m.committed.Insert(61);
  m.files = {{"ps-0.shard", 300}, {"ps-1.shard", 200}};
  m.records = {{SliceId{0}, 0, 0, 100, 0x00c0ffee}, {SliceId{1}, 1, 0, 200, 1}, {SliceId{2}, 0, 100, 200, 0xffffffff}};
  return m;
}

// The text with its checksum made right again.
std::string Sealed(const std::string& line) {
  char checksum[17];
  std::snprintf(checksum, sizeof checksum, "crc32c %08x\n",
                Crc32c({reinterpret_cast<const std::byte*>(line.data()), line.size()}));
  return line + checksum;
}

std::string Line(const Manifest& m) {
  const std::string text = EncodeManifest(m);
  return text.substr(0, text.find('\n') + 1);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ManifestTest, ComesBack) {
  const Manifest m = SmallManifest();
  const auto read = DecodeManifest(EncodeManifest(m));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->round, m.round);
  EXPECT_EQ(read->unix_ms, m.unix_ms);
  EXPECT_EQ(read->job, m.job);
  EXPECT_EQ(read->train_examples, m.train_examples);
  EXPECT_EQ(read->eval_examples, m.eval_examples);
  EXPECT_EQ(read->data_fingerprint, m.data_fingerprint);
  EXPECT_EQ(read->train_files, m.train_files);
  EXPECT_EQ(read->committed, m.committed);
  ASSERT_EQ(read->files.size(), 2u);
  EXPECT_EQ(read->files[1].name, "ps-1.shard");
  EXPECT_EQ(read->files[1].bytes, 200u);
  ASSERT_EQ(read->records.size(), 3u);
  EXPECT_EQ(read->records[2].slice, SliceId{2});
  EXPECT_EQ(read->records[2].file, 0u);
  EXPECT_EQ(read->records[2].offset, 100u);
  EXPECT_EQ(read->records[2].bytes, 200u);
  EXPECT_EQ(read->records[0].crc32c, 0x00c0ffeeu);
  EXPECT_EQ(EncodeManifest(*read), EncodeManifest(m));
}

TEST(ManifestTest, EveryFlippedBitEveryCutAndEveryTailIsNoticed) {
  const std::string text = EncodeManifest(SmallManifest());
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(DecodeManifest(damaged).status().code(), absl::StatusCode::kDataLoss) << "bit " << bit;
  }
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(DecodeManifest(text.substr(0, length)).status().code(), absl::StatusCode::kDataLoss) << length;
  }
  EXPECT_FALSE(DecodeManifest(text + "\n").ok());
  EXPECT_FALSE(DecodeManifest(text + text).ok());
}

TEST(ManifestTest, WhatIsMissingOrWrongIsNamedThoughTheChecksumIsRight) {
  const std::string line = Line(SmallManifest());
  const auto what = [&](const std::string& from, const std::string& to) {
    return std::string(DecodeManifest(Sealed(Replaced(line, from, to))).status().message());
  };
  EXPECT_EQ(what("\"job\":", "\"jab\":"), "no manifest: job is not a string");
  EXPECT_EQ(what("60000", "-60000"), "no manifest: trainExamples is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(what("60000", "6e4"), "no manifest: trainExamples is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(what("fedcba9876543210", "FEDCBA9876543210"),
            "no manifest: dataFingerprint is not a number of 16 hexadecimal digits");
  EXPECT_EQ(what("[0,59]", "[59,0]"), "no manifest: committed is not ascending");
  EXPECT_EQ(what("[0,59]", "[0,61]"), "no manifest: committed is not ascending");
  EXPECT_EQ(what("[0,59]", "[0]"), "no manifest: committed holds something else than [begin, end]");
  EXPECT_EQ(what("ps-0.shard", "../x"), "no manifest: files[0].name is no plain name");
  EXPECT_EQ(what("ps-0.shard", "ps-1.shard"), "no manifest: files[1].name is used twice");
  EXPECT_EQ(what("\"slice\":1", "\"slice\":2"), "no manifest: records[1].slice is not the number of its place");
  EXPECT_EQ(what("\"file\":1", "\"file\":2"), "no manifest: records[1].file is not there");
  EXPECT_EQ(what("00c0ffee", "c0ffee"), "no manifest: records[0].crc32c is not a number of 8 hexadecimal digits");
  EXPECT_EQ(what("\"bytes\":100", "\"bytes\":301"), "no manifest: records[0].bytes reach beyond the file's end");
  EXPECT_EQ(what("\"offset\":100", "\"offset\":101"), "no manifest: records[2].bytes reach beyond the file's end");
  EXPECT_EQ(what("\"offset\":100", "\"offset\":18446744073709551615"),
            "no manifest: records[2].bytes reach beyond the file's end");
  EXPECT_EQ(what("\"2-14\"", "\"2-014\""), "'2-014' names no checkpoint round; TERM-N does");
  EXPECT_EQ(what("downpour checkpoint", "something else"), "no manifest: it is not a checkpoint's");
}

TEST(ManifestTest, TheJobsTextHasALimit) {
  Manifest m = SmallManifest();
  m.job.assign(kMaxTextBytes, 'j');
  EXPECT_TRUE(DecodeManifest(EncodeManifest(m)).ok());
  m.job += 'j';
  EXPECT_EQ(DecodeManifest(EncodeManifest(m)).status().message(), "no manifest: job is too long");
}

TEST(ManifestTest, JunkUnderARightChecksumIsRefused) {
  for (const std::string& junk : {std::string(), std::string("\n"), std::string("{}"), std::string("[]\n"),
                                  std::string("null"), std::string("{\"format\":"), std::string(1 << 20, '[')}) {
    EXPECT_EQ(DecodeManifest(Sealed(junk)).status().code(), absl::StatusCode::kInvalidArgument) << junk.substr(0, 20);
  }
  EXPECT_EQ(DecodeManifest(Sealed(std::string(kMaxManifestBytes, ' '))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ManifestTest, ALaterVersionIsToldFromDamage) {
  const std::string line = Replaced(Line(SmallManifest()), "\"version\":1", "\"version\":2");
  EXPECT_EQ(DecodeManifest(Sealed(line)).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ManifestTest, ACheckpointIsDescribedForPeople) {
  IntervalSet one;
  one.Insert(7);
  EXPECT_EQ(DescribeCheckpoint({3, 17}, one), "checkpoints/3-17 with 1 lease");
  EXPECT_EQ(DescribeCheckpoint({1, 2}, {}), "checkpoints/1-2 with 0 leases");
}

TEST(RoundTest, OnlyItsOwnFormParses) {
  for (const Round round : {Round{0, 0}, Round{3, 17}, Round{4294967295, 4294967295}}) {
    const auto parsed = ParseRound(ToString(round));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, round);
  }
  for (const char* junk :
       {"",       "-",     "3",     "3-",    "-17",          "3-17-1", "3--17", "-3-17", "+3-17", " 3-17", "3-17 ",
        "3-17\n", "03-17", "3-017", "0x3-1", "3-4294967296", "3.0-1",  "a-b",   "3/17",  "..",    "3-17/"}) {
    EXPECT_FALSE(ParseRound(junk).ok()) << junk;
  }
}

}  // namespace
}  // namespace downpour
