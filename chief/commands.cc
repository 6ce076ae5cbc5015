#include "chief/commands.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "schema/job_reader.h"
#include "schema/text.h"

namespace downpour {

void Commands::Receive(PeerId from, const Control& command) {
  if (!lifecycle_.ready()) return;  // it does not know its number yet, and whoever needs an answer asks again
  const bool is_here = command.term == chief_.term;
  // Of one tool, whatever its number: one that heard no answer looks at the status, and may number it anew.
  if (is_here && chief_.commands > 0 && command.nonce == last_.nonce) {
    asker_ = from;
    if (reply_) chief_.turn.out.SendTo(from, *reply_);
    return;
  }
  const auto decline = [&](ControlVerdict verdict, std::string why) {
    chief_.turn.out.SendTo(from, ControlReply{command.nonce, verdict, std::move(why)});
  };
  if (std::string why = WhyOutdated(command); !why.empty()) return decline(ControlVerdict::kOutdated, std::move(why));
  if (std::string why = WhyNot(command); !why.empty()) return decline(ControlVerdict::kRefused, std::move(why));
  ++chief_.commands;
  last_ = command;
  asker_ = from;
  reply_.reset();
  if (command.kind == ControlKind::kStop) {
    Stop();
  } else {
    chief_.journal.record().workers = command.workers;
  }
  Advance();
}

std::string Commands::WhyOutdated(const Control& command) const {
  if (command.term != chief_.term) return absl::StrCat("another chief leads now, of term ", chief_.term);
  if (command.number != chief_.commands + 1) return "another command came first";
  // Two at once could not be told apart by what the journal has.
  if (command.kind == ControlKind::kScale && chief_.commands > 0 && !reply_) {
    const std::string& error = chief_.journal.error();
    return absl::StrCat("the command before is not in the journal yet", error.empty() ? "" : ": ", error);
  }
  return "";
}

std::string Commands::WhyNot(const Control& command) const {
  if (chief_.ended()) return absl::StrCat("the job is over: ", NameOf(chief_.state));
  if (command.kind == ControlKind::kStop) return "";
  if (chief_.state == JobState::kCancelling) return "the job is being stopped";
  if (command.workers < 1 || command.workers > kMostTasks) {
    return absl::StrCat("a job has 1 to ", kMostTasks, " workers, not ", command.workers);
  }
  return "";
}

void Commands::Advance() {
  chief_.members.DropRetired();
  if (chief_.commands == 0 || reply_ || chief_.journal.durable_workers() != last_.workers) return;
  Scale();
}

void Commands::Stop() {
  lifecycle_.Stop({SIGTERM, "downpour stop"});
  reply_ = {last_.nonce, ControlVerdict::kAccepted, "the job ends as CANCELLED after one last checkpoint"};
  chief_.turn.out.SendTo(asker_, *reply_);
}

void Commands::Scale() {
  const int64_t before = chief_.members.worker_count();
  const auto now = int64_t{last_.workers};
  chief_.members.SetWorkerCount(now);
  const std::string what =
      absl::StrCat("the job wants ", Counted(last_.workers, "worker"), " now, and wanted ", before);
  const std::string next = now > before   ? absl::StrCat("; ", now - before, " more may join")
                           : now < before ? "; those with the highest numbers leave in good order"
                                          : "";
  chief_.turn.out.Info(what);
  reply_ = {last_.nonce, ControlVerdict::kAccepted, what + next};
  chief_.turn.out.SendTo(asker_, *reply_);
}

}  // namespace downpour
