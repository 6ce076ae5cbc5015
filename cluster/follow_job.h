// FollowToEnd: asks how a job goes until it has ended, though its chief may die and another one lead it on.
//
//   StatusAsker asker(source, 200ms);       // a watcher, so the chief tells it unasked how the job ended
//   absl::StatusOr<Answer> end = FollowToEnd(asker, {.verb = "watch", .err = std::cerr}, show);
//
// Errors: those of StatusAsker. UNAVAILABLE only if no chief ever answered, or if none has answered for `patience`: a
//   chief that has died has not ended its job. What `look` returns.
// Tests: tests/unit/cluster/follow_job_test.cc.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/status_source.h"

namespace downpour {

struct Following {
  std::string verb;  // that says on `err` that it waits for a chief
  std::ostream& err;
  std::chrono::milliseconds patience = std::chrono::seconds(30);
};

// `look` sees each answer, the last one too. An error from it ends the following.
absl::StatusOr<Answer> FollowToEnd(StatusAsker& asker, const Following& following,
                                   const std::function<absl::Status(const Answer&)>& look);

// Whether the job is over, as an answer tells it.
bool IsOver(const Answer& answer);

// How it ended, by whoever tells: its chief, or its summary. Lives as long as the answer.
struct JobEnding {
  const std::string &job, &state, &error;
  const MaybeCount& exit_code;  // of its chief
};
JobEnding EndingOf(const Answer& end);
// "digits CANCELLED: ended by downpour stop. ...", of a job that is over.
std::string EndLine(const Answer& end);

}  // namespace downpour
