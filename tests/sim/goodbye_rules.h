// Whom a chief tells of its job's end, and in which words: protocol, conversations 1 and 10.
//
// Findings: an end that is not the job's; one that is told by a chief that leads nothing, though the job may be led
//   further, or to a process that joins from another run. A chief that exits, and has not told whoever waited for a
//   place in its last seconds, or has not waited for a watcher that is to ask again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

class GoodbyeRules final : public Rules {
 public:
  explicit GoodbyeRules(World* world) : Rules(world) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  struct Waiting {
    PeerId peer{};
    Time asked;
  };
  void OnReceived(const Process& chief, const Received& received);
  void Says(const Process& chief, const Send& send);
  void CheckWords(const Process& chief, const JobEnd& end);
  void CheckExit(const Process& chief);

  // Of one life of a chief.
  Life life_{};
  std::map<PeerId, uint64_t> nonces_;    // of the newest Join over each link
  std::map<uint64_t, Waiting> waiting_;  // for a place, by their nonces
  std::map<PeerId, Time> watching_;      // until then, unless they ask again
  std::set<PeerId> told_secret_;         // which said it with a question
  std::set<PeerId> told_;
  std::optional<Time> ended_;
  Time summed_up_;       // when it last began to write its summary
  PeerId joins_from_{};  // another run, in the Step at hand
};

}  // namespace downpour
