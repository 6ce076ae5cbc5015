#include "data/byte_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/data/packed.h"
#include "tests/unit/data/text_source.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// What a stream gives, read in pieces of that size; or its error.
std::string Unpacked(const std::string& source, size_t piece = 1000) {
  const TextSource text(source);
  ByteStream stream(text);
  std::string all;
  for (std::vector<uint8_t> some(piece);;) {
    const absl::StatusOr<size_t> got = stream.Read(absl::MakeSpan(some));
    if (!got.ok()) return std::string(got.status().message());
    all.append(some.begin(), some.begin() + static_cast<ptrdiff_t>(*got));
    EXPECT_EQ(stream.offset(), all.size());
    if (*got < piece) return all;
  }
}

std::string Noise(size_t bytes) {
  std::string noise;
  for (uint32_t seed = 1; noise.size() < bytes; seed = seed * 1664525u + 1013904223u) {
    noise += static_cast<char>(seed >> 24);
  }
  return noise;
}

TEST(ByteStreamTest, PlainBytesComeAsTheyAre) {
  for (const std::string text : {"", "a", "\x1f", "plain text"}) EXPECT_EQ(Unpacked(text), text);
  EXPECT_EQ(Unpacked(Noise(5000), 1), Noise(5000));
}

TEST(ByteStreamTest, PackedOnesAreUnpackedInPiecesOfAnySize) {
  const std::string noise = Noise(700'000), zeros(3'000'000, 0);  // more than one piece of the source, and far less
  for (const size_t piece : {size_t{997}, size_t{65536}, size_t{10'000'000}}) {
    EXPECT_EQ(Unpacked(Packed(noise), piece), noise) << piece;
    EXPECT_EQ(Unpacked(Packed(zeros), piece), zeros) << piece;
  }
  EXPECT_EQ(Unpacked(Packed("abc"), 1), "abc");
  EXPECT_EQ(Unpacked(Packed("")), "");
}

TEST(ByteStreamTest, SeveralMembersFollowEachOther) {
  const std::string members = Packed("one ") + Packed("") + Packed("two") + Packed(Noise(300'000));
  EXPECT_EQ(Unpacked(members), "one two" + Noise(300'000));
  for (const size_t piece : {size_t{1000}, size_t{1} << 20}) {
    EXPECT_EQ(Unpacked(members + std::string(600'000, 0), piece), "one two" + Noise(300'000)) << "zeros may follow";
    EXPECT_EQ(Unpacked(Packed("a") + std::string(3, 0), piece), "a");
  }
}

TEST(ByteStreamTest, CutAnywhereItIsRefused) {
  const std::string packed = Packed("one, two, three") + Packed("four");
  const size_t first = Packed("one, two, three").size();
  for (size_t keep = 2; keep < packed.size(); ++keep) {
    if (keep == first) continue;  // a whole file
    EXPECT_THAT(Unpacked(packed.substr(0, keep)), HasSubstr("source: unreadable after byte ")) << keep;
  }
}

TEST(ByteStreamTest, ADamagedByteIsRefused) {
  const std::string packed = Packed(Noise(200));
  for (size_t at = 10; at < packed.size(); ++at) {  // behind the header, which has a time and a system besides
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_THAT(Unpacked(damaged), HasSubstr("source: unreadable after byte ")) << at;
  }
  EXPECT_THAT(Unpacked(packed + "x"), HasSubstr("other bytes follow what is gzipped"));
}

TEST(ByteStreamTest, FramesOfZstdAreUnpackedInPiecesOfAnySize) {
  const std::string noise = Noise(700'000), zeros(3'000'000, 0);
  for (const size_t piece : {size_t{997}, size_t{65536}, size_t{10'000'000}}) {
    EXPECT_EQ(Unpacked(Frame(noise), piece), noise) << piece;
    EXPECT_EQ(Unpacked(Frame(zeros) + Frame("") + Frame(noise), piece), zeros + noise) << piece;
  }
  const std::string skipped = std::string("\x5a\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(Unpacked(skipped + Frame("a") + skipped + Frame("b")), "ab");
  EXPECT_EQ(Unpacked("\x28\xb5\x2f"), "\x28\xb5\x2f") << "no frame: it is too short";
}

TEST(ByteStreamTest, AFrameOfZstdThatIsCutOrDamagedIsRefused) {
  const std::string first = Frame("one, two, three"), frames = first + Frame("four");
  for (size_t keep = 4; keep < frames.size(); ++keep) {
    if (keep == first.size()) continue;  // a whole file
    EXPECT_THAT(Unpacked(frames.substr(0, keep)), HasSubstr("source: unreadable after byte ")) << keep;
  }
  const std::string noise = Frame(Noise(200));
  for (size_t at = 4; at < noise.size(); ++at) {
    std::string damaged = noise;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_NE(Unpacked(damaged), Noise(200)) << at;
  }
  EXPECT_THAT(Unpacked(frames + "x"), HasSubstr("source: unreadable after byte 19"));
}

TEST(ByteStreamTest, AWindowBeyondAllBoundsIsRefused) {
  // A frame of one block whose header asks for a window of 2 TiB.
  const std::string frame = std::string("\x28\xb5\x2f\xfd\x00\xf8\x09\x00\x00a", 10);
  EXPECT_THAT(Unpacked(frame), HasSubstr("source: unreadable after byte 0: Frame requires too much memory"));
}

TEST(ByteStreamTest, ABombTakesMemoryForAPieceAlone) {
  const TextSource bomb(Frame(std::string(200'000'000, 'a')));
  ASSERT_LT(bomb.size(), 100'000u);
  EXPECT_EQ(ByteStream(bomb).SkipToEnd().value(), 200'000'000u);
}

TEST(ByteStreamTest, OtherPackingsAreNamed) {
  const std::string end(40, 'x');
  EXPECT_THAT(Unpacked("BZh91AY&SY" + end), HasSubstr("source: is packed by bzip2; unpack it, and pack it by gzip"));
  EXPECT_THAT(Unpacked(std::string("\3757zXZ\0", 6) + end), HasSubstr("is packed by xz"));
  EXPECT_THAT(Unpacked("PK\x03\x04" + end), HasSubstr("is packed by zip, as spreadsheets are"));
  EXPECT_EQ(Unpacked("BZh9"), "BZh9") << "a text";
}

TEST(ByteStreamTest, SkippedBytesAreCounted) {
  const TextSource packed(Packed(Noise(5'000'000))), plain("abc");
  EXPECT_EQ(ByteStream(packed).SkipToEnd().value(), 5'000'000u);
  EXPECT_EQ(ByteStream(plain).SkipToEnd().value(), 3u);
}

}  // namespace
}  // namespace downpour
