#include "cluster/job_command.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/follow_job.h"
#include "cluster/human_units.h"
#include "runtime/posix/process.h"

namespace downpour {
namespace {

// A chief that reads its folder, or comes back, and tools that say something at the same time.
constexpr auto kAcceptedWithin = std::chrono::seconds(30);
constexpr int kLookAgainMs = 100;
constexpr uint64_t kMostCommands = uint64_t{1} << 53;  // that JSON tells exactly

// As a status says it, which may say anything.
uint64_t AtMost(uint64_t most, const MaybeCount& count) { return std::min(count.value_or(0), most); }

}  // namespace

absl::StatusOr<CommandOutcome> CommandJob(StatusAsker& asker, ControlKind kind, uint32_t workers) {
  const auto until = std::chrono::steady_clock::now() + kAcceptedWithin;
  Control command{.nonce = RandomNonce(), .kind = kind, .workers = workers};
  std::string why = "it still reads its folder";
  bool was_said = false;
  while (std::chrono::steady_clock::now() < until) {
    absl::StatusOr<Answer> answer = asker.Ask();
    if (absl::IsUnavailable(answer.status()) && asker.has_heard()) {  // it may have died, and be back in a moment
      why = std::string(answer.status().message());
      poll(nullptr, 0, kLookAgainMs);
      continue;
    }
    if (!answer.ok()) return answer.status();
    if (IsOver(*answer)) {
      return CommandOutcome{.words = "", .before = *std::move(answer), .was_over = true, .was_said = was_said};
    }
    command.term = static_cast<uint32_t>(AtMost(UINT32_MAX, answer->status->chief.term));
    if (!answer->status->chief.commands) {
      return absl::FailedPreconditionError("the chief takes no commands: it is of an earlier release");
    }
    command.number = AtMost(kMostCommands, answer->status->chief.commands) + 1;
    if (command.term != 0) {  // else it still reads its folder
      absl::StatusOr<ControlReply> reply = asker.Tell(command);
      if (absl::IsPermissionDenied(reply.status())) return reply.status();
      if (!reply.ok()) {
        was_said = true;
        why = std::string(reply.status().message());
      } else if (reply->verdict == ControlVerdict::kAccepted) {
        return CommandOutcome{.words = Printable(reply->why), .before = *std::move(answer), .term = command.term};
      } else if (reply->verdict == ControlVerdict::kRefused) {
        absl::StatusOr<Answer> now = asker.Ask();  // it may be over since the last look
        if (now.ok() && IsOver(*now)) return CommandOutcome{.words = "", .before = *std::move(now), .was_over = true};
        return absl::FailedPreconditionError(absl::StrCat("the chief refuses: ", Printable(reply->why)));
      } else {
        why = Printable(reply->why);
      }
    }
    poll(nullptr, 0, kLookAgainMs);
  }
  return absl::UnavailableError(absl::StrCat("the chief has not accepted it: ", why));
}

}  // namespace downpour
