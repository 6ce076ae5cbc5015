// Whom a chief takes in, and who gets work: protocol, conversations 1 and 3.
//
// Findings: a process is taken in after its goodbye, before another one had its name; one that its launcher has started
//   again is kept waiting; workers of two copies of the data get work.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

class JoinRules final : public Rules {
 public:
  explicit JoinRules(World* world) : Rules(world) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  static bool IsMember(const Process& chief, Incarnation one);
  void OnReceived(const Process& chief, const Received& received);
  void Welcomes(const Process& chief, PeerId to, const Welcome& welcome);

  std::map<Incarnation, uint64_t> fingerprints_;
  std::optional<uint64_t> fingerprint_;  // of the data of those that got work, in that run
  bool knows_growth_ = false;            // of the data, under a chief before
  uint64_t run_ = 0;

  // Of one life of a chief.
  Life life_{};
  std::map<PeerId, Join> joins_;
  std::map<std::string, Join> holders_;  // of names
  std::map<Incarnation, uint64_t> nonces_;
  std::map<std::string, uint64_t> gone_;  // nonces of those that had the names last, and said goodbye
  // Of the Step at hand.
  PeerId restarted_{};
};

}  // namespace downpour
