// What people tell the chief by their tools while it leads: to stop the job, or how many workers it is to have
// (PROTOCOL.md, conversation 12).
//
//   commands.Receive(peer, control);   // answered at once, or once the journal has it
//   commands.Advance();                // after each input
//
// Order: a command is named (term, number) and heeded once, in the order of their numbers. A number of workers is in
//   the journal before it is answered, and before anybody joins or is told to leave for it: so no later chief has
//   another one. What stops the job needs no journal: a chief that comes back before the end leads on, and who gave
//   the command hears no end.
// Errors: none; what cannot be done is answered with one sentence.
// Tests: tests/unit/chief/commands_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "chief/chief_parts.h"
#include "chief/lifecycle.h"

namespace downpour {

class Commands {
 public:
  Commands(ChiefParts& chief, Lifecycle& lifecycle) : chief_(chief), lifecycle_(lifecycle) {}

  void Receive(PeerId from, const Control& command);
  void Advance();

 private:
  std::string WhyNot(const Control& command) const;
  std::string WhyOutdated(const Control& command) const;
  void Stop();
  void Scale();

  ChiefParts& chief_;
  Lifecycle& lifecycle_;
  Control last_;                       // that was heeded; none while chief_.commands is 0
  PeerId asker_ = PeerId::kNone;       // who said it, last
  std::optional<ControlReply> reply_;  // to it; nothing while the journal does not have it
};

}  // namespace downpour
