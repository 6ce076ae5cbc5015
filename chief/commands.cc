#include "chief/commands.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_reader.h"
#include "runtime/descriptor_need.h"
#include "schema/text.h"

namespace downpour {

void Commands::Receive(PeerId from, const Control& command) {
  if (!chief_.life.ready()) return;  // it does not know its number yet, and whoever needs an answer asks again
  if (command.term == chief_.life.term && AnswerAgain(from, command)) return;
  const auto decline = [&](ControlVerdict verdict, std::string why) {
    chief_.context.out.SendTo(from, ControlReply{command.nonce, verdict, std::move(why)});
  };
  if (std::string why = WhyOutdated(command); !why.empty()) return decline(ControlVerdict::kOutdated, std::move(why));
  if (std::string why = WhyNot(command); !why.empty()) return decline(ControlVerdict::kRefused, std::move(why));
  ++chief_.counts.commands;
  if (command.kind == ControlKind::kStop) {
    chief_.lifecycle.Stop({SIGTERM, "downpour stop"});
    Accept(from, command, "the job ends as CANCELLED after one last checkpoint");
  } else if (command.kind == ControlKind::kCheckpoint) {
    chief_.interval.WantRound();
    Accept(from, command, "a checkpoint of all that is committed by now begins");
  } else {
    scaling_ = {command, from};
    chief_.journal.record().workers = command.workers;
  }
  Advance();
}

// Conversation 12: a command is obeyed once, however it is numbered: others may have come between it and its repeat.
bool Commands::AnswerAgain(PeerId from, const Control& command) {
  if (scaling_ && scaling_->command.nonce == command.nonce) {
    scaling_->asker = from;  // it hears of it once the journal has it
    return true;
  }
  const auto known = std::find_if(accepted_.begin(), accepted_.end(),
                                  [&](const ControlReply& reply) { return reply.nonce == command.nonce; });
  if (known == accepted_.end()) return false;
  chief_.context.out.SendTo(from, *known);
  return true;
}

std::string Commands::WhyOutdated(const Control& command) const {
  if (command.term != chief_.life.term) return absl::StrCat("another chief leads now, of term ", chief_.life.term);
  if (command.number != chief_.counts.commands + 1) return "another command came first";
  // Two at once could not be told apart by what the journal has.
  if (command.kind == ControlKind::kScale && scaling_) {
    const std::string& error = chief_.journal.error();
    return absl::StrCat("the command before is not in the journal yet", error.empty() ? "" : ": ", error);
  }
  return "";
}

std::string Commands::WhyNot(const Control& command) const {
  if (chief_.life.ended()) return absl::StrCat("the job is over: ", NameOf(chief_.life.state));
  if (command.kind == ControlKind::kStop) return "";
  if (chief_.life.state == JobState::kCancelling) return "the job is being stopped";
  if (command.kind == ControlKind::kCheckpoint) {
    return chief_.life.state == JobState::kRunning ? "" : "the job does not run yet, and has nothing to write";
  }
  if (command.workers < 1 || command.workers > kMostTasks) {
    return absl::StrCat("a job has 1 to ", kMostTasks, " workers, not ", command.workers);
  }
  return command.workers > chief_.members.worker_count() ? WhyTooMany(command.workers) : "";
}

// As at a start. Where one process starts all tasks, a ps may have as many open files as the chief.
std::string Commands::WhyTooMany(uint32_t workers) const {
  ClusterSpec cluster = chief_.options.job.cluster;
  cluster.worker_count = workers;
  const bool same_limit = chief_.options.starts == ChiefOptions::Starts::kBySupervisor;
  for (const TaskRole role : {TaskRole::kChief, TaskRole::kPs}) {
    if (role == TaskRole::kPs && !same_limit) continue;
    const absl::Status enough = CheckDescriptors(role, cluster, chief_.options.descriptors);
    if (!enough.ok()) return absl::StrCat("of the ", NameOf(role), ": ", MessageOf(enough));
  }
  return "";
}

void Commands::Advance() {
  chief_.members.DropRetired();
  if (!scaling_ || chief_.journal.durable_workers() != scaling_->command.workers) return;
  const Scaling done = *std::exchange(scaling_, std::nullopt);
  Accept(done.asker, done.command, Scale(done.command.workers));
}

void Commands::Accept(PeerId asker, const Control& command, std::string why) {
  if (accepted_.size() == kMostAnswers) accepted_.pop_front();
  accepted_.push_back({command.nonce, ControlVerdict::kAccepted, std::move(why)});
  chief_.context.out.SendTo(asker, accepted_.back());
}

// What to tell of it.
std::string Commands::Scale(uint32_t workers) {
  const int64_t before = chief_.members.worker_count();
  chief_.members.SetWorkerCount(int64_t{workers});
  const std::string what = absl::StrCat("the job wants ", Counted(workers, "worker"), " now, and wanted ", before);
  chief_.context.out.Info(what);
  int missing = 0, retired = 0;
  for (const Task& task : chief_.members.tasks()) {
    if (task.role != TaskRole::kWorker) continue;
    const bool is_retired = chief_.members.IsRetired(task);
    retired += is_retired && task.alive();
    missing += !is_retired && !task.alive();
  }
  if (retired > 0) return what + "; those with the highest numbers leave in good order";
  return missing > 0 ? absl::StrCat(what, "; ", missing, " more may join") : what;
}

}  // namespace downpour
