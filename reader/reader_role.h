// ReaderRole: reads the values of a model that is being trained, from the ps, and changes nothing.
//
//   ReaderRole role({.chief = "h0:7000"});
//   role.Step(now, Started{}, effects);                          // and so on, by a driver
//   if (std::optional<ValueSet> values = role.TakeValues()) ...every slice's values...
//   role.WantRows(7, keys);                                      // of buckets; answered by TakeRows, under that number
//   role.Locate("h0:7001", secret);                              // where the chief listens by now
//
// Shapes: values are as they travel, SliceGrid::WireBytes each; rows as runtime/row_frames.h lays them out.
// Order: a round asks every ps for its slices, and ends once all of them have answered in the epochs of one placement.
//   A ValueSet is what a whole round brought, never a part of one. Each slice is of one point between two pushes, and
//   all of them are of the time of the round. All that was applied before the round began is in it. So training with
//   several workers sees values, too.
//   Questions for rows are under way side by side, and beside a round. None waits for a ps that another one needs.
// Cost: at most one message of kMaxMessagePayload for a round, and one for rows, is unanswered at a ps. A round begins
//   `refresh` after the one before it, or later: so that at most a fifth of the time is spent in rounds. Waiting until
//   the slices of a lost ps are elsewhere costs nobody anything, and does not count. A slice that did not change is not
//   sent again. A question for rows costs a look at each slice.
// Errors: end() says why nothing more will come: the job is over, the chief leads another run or another model, or
//   speaks of a job that this build does not understand. What a ps says wrongly counts as rejected and is asked again.
// Source: schema/PROTOCOL.md, conversation 13. It pulls as a worker does (worker/pull_round.h).
// Tests: tests/unit/reader/reader_role_test.cc, tests/process/test_live.py; rules in the simulator:
//   tests/sim/read_rules.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "runtime/compute.h"
#include "runtime/options.h"
#include "runtime/role.h"
#include "worker/parameter_set.h"
#include "worker/placement_map.h"
#include "worker/pull_round.h"

namespace downpour {

struct ReaderOptions {
  std::string chief;        // where it listens
  std::string secret = {};  // as its chief.json has it; empty: keys tell who may ask
  uint64_t run = 0;         // of which training; 0: of whichever the chief leads first
  Duration refresh = 200ms;
  Timing timing = {};
};

// What slices of variables held, all of them.
struct ValueSet {
  std::shared_ptr<const JobSpec> job;
  std::shared_ptr<const SliceGrid> grid;
  std::vector<Version> versions;  // by SliceId, as is the next
  std::vector<Payload> values;
  Time as_of;  // the round began then
};

struct FoundRows {
  uint64_t number = 0;
  SliceValues rows;  // of each bucket that was named
};

class ReaderRole final : public Role {
 public:
  // Of the time between the beginnings of two rounds one part in so many may be spent in rounds.
  static constexpr int kShare = 5;

  explicit ReaderRole(ReaderOptions options);

  void Step(Time now, Input input, Effects& effects) override;

  // The newest that is complete, once.
  std::optional<ValueSet> TakeValues() { return std::exchange(complete_, std::nullopt); }
  // `keys`: of each bucket that has some, ascending by bucket. The rows are those of a moment after this call.
  void WantRows(uint64_t number, SliceValues keys);
  // Nobody waits for them any more.
  void ForgetRows(uint64_t number);
  std::vector<FoundRows> TakeRows() { return std::exchange(found_rows_, {}); }

  // The chief listens there by now, with that secret. Takes effect with the next Step.
  void Locate(std::string endpoint, std::string secret);
  // When the chief said something last. Before its first word: when this began.
  Time chief_heard() const { return chief_heard_; }
  bool secret_refused() const { return secret_refused_; }

  uint64_t run() const { return run_; }
  // OK while more may come.
  const absl::Status& end() const { return end_; }
  uint64_t rejected() const { return rejected_; }
  // Not before then, while no round is under way.
  Time next_round() const { return next_round_; }

 private:
  // A question for rows.
  struct Question {
    uint64_t number = 0;            // as WantRows got it
    SliceValues keys;               // until it is asked
    SliceValues rows;               // by bucket, ascending; of one that has not answered: empty
    std::optional<PullRound> pull;  // once it is asked
  };

  void On(Started&);
  void On(Tick&);
  void On(Received& received);
  void On(Reconnected& link);
  void On(StopRequested&);
  void On(Malformed&) { ++rejected_; }
  void On(auto&) {}

  void Ask();
  void FromChief(uint64_t run, const Message& message);
  void Adopt(uint64_t run, const Placement& placement);
  absl::Status AdoptJob(const std::string& text);
  void FromPs(PeerId from, const PullReply& reply);
  // Calls visit(pull, map) of the values and of each question that is asked.
  template <typename Visit>
  void ForEachPull(const Visit& visit);
  bool IsOfThisEpoch(const PullReply::Item& item) const;
  bool StoreValues(const PullReply::Item& item);
  bool StoreRows(const PullReply::Item& item, Question* question);
  void BeginRoundIfDue();
  void EndRoundIfComplete();
  void AskQuestions();
  void EndQuestions();
  void Send(PullRound& pull, const PlacementMap& map, PsLink& link);
  void Flush();

  ReaderOptions options_;
  Time now_{};
  Effects* out_ = nullptr;  // of the step at hand

  PeerId chief_{1};         // the connection: another one with each Locate
  uint64_t next_peer_ = 1;  // that no connection has had
  bool has_moved_ = false;  // Locate has not taken effect
  bool secret_refused_ = false;
  Time ask_at_{};
  Time chief_heard_{};
  absl::Status end_;

  uint64_t run_;  // that the rest is of; 0: no chief has placed anything yet
  std::string job_text_;
  std::shared_ptr<const JobSpec> job_;
  std::shared_ptr<const SliceGrid> grid_;
  std::optional<PlacementMap> map_;
  std::optional<PullRound> pull_;  // of the slices of variables
  ParameterSet parameters_;
  bool in_round_ = false;
  Time round_begun_{};  // the last one
  Time timed_from_{};   // likewise; or since then slices moved, for which it had to wait
  Time next_round_{};
  std::array<Duration, 4> lasted_{};  // the last rounds
  size_t rounds_ = 0;
  // The same links as map_ has, by the same placements. But what rows wait for is counted here, so that neither they
  // nor rounds take the other's room at a ps.
  std::optional<PlacementMap> rows_map_;
  std::list<Question> questions_;  // oldest first
  uint64_t questions_asked_ = 0;
  std::vector<FoundRows> found_rows_;
  std::optional<ValueSet> complete_;
  uint64_t rejected_ = 0;
};

}  // namespace downpour
