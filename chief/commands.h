// What people tell the chief by their tools while it leads: to stop the job, to write a checkpoint now, or how many
// workers it is to have (PROTOCOL.md, conversation 12).
//
//   commands.Receive(peer, control);   // answered at once, or once the journal has it
//   commands.Advance();                // after each input
//
// Order: a command is named (term, number) and obeyed once, in the order of their numbers. Its nonce names it too: a
//   tool that heard no answer may give it another number. A number of workers is in the journal before it is answered,
//   and before anybody joins or is told to leave for it. So no later chief has another one. A stop meanwhile does not
//   take it back, and it is answered as soon as the journal has it. A stop is in no journal: if the chief dies before
//   the end, the next one leads on until it is told too. Nor is a checkpoint.
// Errors: none; what cannot be done is answered with one sentence.
// Tests: tests/unit/chief/commands_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "chief/chief_view.h"
#include "chief/folder/journal.h"
#include "chief/known/checkpoint_interval.h"
#include "chief/known/job_life.h"
#include "chief/known/membership.h"
#include "chief/known/step_context.h"
#include "chief/lifecycle.h"

namespace downpour {

class Commands {
 public:
  struct Parts {
    StepContext& context;
    const ChiefOptions& options;
    const JobLife& life;
    ChiefCounts& counts;
    Journal& journal;
    Membership& members;
    CheckpointInterval& interval;
    Lifecycle& lifecycle;
  };
  explicit Commands(const Parts& chief) : chief_(chief) {}

  // Answers that are known. A tool repeats its command for 30 s at most.
  static constexpr size_t kMostAnswers = 256;

  void Receive(PeerId from, const Control& command);
  void Advance();

 private:
  struct Scaling {
    Control command;
    PeerId asker;  // who said it, last
  };
  bool AnswerAgain(PeerId from, const Control& command);
  std::string WhyNot(const Control& command) const;
  std::string WhyTooMany(uint32_t workers) const;
  std::string WhyOutdated(const Control& command) const;
  void Accept(PeerId asker, const Control& command, std::string why);
  std::string Scale(uint32_t workers);

  const Parts chief_;
  std::optional<Scaling> scaling_;     // that waits for the journal: one at a time
  std::deque<ControlReply> accepted_;  // of the newest commands that were obeyed, oldest first
};

}  // namespace downpour
