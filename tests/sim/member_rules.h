// MemberRules: what a member owes its chief, and a ps its workers.
//
// Findings: whoever breaks one of these.
//   - A ps answers workers by the name under which the newest Assign gave it slices.
//   - A ps closes a connection on which the protocol is broken for the second time, and answers nothing over it.
//   - A ps that has nothing to keep ends when it is told to stop.
//   - A member joins again only where a refusal names its own incarnation and run.
//   - A member ignores a Welcome of an earlier Join. A worker ignores what is for another incarnation.
//   - A member that hears of the end exits with the code of that end.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

class MemberRules final : public Rules {
 public:
  explicit MemberRules(World* world) : Rules(world) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  struct Member {
    Incarnation incarnation = Incarnation::kNone;
    Incarnation answers_as = Incarnation::kNone;  // a ps
    bool assigned = false;                        // likewise: slices, since it joined with nothing
    uint64_t run = 0;
    bool refused = false;     // it is no member until it is welcomed
    uint64_t joins = 0;       // that it has sent
    uint64_t first_join = 0;  // since it was refused: an answer to an older one is late
    bool leaves = false;      // as it was told to
  };
  void OnReceived(const Process& process, const Received& received);
  void CheckName(const Process& ps, Incarnation from);
  void CheckCode(const Process& member, int code);

  std::map<Life, Member> members_;
  std::set<std::pair<Life, PeerId>> told_wrong_;  // who breaks the protocol
  // Of the Step at hand.
  PeerId breaks_again_{};
  bool hung_up_ = false;
  bool breach_ = false;
  bool asks_for_slices_ = false;
  bool refused_before_ = false;
  bool placed_before_ = false;
  bool may_go_ = false;
  std::optional<JobEnd> end_;             // that it is given
  std::optional<Incarnation> unasked_;    // it is given a Welcome that must not change this
  std::optional<uint64_t> rejects_from_;  // what was said is not for it: messages that it had rejected before
};

}  // namespace downpour
