#include "schema/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

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

absl::Status Fault(const std::string& tensor, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("its tensor ", CleanText(tensor, 128), " ", what));
}

std::string Extent(const TensorEntry& entry) {
  return absl::StrCat("bytes ", entry.begin, " to ", entry.end, " of its data");
}

absl::StatusOr<TensorEntry> ReadEntry(const std::string& name, const Json& value, uint64_t data_bytes) {
  TensorEntry entry{.name = name, .type = {}, .shape = {}};
  std::vector<uint64_t> offsets;
  const Json type = value.is_object() ? value.value("dtype", Json()) : Json();
  if (!type.is_string()) return Fault(name, "has no dtype");
  entry.type = CleanText(type.get<std::string>(), 16);
  entry.number = NumberNamed(entry.type);
  if (!ReadNumbers(value.value("shape", Json()), kMostDimensions, &entry.shape)) return Fault(name, "has no shape");
  if (!ReadNumbers(value.value("data_offsets", Json()), 2, &offsets) || offsets.size() != 2) {
    return Fault(name, "has no data_offsets");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return Fault(name, absl::StrCat("is said to be ", Extent(entry), ", of which there are ", data_bytes,
                                    ": it may be cut short"));
  }
  if (entry.number != TensorNumber::kOther && BytesOf(entry) != entry.end - entry.begin) {
    return Fault(name, absl::StrCat("is ", Extent(entry), ", and its shape is of another size"));
  }
  return entry;
}

// Tensors lie one after the other: neither over each other nor with something else between them.
absl::Status CheckExtents(const std::vector<TensorEntry>& entries, uint64_t data_bytes) {
  std::vector<const TensorEntry*> by_place;
  for (const TensorEntry& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t end = 0;
  for (const TensorEntry* entry : by_place) {
    if (entry->begin != end) {
      return Fault(entry->name, absl::StrCat("is ", Extent(*entry), ", and the one before it ends at ", end));
    }
    end = entry->end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its tensors end at byte ", end, " of its data, which has ", data_bytes));
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
  std::set<std::string> names;
  std::string doubled;
  const auto note = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const bool is_name = depth == 1 && event == Json::parse_event_t::key;
    if (is_name && !names.insert(parsed.get<std::string>()).second) doubled = parsed.get<std::string>();
    return true;
  };
  const Json json = Json::parse(header, note, /*allow_exceptions=*/false);
  if (!json.is_object() || json.size() > kMostTensors) {
    return absl::InvalidArgumentError("its header, from byte 8 on, is no JSON object");
  }
  if (!doubled.empty()) return Fault(doubled, "is there twice");
  std::vector<TensorEntry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<TensorEntry> entry = ReadEntry(name, value, data_bytes);
    if (!entry.ok()) return entry.status();
    entries.push_back(*std::move(entry));
  }
  if (const absl::Status status = CheckExtents(entries, data_bytes); !status.ok()) return status;
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
