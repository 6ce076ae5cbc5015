// ReadRules: what readers show of the model in training, and that nobody else is another for it: protocol,
// conversation 13.
//
// A slice holds values in an epoch from one push to the next, until it goes on in another epoch or its process is dead.
// States that no checkpoint ever had count too: a reader may have seen what was lost with a ps. So does each of several
// states of one version: rows that nobody touches are forgotten as pushes without effect go by (docs/TABLES.md).
//
// Findings:
//   - A set of values is of epochs of the newest placement that its reader was given. What it has of each slice is what
//     the slice held in that epoch at some moment since the round began (ValueSet::as_of): so all that was applied
//     before is in it. Rounds do not overlap, and the pause behind one is no longer than it may be by what that took,
//     from when all slices had their places.
//   - Rows are those of the keys that were asked for, as their buckets held them likewise since the question. A
//     question is answered once, and none that was given up.
//   - A reader follows one training.
//   - A reader says what a viewer's key may say, in its run. Chief and ps say to it what is for readers, and a ps hangs
//     up on none. A chief tells where slices are to those alone who know its secret, and once all are there.
//   - A ps that hears a reader counts no push by that, and its slices stay as they are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/reference_state.h"
#include "tests/sim/rules.h"
#include "tests/sim/viewer.h"
#include "tests/sim/world.h"

namespace downpour {

class ReadRules final : public Rules {
 public:
  ReadRules(World* world, const Oracle* oracle, const ReferenceState* reference)
      : Rules(world), oracle_(oracle), reference_(reference) {}
  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;

 private:
  struct State {
    uint64_t version = 0;
    uint32_t checksum = 0;     // of values as they travel
    Payload rows;              // of a bucket, all that there can be
    Time until = Time::max();  // the next push, if one came
  };
  struct Lineage {
    Life by{};
    std::vector<State> states;
  };
  // By what a step of a ps that a reader caused must not change.
  struct Counts {
    uint64_t pushes = 0;
    std::map<SliceId, std::pair<Version, uint64_t>> slices;  // with the pushes consumed
    bool operator==(const Counts&) const = default;
  };

  bool IsOff() const { return world_->plan().readers.count == 0; }
  const Process* ReaderAt(const Process& listener, PeerId peer) const;
  Counts CountsOf(const Process& ps) const;
  void Note(const Process& ps, SliceId slice, SliceEpoch epoch);
  void OnSaidByReader(const Process& reader, const Send& send);
  void OnSaidToReader(const Process& process, const Send& send);
  void CheckSet(const Process& reader, const ValueSet& set);
  void CheckAnswer(const Process& reader, const Viewer::Answer& answer);
  // Says what is wrong, if no state of the slice in that epoch that `fits` was there at `since` or later.
  template <typename Fits>
  std::string Missed(SliceId slice, SliceEpoch epoch, Time since, const Fits& fits) const;

  const Oracle* oracle_;
  const ReferenceState* reference_;
  std::map<std::pair<SliceId, SliceEpoch>, Lineage> lineages_;
  std::map<std::pair<Life, SliceId>, SliceEpoch> epochs_;  // that each ps has it in
  std::map<Life, Time> shown_;                             // when a reader's last set was whole
  // Of the Step at hand.
  std::map<SliceId, SliceEpoch> touched_;
  PeerId asking_ = PeerId::kNone;          // a reader, whom a ps hears
  std::optional<Counts> before_;           // hearing it
  PeerId without_secret_ = PeerId::kNone;  // who asks a chief so
};

}  // namespace downpour
