#include "cluster/follow_job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/human_units.h"

namespace downpour {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Waits for a chief that has answered before: it may have died and be back in a moment.
class Patience {
 public:
  explicit Patience(const Following& following) : following_(following) {}

  void Answered() { silent_ = false; }
  // Whether to ask again; says so once.
  bool Lasts(const absl::Status& status) {
    if (!absl::IsUnavailable(status)) return false;
    const auto now = SteadyClock::now();
    if (!std::exchange(silent_, true)) {
      until_ = now + following_.patience;
      following_.err << "downpour " << following_.verb << ": no answer, and asks again for "
                     << std::chrono::duration_cast<std::chrono::seconds>(following_.patience).count()
                     << " s: " << Printable(std::string(status.message())) << std::endl;
    }
    return now < until_;
  }

 private:
  const Following& following_;
  bool silent_ = false;
  SteadyClock::time_point until_;
};

}  // namespace

absl::StatusOr<Answer> FollowToEnd(StatusAsker& asker, const Following& following,
                                   const std::function<absl::Status(const Answer&)>& look) {
  Patience patience(following);
  while (true) {
    absl::StatusOr<Answer> answer = asker.Ask();
    if (answer.ok()) {
      patience.Answered();
      if (const absl::Status seen = look(*answer); !seen.ok()) return seen;
      if (IsOver(*answer)) return answer;
    } else if (!asker.has_heard() || !patience.Lasts(answer.status())) {
      return answer.status();
    }
    asker.Pause();
  }
}

bool IsOver(const Answer& answer) { return answer.summary.has_value() || HasEnded(*answer.status); }

JobEnding EndingOf(const Answer& end) {
  const auto of = [](const auto& view) { return JobEnding{view.job, view.state, view.error, view.exit_code}; };
  return end.status ? of(*end.status) : of(*end.summary);
}

std::string EndLine(const Answer& end) {
  const auto& [job, state, error, exit_code] = EndingOf(end);
  return absl::StrCat(job, " ", state, error.empty() ? "" : ": " + error);
}

}  // namespace downpour
