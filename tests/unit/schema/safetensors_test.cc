#include "schema/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string WhyNot(const std::string& header, uint64_t data_bytes) {
  return std::string(ParseSafetensors(header, data_bytes).status().message());
}

TEST(Safetensors, ReadsWhatTheFormatsPageShows) {
  const auto tensors = ParseSafetensors(R"({"__metadata__": {"format": "pt"},
      "b": {"dtype": "F16", "shape": [1, 16, 256], "data_offsets": [8, 8200]},
      "a": {"dtype": "F64", "shape": [], "data_offsets": [0, 8]},
      "none": {"dtype": "F32", "shape": [0, 3], "data_offsets": [8, 8]},
      "odd": {"dtype": "I4", "shape": [5], "data_offsets": [8200, 8203]}}   )",
                                        8203);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_THAT(*tensors, SizeIs(4));
  EXPECT_EQ(tensors->at(0).name, "a");
  EXPECT_EQ(tensors->at(0).number, TensorNumber::kF64);
  EXPECT_THAT(tensors->at(0).shape, IsEmpty());
  EXPECT_EQ(tensors->at(1).number, TensorNumber::kF16);
  EXPECT_THAT(tensors->at(1).shape, ElementsAre(1, 16, 256));
  EXPECT_EQ(tensors->at(1).begin, 8u);
  EXPECT_EQ(tensors->at(1).end, 8200u);
  EXPECT_EQ(tensors->at(3).number, TensorNumber::kOther);
  EXPECT_EQ(tensors->at(3).type, "I4");
}

TEST(Safetensors, WhatNoWriterMakesIsRefusedByName) {
  EXPECT_THAT(WhyNot("", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(WhyNot("[1]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(WhyNot(R"({"a": )", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(WhyNot("{}", 3), HasSubstr("end at byte 0 of its data, which has 3"));
  const auto one = [](const std::string& fields, uint64_t bytes) { return WhyNot("{\"a\": {" + fields + "}}", bytes); };
  EXPECT_THAT(WhyNot(R"({"a": 3})", 0), HasSubstr("its tensor a has no dtype"));
  EXPECT_THAT(one(R"("dtype": 7, "shape": [1], "data_offsets": [0, 4])", 4), HasSubstr("has no dtype"));
  EXPECT_THAT(one(R"("dtype": "F32", "data_offsets": [0, 4])", 4), HasSubstr("has no shape"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [-1], "data_offsets": [0, 4])", 4), HasSubstr("has no shape"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [1.5], "data_offsets": [0, 4])", 4), HasSubstr("has no shape"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [1], "data_offsets": [0])", 4), HasSubstr("has no data_offsets"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8])", 4), HasSubstr("has no data_offsets"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [1], "data_offsets": [4, 0])", 4), HasSubstr("bytes 4 to 0"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8])", 7),
              HasSubstr("bytes 0 to 8 of its data, of which there are 7: it may be cut short"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [3], "data_offsets": [0, 8])", 8), HasSubstr("of another size"));
  // 2^32 times 2^32 floats wrap to none.
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0])", 0),
              HasSubstr("of another size"));
  EXPECT_THAT(one(R"("dtype": "F32", "shape": [18446744073709551615], "data_offsets": [0, 0])", 0),
              HasSubstr("has no shape"));
}

TEST(Safetensors, TensorsLieOneAfterTheOther) {
  const auto two = [](const std::string& a, const std::string& b) {
    return WhyNot(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": )" + a +
                      R"(}, "b": {"dtype": "F32", "shape": [2], "data_offsets": )" + b + "}}",
                  20);
  };
  EXPECT_THAT(two("[0, 8]", "[4, 12]"), HasSubstr("its tensor b is bytes 4 to 12 of its data, and the one before"));
  EXPECT_THAT(two("[0, 8]", "[0, 8]"), HasSubstr("its tensor b"));
  EXPECT_THAT(two("[12, 20]", "[0, 8]"), HasSubstr("its tensor a is bytes 12 to 20 of its data, and the one before it "
                                                   "ends at 8"));
  EXPECT_THAT(two("[0, 8]", "[8, 16]"), HasSubstr("end at byte 16 of its data, which has 20"));
  EXPECT_THAT(WhyNot(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                         "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
                     4),
              HasSubstr("its tensor a is there twice"));
}

// No cut and no flipped bit makes the reader crash, or say of bytes that are not there that they are.
TEST(Safetensors, HeadersThatAreCutOrFlippedNeverReachBeyondTheData) {
  const std::string good =
      R"({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "b": {"dtype": "BF16", "shape": [4],)"
      R"( "data_offsets": [24, 32]}})";
  ASSERT_TRUE(ParseSafetensors(good, 32).ok());
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(ParseSafetensors(good.substr(0, length), 32).ok());
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      const auto tensors = ParseSafetensors(bad, 32);
      if (!tensors.ok()) continue;
      for (const TensorEntry& tensor : *tensors) EXPECT_LE(tensor.end, 32u) << bad;
    }
  }
}

template <typename T>
std::vector<float> Floats(TensorNumber number, const std::vector<T>& from) {
  std::vector<float> to(from.size());
  ToFloats(number, {reinterpret_cast<const std::byte*>(from.data()), from.size() * sizeof(T)}, to.data());
  return to;
}

TEST(Safetensors, NumbersBecomeFloats) {
  EXPECT_THAT(Floats<float>(TensorNumber::kF32, {1.5f, -0.0f}), ElementsAre(1.5f, -0.0f));
  EXPECT_THAT(Floats<double>(TensorNumber::kF64, {0.1, -3}), ElementsAre(0.1f, -3.0f));
  EXPECT_THAT(Floats<uint16_t>(TensorNumber::kBf16, {0x3fc0, 0xc000, 0}), ElementsAre(1.5f, -2.0f, 0.0f));
  EXPECT_THAT(Floats<uint16_t>(TensorNumber::kF16, {0x3c00, 0xc248, 0x0001, 0x03ff, 0x0400, 0x7bff, 0x3555}),
              ElementsAre(1.0f, -3.140625f, 0x1p-24f, 1023 * 0x1p-24f, 0x1p-14f, 65504.0f, 0.333251953125f));
  const std::vector<float> odd = Floats<uint16_t>(TensorNumber::kF16, {0x7c00, 0xfc00, 0x7e00});
  EXPECT_EQ(odd[0], INFINITY);
  EXPECT_EQ(odd[1], -INFINITY);
  EXPECT_TRUE(std::isnan(odd[2]));
}

}  // namespace
}  // namespace downpour
