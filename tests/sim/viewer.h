// Viewer: a process that reads the model while it is trained. It drives the reader's role as predict/live_feed does,
// asks for rows of tables at random, and gives some of those questions up.
//
//   Viewer viewer({.reader = {.chief = "chief-host:7001"}, .plan = plan.readers, .oracle = &oracle, .seed = 7,
//                  .look = [&] { ...where the job's folder says that the chief is... }});
//   viewer.Step(now, Started{}, effects);
//   if (viewer.values()) ...a whole set came in that Step...
//
// Order: what it shows is of the newest Step alone. After its end it does nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reader/reader_role.h"
#include "runtime/prng.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/oracle.h"

namespace downpour {

class Viewer final : public Role {
 public:
  // What the job's folder says of its chief.
  struct Place {
    std::string endpoint;  // empty: none has said anything yet
    std::string secret;
    bool is_over = false;  // the job has ended for good
  };
  struct Options {
    ReaderOptions reader;
    ReaderPlan plan;
    const Oracle* oracle = nullptr;
    uint64_t seed = 0;
    std::function<Place()> look;
  };
  struct Question {
    SliceValues keys;
    Time asked;
  };
  struct Answer {
    uint64_t number = 0;
    std::optional<Question> question;  // none: nobody waits for that number
    SliceValues rows;
  };

  explicit Viewer(Options options);
  void Step(Time now, Input input, Effects& effects) override;

  // Of the newest Step.
  const std::optional<ValueSet>& values() const { return values_; }
  const std::vector<Answer>& answers() const { return answers_; }

  uint64_t run() const { return reader_.run(); }
  // The training that it was given, or found first; it follows no other.
  uint64_t first_run() const { return first_run_; }
  Time next_round() const { return reader_.next_round(); }
  // The newest that it was given, of its run; without number: none yet.
  const Placement& placement() const { return placement_; }
  Time moved() const { return moved_; }  // when it was given the newest that has slices in other epochs
  const std::map<uint64_t, Question>& questions() const { return questions_; }  // that it waits for
  // What it asked last, by connection.
  const std::map<PeerId, Pull>& asked() const { return asked_; }
  uint64_t sets() const { return sets_; }
  uint64_t rows() const { return rows_; }    // questions that were answered
  uint64_t moves() const { return moves_; }  // how often it found the chief elsewhere

 private:
  void Follow(Time now, const Received& received);
  void AskOrForget(Time now);
  SliceValues SomeKeys();
  void Take();
  void Look(Time now, Effects& effects);
  void End(const std::string& why, Effects& effects);
  Duration Around(Duration mean);

  const Options options_;
  Prng prng_;
  ReaderRole reader_;
  uint64_t first_run_;
  PeerId chief_ = PeerId::kNone;  // the connection
  Place place_;                   // as the role was told it last
  bool has_moved_ = false;        // and the role has not acted on it
  bool has_ended_ = false;
  Time look_at_{};
  Placement placement_;
  Time moved_{};
  std::map<PeerId, Pull> asked_;
  std::map<uint64_t, Question> questions_;
  uint64_t last_question_ = 0;
  std::optional<Time> ask_at_, forget_at_;
  std::optional<ValueSet> values_;
  std::vector<Answer> answers_;
  uint64_t sets_ = 0, rows_ = 0, moves_ = 0;
};

}  // namespace downpour
