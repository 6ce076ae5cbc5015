// Reads TensorBoard's event files, independently of what writes them: framing, checksums bit by bit, protocol buffers.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace downpour {

struct ReadEvent {
  double wall_time = 0;
  uint64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
  std::map<std::string, std::string> hyperparameters;  // numbers as their eight bytes
};

class EventReader {
 public:
  // Throws std::runtime_error for a record that is damaged.
  static std::vector<ReadEvent> Read(const std::string& file) {
    std::vector<ReadEvent> events;
    for (size_t at = 0; at < file.size();) {
      const uint64_t length = Number(file.substr(at, 8));
      Expect(file.size() >= at + 16 + length, "a record is cut short");
      Expect(Number(file.substr(at + 8, 4)) == Masked(file.substr(at, 8)), "a length is damaged");
      const std::string message = file.substr(at + 12, length);
      Expect(Number(file.substr(at + 12 + length, 4)) == Masked(message), "a message is damaged");
      events.push_back(Event(message));
      at += 16 + length;
    }
    return events;
  }

 private:
  using Fields = std::multimap<uint64_t, std::string>;  // values as their bytes; numbers in eight or four of them

  static void Expect(bool so, const char* otherwise) {
    if (!so) throw std::runtime_error(otherwise);
  }
  static uint64_t Number(const std::string& bytes) {
    uint64_t number = 0;
    for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
    return number;
  }
  static uint32_t Masked(const std::string& bytes) {
    uint32_t crc = ~0u;
    for (const char byte : bytes) {
      crc ^= static_cast<uint8_t>(byte);
      for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
  }
  static uint64_t Varint(const std::string& text, size_t* at) {
    uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      Expect(*at < text.size() && shift < 64, "a number without end");
      const auto byte = static_cast<uint8_t>(text[(*at)++]);
      number |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return number;
    }
  }
  static Fields FieldsOf(const std::string& message) {
    Fields fields;
    for (size_t at = 0; at < message.size();) {
      const uint64_t key = Varint(message, &at);
      uint64_t length = (key & 7) == 1 ? 8 : 4;
      if ((key & 7) == 0) {
        const uint64_t number = Varint(message, &at);
        fields.emplace(key >> 3, std::string(reinterpret_cast<const char*>(&number), 8));
        continue;
      }
      if ((key & 7) == 2) length = Varint(message, &at);
      Expect(at + length <= message.size(), "a field is longer than its message");
      fields.emplace(key >> 3, message.substr(at, length));
      at += length;
    }
    return fields;
  }
  template <typename T>
  static T As(const std::string& bytes) {
    Expect(bytes.size() >= sizeof(T), "a number of another size");
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  static std::string One(const Fields& fields, uint64_t number) {
    const auto found = fields.find(number);
    return found == fields.end() ? "" : found->second;
  }
  static ReadEvent Event(const std::string& message) {
    const Fields fields = FieldsOf(message);
    ReadEvent event;
    event.wall_time = As<double>(One(fields, 1));
    event.file_version = One(fields, 3);
    if (fields.contains(2)) event.step = As<uint64_t>(One(fields, 2));
    for (const auto& [number, text] : FieldsOf(One(fields, 5))) {
      const Fields value = FieldsOf(text);
      if (value.contains(2)) event.scalars[One(value, 1)] = As<float>(One(value, 2));
      const Fields plugin = FieldsOf(One(FieldsOf(One(value, 9)), 1));
      if (One(plugin, 1) != "hparams") continue;
      for (const auto& [field, entry] : FieldsOf(One(FieldsOf(One(plugin, 2)), 3))) {
        if (field != 1) continue;
        const Fields of_map = FieldsOf(entry);
        event.hyperparameters[One(of_map, 1)] = FieldsOf(One(of_map, 2)).begin()->second;
      }
    }
    return event;
  }
};

}  // namespace downpour
