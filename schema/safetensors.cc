#include "schema/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie in the file");

constexpr size_t kMostTensors = 200'000;
constexpr size_t kMostDimensions = 64;

TensorNumber NumberNamed(const std::string& type) {
  if (type == "F32") return TensorNumber::kF32;
  if (type == "F64") return TensorNumber::kF64;
  if (type == "F16") return TensorNumber::kF16;
  return type == "BF16" ? TensorNumber::kBf16 : TensorNumber::kOther;
}

// False: it is no list of whole numbers.
template <typename T>
bool ReadNumbers(const Json& json, size_t most, std::vector<T>* numbers) {
  if (!json.is_array() || json.size() > most) return false;
  for (const Json& number : json) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t{INT64_MAX}) return false;
    numbers->push_back(static_cast<T>(number.get<uint64_t>()));
  }
  return true;
}

// What its shape comes to, or more than any file has.
uint64_t BytesOf(const TensorEntry& entry) {
  uint64_t bytes = BytesOf(entry.number);
  for (const int64_t size : entry.shape) {
    if (size > 0 && bytes > std::numeric_limits<int64_t>::max() / static_cast<uint64_t>(size)) return UINT64_MAX;
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

// IEEE 754 binary16.
float FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 31  ? (fraction == 0 ? std::numeric_limits<float>::infinity() : std::nanf(""))
                     : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

template <typename T, typename Convert>
void ConvertAll(absl::Span<const std::byte> from, float* to, const Convert& convert) {
  for (size_t at = 0; at + sizeof(T) <= from.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, from.data() + at, sizeof(T));
    *to++ = convert(value);
  }
}

}  // namespace

size_t BytesOf(TensorNumber number) {
  switch (number) {
    case TensorNumber::kF32:
      return 4;
    case TensorNumber::kF64:
      return 8;
    case TensorNumber::kF16:
    case TensorNumber::kBf16:
      return 2;
    case TensorNumber::kOther:
      break;
  }
  return 0;
}

absl::StatusOr<std::vector<TensorEntry>> ParseSafetensors(const std::string& header, uint64_t data_bytes) {
  const Json json = Json::parse(header, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.size() > kMostTensors)
    return absl::InvalidArgumentError("its header is no JSON object");
  std::vector<TensorEntry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    const auto fail = [&, &name = name](const char* what) {
      return absl::InvalidArgumentError(absl::StrCat("its tensor ", CleanText(name, 128), " ", what));
    };
    TensorEntry entry{.name = name, .type = {}, .shape = {}};
    std::vector<uint64_t> offsets;
    const Json type = value.is_object() ? value.value("dtype", Json()) : Json();
    if (!type.is_string()) return fail("has no dtype");
    entry.type = CleanText(type.get<std::string>(), 16);
    entry.number = NumberNamed(entry.type);
    if (!ReadNumbers(value.value("shape", Json()), kMostDimensions, &entry.shape)) return fail("has no shape");
    if (!ReadNumbers(value.value("data_offsets", Json()), 2, &offsets) || offsets.size() != 2 ||
        offsets[0] > offsets[1] || offsets[1] > data_bytes) {
      return fail("lies beyond the file's end, which may be cut short");
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.number != TensorNumber::kOther && BytesOf(entry) != entry.end - entry.begin) {
      return fail("has more or fewer bytes than its shape");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

void ToFloats(TensorNumber number, absl::Span<const std::byte> from, float* to) {
  switch (number) {
    case TensorNumber::kF32:
      std::memcpy(to, from.data(), from.size());
      return;
    case TensorNumber::kF64:
      return ConvertAll<double>(from, to, [](double value) { return static_cast<float>(value); });
    case TensorNumber::kF16:
      return ConvertAll<uint16_t>(from, to, FromHalf);
    case TensorNumber::kBf16:
      return ConvertAll<uint16_t>(from, to, [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); });
    case TensorNumber::kOther:
      return;
  }
}

}  // namespace downpour
