// What all rules are made of: an Observer that says which process breaks one.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/observer.h"
#include "tests/sim/world.h"

namespace downpour {

class Rules : public Observer {
 protected:
  explicit Rules(World* world) : world_(world) {}
  void Add(const Process& process, const std::string& what) const;
  // Whether that chief counts it among its members.
  static bool IsThere(const Process& chief, TaskRole role, Incarnation one);

  // Messages so far, by a ps or a worker.
  static uint64_t RejectedBy(const Process& member);

  World* world_;
};

}  // namespace downpour
