// Several frames in one input: each as its length in two bytes, little-endian, and its bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "schema/payload.h"

namespace downpour {

inline std::vector<Payload> SplitFrames(const uint8_t* data, size_t size) {
  std::vector<Payload> frames;
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] | data[1] << 8, size - 2);
    frames.push_back(Payload::CopyOf(data + 2, length));
    data += 2 + length;
    size -= 2 + length;
  }
  return frames;
}

inline std::string JoinFrames(const std::vector<Payload>& frames) {
  std::string joined;
  for (const Payload& frame : frames) {
    joined += static_cast<char>(frame.size() & 0xff);
    joined += static_cast<char>(frame.size() >> 8);
    joined.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
  return joined;
}

}  // namespace downpour
