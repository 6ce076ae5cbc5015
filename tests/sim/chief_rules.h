// When a chief begins a checkpoint round, how it hurries, and whom it lets go: protocol, conversations 2, 9 and 10.
//
// Findings: a round that is not urgent though it ends the job or lets a ps go; one for a ps that is told to stop less
//   than a heartbeat after its word, or less than dead_after behind the one before; another's meanwhile; work for a
//   round that ought to have made room; a ps that is let go while another one needs it, or while the job is cancelled,
//   or under another name, or that is kept with nothing to lose; a round that is due or asked for and does not begin,
//   as the last one of a job that is cancelled; an end before its servers had time to come, where they hold more than
//   checkpoints; a grant when the job does not run; more records on their way to a ps than its window.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

class ChiefRules final : public Rules {
 public:
  ChiefRules(World* world, const Oracle* oracle) : Rules(world), oracle_(oracle) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  struct Leaving {  // a ps that is told to stop, as its chief has heard
    Time heard;
    std::optional<Time> counted = {};  // by a Tick of the chief, when
    std::optional<Time> let_go = {};
    std::optional<Round> after = {};  // the newest that had begun then: the chief needs a later one
    bool safe = false;                // such a one is durable
  };
  struct Begun {
    Time at;
    bool is_urgent = false;  // ought to be
    std::vector<SliceEpoch> epochs;
  };
  struct Departure {
    Round round;
    Time at;
  };
  void OnReceived(const Process& chief, const Received& received);
  void OnReport(const Process& chief, const SliceReport& report);
  void Says(const Process& chief, const Send& send);
  void Begins(const Process& chief, Round round);
  void CheckBegin(const Process& chief, Round round);
  void CheckWork(const Process& chief, Round round);
  void CheckUrgent(const Process& chief, Round round, bool urgent);
  void CheckWindow(const Process& chief, const RestoreSlice& restore);
  void LetsGo(const Process& chief, PeerId to);
  void CheckOverdue(const Process& chief);
  void CheckPeriod(const Process& chief);
  bool AllServersThere(const Process& chief) const;
  bool MayBegin(const Process& chief) const;
  bool HasSomething(const Process& chief, Incarnation server) const;
  bool FollowsADeadOne(const Process& chief) const;

  const Oracle* oracle_;

  // Of one life of a chief.
  Life life_{};
  std::map<PeerId, Incarnation> speakers_;
  std::map<Incarnation, Leaving> leaving_;
  std::set<PeerId> join_with_nothing_;
  std::set<Incarnation> fresh_;  // joined so
  std::map<Round, Begun> begun_;
  std::optional<Round> under_way_;
  std::optional<Time> may_begin_since_;
  size_t durable_ = 0;                        // of those begun
  std::set<uint64_t> asked_;                  // for a checkpoint, by the nonces of commands
  std::set<uint64_t> answered_;               // likewise, that it does
  std::optional<Time> wanted_;                // since the newest of them, until a round begins
  std::set<Incarnation> servers_;             // that slices were assigned to
  std::optional<Departure> departure_round_;  // the last one
  std::set<Round> overdue_;                   // that ought to have made room
  bool was_cancelling_ = false;
  bool has_all_ = false;  // it runs, and every slice is where it belongs
  std::optional<Time> cancelled_;
  std::optional<Time> told_to_stop_;                    // by a signal
  bool placed_before_ = false;                          // by the chief before, which died
  bool prepared_ = false;                               // every slice has reported to it
  bool saves_ = false;                                  // a last round can be made
  std::map<Incarnation, std::set<SliceId>> restoring_;  // records sent and not reported
  // Assigned so, and not reported yet: its ps is to continue with what it has.
  std::set<std::tuple<Incarnation, SliceId, SliceEpoch>> held_;
  // Of the Step at hand.
  std::vector<std::pair<SliceId, SliceEpoch>> behind_;  // reported as held, and lacks what the newest manifest promises
  bool ticks_ = false;
  Incarnation due_to_go_{};
};

}  // namespace downpour
