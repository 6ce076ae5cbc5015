// What a chief leaves of a job for curves: docs/MONITORING.md.
//
// Findings: in one life of a chief, a line of fewer steps than one before it; an evaluation that is over and not there
//   when its chief exits, though its disk takes what it writes, or that is there twice; a line that is no JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

class HistoryRules final : public Rules {
 public:
  explicit HistoryRules(World* world) : Rules(world) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;

 private:
  void Read(const Process& chief, const std::string& text);

  // Of one life of a chief.
  Life life_{};
  std::map<Ticket, std::string> appends_;  // under way
  bool failed_ = false;                    // the last one did: what it had comes again
  uint64_t step_ = 0;
  uint64_t over_ = 0;       // evaluations, by what the chief logs
  uint64_t evaluated_ = 0;  // as the history has them
};

}  // namespace downpour
