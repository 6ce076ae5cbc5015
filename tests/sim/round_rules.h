// What chief and ps say and read while a checkpoint round goes on: protocol, conversations 9 and 10.
//
// Findings: a chief asks a ps again for slices of its file that it has reported, or reads the checkpoints while one may
//   become durable, or commits a lease while a cancelled job's last round goes on; a ps reports slices of its file that
//   it was not asked for.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

class RoundRules final : public Rules {
 public:
  explicit RoundRules(World* world) : Rules(world) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  void OnChiefsOp(const Process& chief, const StorageOp& op);
  void CheckAsked(const Process& chief, const WriteShard& request);
  void CheckReported(const Process& ps, const ShardWritten& written);

  // Of one life of a chief.
  Life life_{};
  std::optional<Round> under_way_;
  std::map<std::pair<Incarnation, Round>, std::set<SliceId>> reported_;
  // Of the Step at hand.
  std::optional<IntervalSet> saved_;   // what is committed while the last round goes on
  std::optional<WriteShard> request_;  // that the ps is given
};

}  // namespace downpour
