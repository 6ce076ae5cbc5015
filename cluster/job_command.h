// What a person wants of a running job, said to whichever chief leads it until one has accepted it.
//
//   StatusAsker asker({.job_dir = "runs/first"});
//   absl::StatusOr<CommandOutcome> done = CommandJob(asker, ControlKind::kScale, 6);
//
// Order: a command is named by the chief's term and by how many it has obeyed, as its status says; where another chief,
//   or another command, came between, the status is looked at again and the command said again.
// Errors: those of StatusAsker; a chief that has answered once and is silent then is asked again for 30 s.
//   FAILED_PRECONDITION with the chief's sentence where it cannot be done.
// Tests: tests/unit/cluster/job_command_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/status_source.h"

namespace downpour {

struct CommandOutcome {
  std::string words;  // of the chief that accepted it
  Answer before;      // the status, as it was then; or of a job that is over, and takes no command, how it ended
  uint32_t term = 0;  // of that chief
  bool was_over = false;
  bool was_said = false;  // it is over, and some chief may have obeyed and its answer was lost
};
absl::StatusOr<CommandOutcome> CommandJob(StatusAsker& asker, ControlKind kind, uint32_t workers = 0);

}  // namespace downpour
