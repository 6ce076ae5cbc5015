// When a worker pulls, and on what it computes: protocol, conversation 6.
//
// Findings: a pull begun while a step is computed without `pullAhead`, or while an evaluation is; with it, none in so
//   many steps, one sooner than need be or for a step that there is not, or a step without a Wake for one; a step on
//   what was pulled before an evaluation, before a time without work, or of an epoch that was known to be over; an
//   evaluation of what was pulled before it was granted; values that its device was not told of before; where its
//   device keeps something that moves on only with gradients that counted: one that is settled twice, or was not
//   computed, or is never settled, or is not settled though its lease was given back, or counts though its slice took
//   no push of it from this worker, or skipped it; work that begins, or answers that are not awaited, after it was told
//   to stop; a later chief that is not told what it holds; data reported to a job that are another one's.
#pragma once

#include <algorithm>
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

class WorkerRules final : public Rules {
 public:
  WorkerRules(World* world, const Oracle* oracle) : Rules(world), oracle_(oracle) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  enum class At { kRest, kStep, kEvaluation };
  struct LastTwo {
    Duration last{}, before{};
    void Add(Duration took) { before = std::exchange(last, took); }
    Duration longer() const { return std::max(last, before); }
  };
  struct Worker {
    At at = At::kRest;
    Time began;                     // the newest step, or its rest behind an evaluation
    Ticket ticket{};                // of the newest request
    std::pair<LeaseId, Step> step;  // the newest
    // When these were last, by the number of the Step of any role.
    uint64_t pull_began = 0;
    uint64_t evaluated = 0;
    uint64_t without_work = 0;
    uint64_t placed = 0;
    uint64_t evaluation_granted = 0;  // the first part of the newest round
    uint64_t evaluation = 0;          // that round
    uint64_t evaluating = 0;          // the round of the newest EvalStep
    std::optional<Time> told_to_stop;
    uint64_t newest_pull = 0;        // request
    std::set<SliceId> pulling;       // slices that its pull has named, but for those that moved since
    uint32_t term = 0;               // of the newest Welcome
    uint64_t welcomed_in = 0;        // likewise, the run
    bool pulls_ahead = false;        // as its job's text says
    bool ever_ahead = false;         // as some text said
    uint64_t steps_to_pull_in = 0;   // that had a next one, since that Welcome
    uint64_t pulled_ahead = 0;       // likewise
    LastTwo steps, pulls;            // what they took, or more
    Time pulls_from;                 // no sooner for the next step, by what these took
    uint64_t first_pull = 0;         // request of the newest pull
    uint64_t taken = 0;              // pulls, since that Welcome
    std::optional<Time> pull_since;  // it may have begun then
    std::optional<Time> pull_ended;  // its newest answer
    bool has_last = false;           // step of the last lease that it holds
    bool retires = false;
    Incarnation asked_as{};                                                // for work, the last time
    std::vector<SliceEpoch> epochs;                                        // of each slice, as it has named them
    std::map<std::pair<LeaseId, Step>, std::vector<SliceEpoch>> known_at;  // when it began that step
    std::set<std::pair<SliceId, const void*>> announced;
    std::set<std::tuple<LeaseId, Step, SliceId>> owed;  // pushes without an answer: they may fill a window
    bool owed_when_it_evaluated = false;
    uint64_t run = 0;             // that its device was last prepared for
    Ticket training{};            // the newest step's
    bool waits = false;           // the device does, for rows, amid a step or an evaluation
    std::set<Incarnation> names;  // that it has pushed under
    std::map<std::tuple<LeaseId, Step, SliceId>, int> computed;   // and not settled, where that is needed
    std::map<std::tuple<LeaseId, Step, SliceId>, int> forgotten;  // of before it prepared for another run
  };
  void OnReceived(const Process& process, Worker& worker, const Message& message);
  void Begin(const Process& process, const Compute& compute);
  void BeginStep(const Process& process, Worker& worker, const TrainStep& step);
  void Settle(const Process& process, Worker& worker, const std::vector<Settled>& settled);
  void CheckAnnounced(const Process& process, const Worker& worker, const SliceValues& values);
  void CheckWakes(const Process& process);
  static void TakePulled(Worker& worker);
  void OnPull(const Process& process, Worker& worker, const Pull& pull);
  void OnPush(const Process& process, Worker& worker, const Push& push);
  void Learn(Worker& worker, SliceId slice, SliceEpoch epoch);

  const Oracle* oracle_;
  std::map<Life, Worker> workers_;
  std::map<uint64_t, JobSpec> jobs_;  // by run, as some Welcome said
  // Of the Step at hand.
  std::optional<Incarnation> beats_as_;  // placed
  bool goes_on_ = false;                 // it begins a step that has a next one
  bool wakes_ = false;
  bool pulls_ = false;
  std::set<std::tuple<Incarnation, LeaseId, Step, SliceId>> counted_;  // by whichever ps, of whichever epoch
};

}  // namespace downpour
