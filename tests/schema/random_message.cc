#include "tests/schema/random_message.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "tests/schema/fields.h"

namespace downpour {
namespace {

template <typename T>
constexpr bool kIsVector = false;
template <typename T>
constexpr bool kIsVector<std::vector<T>> = true;

// Ids take any number; these take the ones that have a name.
constexpr int LastOf(TaskRole) { return static_cast<int>(TaskRole::kWorker); }
constexpr int LastOf(RefusalCode) { return static_cast<int>(RefusalCode::kSecretWanted); }
constexpr int LastOf(SliceSource) { return static_cast<int>(SliceSource::kHeld); }
constexpr int LastOf(SliceRefusal) { return static_cast<int>(SliceRefusal::kTooEarly); }
constexpr int LastOf(ControlKind) { return static_cast<int>(ControlKind::kCheckpoint); }
constexpr int LastOf(ControlVerdict) { return static_cast<int>(ControlVerdict::kAccepted); }

// ---- Filling --------------------------------------------------------------------------------------------------------

template <typename T>
T RandomNumber(Random& random) {
  switch (random() % 4) {
    case 0:
      return static_cast<T>(random() % 3);
    case 1:
      return static_cast<T>(~T{0} - static_cast<T>(random() % 3));
    default:
      return static_cast<T>(random());
  }
}

std::string RandomText(Random& random) {
  static const char* const kPieces[] = {"a",  "Z9", " ",        "\n",           "\t",
                                        "\"", "\\", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xa7"};
  std::string text;
  for (uint64_t i = random() % 12; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

Payload RandomFloats(Random& random) {
  std::vector<uint32_t> words(random() % 5);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  return Payload::CopyOf(words.data(), 4 * words.size());
}

IntervalSet RandomSet(Random& random) {
  IntervalSet set;
  for (uint64_t i = random() % 5; i > 0; --i) {
    const uint64_t begin = random() % 50;
    set.InsertRange(begin, begin + 1 + random() % 5);
  }
  return set;
}

template <typename T>
void Fill(T& t, Random& random) {
  if constexpr (std::is_same_v<T, bool>) {
    t = random() % 2 == 1;
  } else if constexpr (std::is_integral_v<T>) {
    t = RandomNumber<T>(random);
  } else if constexpr (std::is_floating_point_v<T>) {
    t = static_cast<double>(static_cast<int64_t>(random())) / 1024;
  } else if constexpr (requires { LastOf(t); }) {
    t = static_cast<T>(random() % (LastOf(t) + 1));
  } else if constexpr (std::is_enum_v<T>) {
    t = static_cast<T>(RandomNumber<std::underlying_type_t<T>>(random));
  } else if constexpr (std::is_same_v<T, std::string>) {
    t = RandomText(random);
  } else if constexpr (std::is_same_v<T, Payload>) {
    t = RandomFloats(random);
  } else if constexpr (std::is_same_v<T, IntervalSet>) {
    t = RandomSet(random);
  } else if constexpr (kIsVector<T>) {
    t.resize(random() % 5);
    for (auto& element : t) Fill(element, random);
  } else {
    std::apply([&random](auto&... fields) { (Fill(fields, random), ...); }, Fields(t));
  }
}

// What a message must also keep to.
template <typename M>
void Repair(M&) {}
void Repair(Join& m) { m.index = std::max(m.index, -1); }
void Repair(WriteShard& m) {
  m.file = "ps-0.shard";
  for (auto& slice : m.slices) slice.parts = 0;  // which only requests for messages have
}
void Repair(Placement& m) {
  if (m.servers.empty()) m.slices.clear();
  for (auto& slice : m.slices) slice.server %= static_cast<uint32_t>(m.servers.size());
}
void DropEmpty(std::vector<Payload>& blocks) {
  std::erase_if(blocks, [](const Payload& block) { return block.empty(); });
}
void Repair(RestoreSlice& m) { DropEmpty(m.blocks); }
void Repair(SliceRecord& m) { DropEmpty(m.blocks); }

template <size_t... I>
Message DefaultMessage(size_t kind, std::index_sequence<I...>) {
  Message message;
  ((kind == I ? (void)message.emplace<I>() : (void)0), ...);
  return message;
}

// ---- Telling --------------------------------------------------------------------------------------------------------

template <typename T>
void Tell(const T& t, const std::string& path, std::vector<std::string>* lines) {
  if constexpr (std::is_arithmetic_v<T>) {
    lines->push_back(path + " " + std::to_string(t));
  } else if constexpr (std::is_enum_v<T>) {
    lines->push_back(path + " " + std::to_string(static_cast<std::underlying_type_t<T>>(t)));
  } else if constexpr (std::is_same_v<T, std::string>) {
    lines->push_back(path + " '" + Hex(t.data(), t.size()) + "'");
  } else if constexpr (std::is_same_v<T, Payload>) {
    lines->push_back(path + " '" + Hex(t.data(), t.size()) + "'");
  } else if constexpr (std::is_same_v<T, IntervalSet>) {
    Tell(t.Intervals(), path, lines);
  } else if constexpr (kIsVector<T>) {
    lines->push_back(path + " has " + std::to_string(t.size()));
    for (size_t i = 0; i < t.size(); ++i) Tell(t[i], path + "[" + std::to_string(i) + "]", lines);
  } else {
    int place = 0;
    const auto tell = [&](const auto& field) { Tell(field, path + "." + std::to_string(place++), lines); };
    std::apply([&tell](const auto&... fields) { (tell(fields), ...); }, Fields(t));
  }
}

}  // namespace

Message RandomMessage(size_t kind, Random& random) {
  Message message = DefaultMessage(kind, std::make_index_sequence<std::variant_size_v<MessageKinds>>());
  std::visit(
      [&random](auto& m) {
        Fill(m, random);
        Repair(m);
      },
      message);
  return message;
}

std::vector<std::string> FieldLines(const Message& message) {
  std::vector<std::string> lines;
  std::visit([&](const auto& m) { Tell(m, NameOf(message), &lines); }, message);
  return lines;
}

std::string Hex(const void* data, size_t bytes) {
  std::string hex;
  char digits[3];
  for (size_t i = 0; i < bytes; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<const uint8_t*>(data)[i]);
    hex += digits;
  }
  return hex;
}

}  // namespace downpour
