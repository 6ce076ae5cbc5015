#include "chief/known/event_records.h"

#include <bit>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

// The low bytes of a number, the lowest first.
std::string LittleEndian(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

std::string Varint(uint64_t number) {
  std::string text;
  for (; number >= 0x80; number >>= 7) text += static_cast<char>(number | 0x80);
  return text + static_cast<char>(number);
}

// Of protocol buffers: a field is its number and its wire type, then its value.
std::string Key(int field, int wire_type) { return Varint(static_cast<uint64_t>(field << 3 | wire_type)); }
std::string OfVarint(int field, uint64_t value) { return Key(field, 0) + Varint(value); }
std::string OfDouble(int field, double value) {
  return Key(field, 1) + LittleEndian(std::bit_cast<uint64_t>(value), 8);
}
std::string OfBytes(int field, const std::string& bytes) { return Key(field, 2) + Varint(bytes.size()) + bytes; }
std::string OfFloat(int field, double value) {
  return Key(field, 5) + LittleEndian(std::bit_cast<uint32_t>(static_cast<float>(value)), 4);
}

// A checksum of bytes that contain their own would be weak: record_writer.h masks it.
std::string MaskedChecksum(const std::string& bytes) {
  const uint32_t crc = Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  return LittleEndian(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

std::string Record(const std::string& message) {
  const std::string length = LittleEndian(message.size(), 8);
  return length + MaskedChecksum(length) + message + MaskedChecksum(message);
}

constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;  // of Event
constexpr int kValue = 1;                                                // of Summary
constexpr int kTag = 1, kSimpleValue = 2, kMetadata = 9;                 // of Summary.Value
constexpr int kPluginData = 1;                                           // of SummaryMetadata
constexpr int kPluginName = 1, kContent = 2;                             // of SummaryMetadata.PluginData
constexpr int kSessionStartInfo = 3;                                     // of HParamsPluginData
constexpr int kHparams = 1, kGroupName = 4, kStartTime = 5;              // of SessionStartInfo
constexpr int kMapKey = 1, kMapValue = 2;
constexpr int kNumber = 2, kString = 3, kBool = 4;  // of google.protobuf.Value

}  // namespace

std::string EventFileHead(double unix_seconds) {
  return Record(OfDouble(kWallTime, unix_seconds) + OfBytes(kFileVersion, "brain.Event:2"));
}

std::string ScalarsRecord(double unix_seconds, uint64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += OfBytes(kValue, OfBytes(kTag, tag) + OfFloat(kSimpleValue, value));
  }
  return Record(OfDouble(kWallTime, unix_seconds) + OfVarint(kStep, step) + OfBytes(kSummary, summary));
}

std::string HyperparametersRecord(double unix_seconds, const std::string& group, const nlohmann::json& values) {
  std::string start;
  for (const auto& [name, value] : values.items()) {
    std::string said;
    if (value.is_boolean()) said = OfVarint(kBool, value.get<bool>());
    if (value.is_number()) said = OfDouble(kNumber, value.get<double>());
    if (value.is_string()) said = OfBytes(kString, value.get<std::string>());
    if (!said.empty()) start += OfBytes(kHparams, OfBytes(kMapKey, name) + OfBytes(kMapValue, said));
  }
  start += OfBytes(kGroupName, group) + OfDouble(kStartTime, unix_seconds);
  const std::string plugin = OfBytes(kPluginName, "hparams") + OfBytes(kContent, OfBytes(kSessionStartInfo, start));
  const std::string value =
      OfBytes(kTag, "_hparams_/session_start_info") + OfBytes(kMetadata, OfBytes(kPluginData, plugin));
  return Record(OfDouble(kWallTime, unix_seconds) + OfBytes(kSummary, OfBytes(kValue, value)));
}

}  // namespace downpour
