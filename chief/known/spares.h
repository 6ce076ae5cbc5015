// Spares: processes that ask to join while all places of their kind are taken. One of them gets the next place that is
// free.
//
// Cost: at most kMost are known; of more those that were heard first are forgotten.
// Tests: tests/unit/chief/spares_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "runtime/role.h"
#include "runtime/world_time.h"
#include "schema/text.h"

namespace downpour {

struct Spare {
  uint64_t nonce = 0;  // of its Join
  TaskRole role{};
  std::string host;
  uint32_t pid = 0;
  std::string why;  // it has no place
  Time heard{};
  PeerId peer{};  // which it asked from last
};

class Spares {
 public:
  static constexpr size_t kMost = 256;
  static constexpr size_t kMaxWords = 256;
  // It asks twice a second; one that is silent for so long has ended, or got a place.
  static constexpr Duration kGoneAfter = 3s;

  // Whether this one is new.
  bool Note(Time now, PeerId from, const Join& join, const std::string& why) {
    const auto known =
        std::find_if(known_.begin(), known_.end(), [&](const Spare& spare) { return spare.nonce == join.nonce; });
    if (known != known_.end()) {
      known->heard = now;
      known->peer = from;
      return false;
    }
    if (known_.size() == kMost) known_.pop_front();
    known_.push_back({join.nonce, join.role, OneLine(join.host, kMaxWords), join.pid, why, now, from});
    return true;
  }
  void Admitted(uint64_t nonce) {
    std::erase_if(known_, [nonce](const Spare& spare) { return spare.nonce == nonce; });
  }
  // Those that have asked lately.
  std::vector<Spare> Waiting(Time now) const {
    std::vector<Spare> waiting;
    std::copy_if(known_.begin(), known_.end(), std::back_inserter(waiting),
                 [now](const Spare& spare) { return now - spare.heard < kGoneAfter; });
    return waiting;
  }

 private:
  std::deque<Spare> known_;
};

}  // namespace downpour
