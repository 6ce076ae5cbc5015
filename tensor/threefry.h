// What Threefry-2x32 with 13 rounds is made of, for every device's dropout alike.
//
// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011: table 2, and the parity constant of
//   Threefish's key schedule.
#pragma once

#include <cstdint>

namespace downpour {

inline constexpr int kThreefryRounds = 13;

constexpr int ThreefryRotation(int round) {
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  return kRotations[round % 8];
}

// After every fourth round two of these words are added in turn.
struct ThreefryKey {
  uint32_t key[3];
  constexpr explicit ThreefryKey(uint64_t seed)
      : key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
            static_cast<uint32_t>(seed) ^ static_cast<uint32_t>(seed >> 32) ^ 0x1BD11BDAu} {}
};

}  // namespace downpour
