// Protocol buffers and TFRecord files by hand, for tests.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "schema/checkpoint_format.h"

namespace downpour {

inline std::string Varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
inline std::string Message(uint64_t number, const std::string& bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + bytes;
}
template <typename T>
std::string Little(T value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

inline std::string Floats(const std::vector<float>& values) {
  std::string packed;
  for (const float value : values) packed += Little(value);
  return Message(2, Message(1, packed));
}
inline std::string Integers(const std::vector<int64_t>& values) {
  std::string packed;
  for (const int64_t value : values) packed += Varint(static_cast<uint64_t>(value));
  return Message(3, Message(1, packed));
}
inline std::string Words(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += Message(1, value);
  return Message(1, list);
}

// Of an Example.
inline std::string Feature(const std::string& key, const std::string& feature) {
  return Message(1, Message(1, key) + Message(2, feature));
}
inline std::string Example(const std::string& features) { return Message(1, features); }

inline std::string Masked(const std::string& bytes) {
  const uint32_t crc = Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  return Little<uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}
inline std::string TfRecord(const std::string& data) {
  const std::string length = Little<uint64_t>(data.size());
  return length + Masked(length) + data + Masked(data);
}

}  // namespace downpour
