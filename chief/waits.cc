#include "chief/waits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/input_bound.h"
#include "schema/text.h"

namespace downpour {
namespace {

// A wait shorter than this is how things go.
constexpr Duration kWorthTelling = 1s;
// Of the reasons why a job stands still, and of the tasks that have one.
constexpr size_t kMostReasons = 3;
constexpr size_t kMostNames = 4;

// What it warned of since it waits, which most likely is why.
std::string WarnedMeanwhile(const Task& task) { return task.warned_at >= task.waiting_since ? task.warning : ""; }

std::string WhyPending(const ChiefView& chief, const Task& task) {
  switch (task.state) {
    case TaskState::kPending:
      return "has not joined yet";
    case TaskState::kLost:
      return "is dead; waiting for another process in its place";
    case TaskState::kLeft:
      return "left; waiting for another process in its place";
    case TaskState::kRefused:
      return std::string(absl::StripPrefix(task.refusal.why, task.name + " "));  // the name stands beside it
    case TaskState::kRunning:
      return "";
    case TaskState::kPreparing:
      break;
  }
  if (task.role == TaskRole::kPs && !chief.placement.placed()) {
    const auto& tasks = chief.members.tasks();
    const auto missing = std::find_if(tasks.begin(), tasks.end(),
                                      [](const Task& one) { return one.role == TaskRole::kPs && !one.alive(); });
    if (missing != tasks.end()) return absl::StrCat("waits until ", missing->name, " is there, too");
  }
  if (task.placement_number == 0 && task.work_request > 0) return "";  // it asks for work, and beats so the next time
  if (!task.stats.waiting_for.empty()) {
    const std::string warned = WarnedMeanwhile(task);
    return absl::StrCat("waits for ", task.stats.waiting_for, warned.empty() ? "" : ": " + warned);
  }
  if (task.role == TaskRole::kPs) return chief.placement.placed() ? "installs its slices" : "has no slices yet";
  return task.data_good ? "waits for all slices to be in place" : "reads its data";
}

bool LacksWork(const ChiefView& chief, const Task& task) {
  return task.role == TaskRole::kWorker && task.state == TaskState::kRunning && chief.work.any() &&
         chief.ledger.Wants(task.incarnation) && chief.ledger.HeldBy(task.incarnation).empty();
}

// With ssp and sync, of a worker without work: whose lease its group waits for.
std::string WhoHoldsItUp(const ChiefView& chief, const Task& task) {
  const std::optional<LeaseLedger::Granted> by = chief.ledger.HeldUpBy();
  const Task* holder = by && LacksWork(chief, task) ? chief.members.Find(by->worker) : nullptr;
  return holder == nullptr ? "" : absl::StrCat(holder->name, " has not finished lease ", ToNumber(by->lease));
}

// Waits of tasks that are there.
void AddOfTasks(const ChiefView& chief, std::vector<WaitReport>* waits) {
  const auto add = [&](const Task& task, std::string why, Time since) {
    const Duration waited = chief.context.now - since;
    if (waited >= kWorthTelling) {
      waits->push_back({task.name, task.stats.waiting_for, std::move(why), Seconds(waited)});
    }
  };
  for (const Task& task : chief.members.tasks()) {
    if (!task.alive() || WaitsForNothing(task.stats)) continue;
    if (!task.leaving.empty()) {
      const std::string& blocked_by = chief.departures.blocked_by();
      const bool blocks = task.role == TaskRole::kPs && !task.may_leave() && !blocked_by.empty();
      add(task, absl::StrCat("was told to stop: ", task.leaving, blocks ? "; " + blocked_by : ""), task.leaving_since);
    } else if (task.state == TaskState::kRunning) {
      const std::string held_up = WhoHoldsItUp(chief, task);
      add(task, held_up.empty() ? WarnedMeanwhile(task) : held_up, task.waiting_since);
    }
  }
}

// Waits of the chief, for tasks.
void AddOfChief(const ChiefView& chief, std::vector<WaitReport>* waits) {
  const auto add = [&](const std::string& on, std::string why, Time since) {
    const Duration waited = chief.context.now - since;
    if (waited >= kWorthTelling) waits->push_back({"chief", on, std::move(why), Seconds(waited)});
  };
  for (const auto& [id, server] : chief.placement.servers()) {
    const Task* task = chief.members.FindNamed(server.name);
    if (task != nullptr && !task->alive()) {
      add(server.name, absl::StrCat("is gone, with ", Counted(server.slices.size(), "slice")), task->heard);
    } else if (const SliceRestore::Missing missing = chief.restore.MissingOf(id); missing.slices != 0) {
      add(server.name, absl::StrCat("has not reported ", Counted(missing.slices, "slice")), missing.since);
    }
  }
  for (const CheckpointRounds::Wait& wait : chief.rounds.Waits()) {
    add(wait.task, absl::StrCat("has not sent the records of ", Counted(wait.slices, "slice")), wait.since);
  }
}

// "worker-0, worker-1 and 7 more".
std::string Names(std::vector<std::string> names) {
  const size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

}  // namespace

std::vector<PendingReport> PendingOf(const ChiefView& chief) {
  std::vector<PendingReport> pending;
  if (chief.life.ended()) return pending;
  for (const Task& task : chief.members.tasks()) {
    if (chief.members.IsRetired(task)) continue;
    if (std::string why = WhyPending(chief, task); !why.empty()) pending.push_back({task.name, std::move(why)});
  }
  return pending;
}

std::vector<WaitReport> WaitsOf(const ChiefView& chief) {
  std::vector<WaitReport> waits;
  if (!chief.journal.error().empty()) waits.push_back({"chief", "its disk", chief.journal.error(), std::nullopt});
  if (chief.life.ended()) return waits;
  AddOfChief(chief, &waits);
  AddOfTasks(chief, &waits);
  return waits;
}

std::string WhyItStandsStill(const ChiefView& chief) {
  if (!chief.work.any() || !chief.progress.StandsStill(chief.context.now)) return "";
  // Whoever has no work waits for those who cannot do theirs.
  std::map<std::string, std::vector<std::string>> waiting;
  for (const Task& task : chief.members.tasks()) {
    const bool at_work = task.role == TaskRole::kWorker && task.state == TaskState::kRunning;
    if (!at_work || task.stats.waiting_for.empty() || IsSpare(chief, task)) continue;
    const std::string warned = WarnedMeanwhile(task);
    waiting[absl::StrCat(task.stats.waiting_for, warned.empty() ? "" : ": " + warned)].push_back(task.name);
  }
  std::vector<std::string> sentences = {
      absl::StrFormat("nothing has moved for %.0f s", Seconds(chief.progress.StillFor(chief.context.now)))};
  for (const auto& [reason, tasks] : waiting) {
    sentences.push_back(absl::StrCat(Names(tasks), tasks.size() == 1 ? " waits for " : " wait for ", reason));
  }
  for (const PendingReport& pending : PendingOf(chief))
    sentences.push_back(absl::StrCat(pending.task, " ", pending.why));
  sentences.resize(std::min(sentences.size(), 1 + kMostReasons));
  return absl::StrJoin(sentences, "; ");
}

std::string WhyAWorkerWaits(const Membership& members) {
  for (const Task& task : members.tasks()) {
    if (task.role != TaskRole::kWorker || !task.alive() || task.stats.waiting_for.empty()) continue;
    const std::string warned = WarnedMeanwhile(task);
    if (!warned.empty()) return absl::StrCat(task.name, " waits for ", task.stats.waiting_for, ": ", warned);
  }
  return "";
}

bool IsSpare(const ChiefView& chief, const Task& task) { return LacksWork(chief, task) && !chief.ledger.HeldUpBy(); }

}  // namespace downpour
