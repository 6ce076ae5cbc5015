// People with their tools: the job is scaled while it runs, and told to stop. The supervisor follows, as `run` does.
#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/exit_code.h"
#include "tests/sim/crash_scenario.h"

namespace downpour {
namespace {

constexpr Duration kLookEvery = 100ms;

}  // namespace

// The chief, if it leads the job now.
const ChiefRole* CrashScenario::Leader() const {
  if (!running_ || chief_ == Life::kNone || !world_.process(chief_).alive) return nullptr;
  const ChiefRole* chief = world_.process(chief_).chief;
  const bool leads = chief->state() <= JobState::kRunning || chief->state() == JobState::kCancelling;
  return leads && chief->term() != 0 ? chief : nullptr;
}

// As a tool does that has just seen the status: some copies, one of which may come late. For the last one it heard no
// answer, looked at the status and numbered its command again.
void CrashScenario::TellChief(ControlKind kind, uint32_t workers) {
  const ChiefRole* chief = Leader();
  if (chief == nullptr) return;
  const Life tool = world_.StartStranger({kChiefEndpoint});
  Control command = {chief->term(), chief->commands() + 1, prng_.Next(), kind, workers, kSecret};
  for (int copy = 0; copy < 3; ++copy) {
    world_.events().After(copy == 0 ? Duration::zero() : Around(1s), [this, tool, copy, command]() mutable {
      const ChiefRole* now = Leader();
      if (copy == 2 && now != nullptr && now->term() == command.term) command.number = now->commands() + 1;
      if (findings_.ok() && !succeeded_) world_.network().Send(tool, PeerId{1}, command);
    });
  }
}

void CrashScenario::AskForCheckpoint() {
  ++faults_["checkpoint asked for"];
  TellChief(ControlKind::kCheckpoint, 0);
}

void CrashScenario::ScaleJob() {
  ++faults_["scaled"];
  TellChief(ControlKind::kScale, static_cast<uint32_t>(1 + prng_.Below(plan_.job.cluster.worker_count + 2)));
}

void CrashScenario::StopByCommand() {
  if (!stopping_ || !running_ || calm_) return;
  const ChiefRole* chief = Leader();
  if (chief != nullptr && chief->state() != JobState::kCancelling) TellChief(ControlKind::kStop, 0);
  world_.events().After(Around(1s), [this, boot = boot_] {
    if (boot == boot_) StopByCommand();
  });
}

bool CrashScenario::IsWanted(const Task& task) const {
  return !task.start.endpoint.empty() || task.start.number < workers_;
}

void CrashScenario::FollowWorkerCount() {
  world_.events().After(kLookEvery, [this] {
    if (succeeded_) return;
    if (const ChiefRole* chief = Leader(); chief != nullptr && chief->state() != JobState::kCancelling) {
      workers_ = chief->worker_count();
      for (int i = 0; i < workers_; ++i) StartWorkerIfAway(i);
    }
    for (const Life life : checker().TakeRetired()) ExpectGone(life, 25s);
    LookForUnwanted();
    FollowWorkerCount();
  });
}

void CrashScenario::StartWorkerIfAway(int number) {
  const std::string name = absl::StrCat("worker-", number);
  Task& task = tasks_[name];
  if (task.due || (task.life != Life::kNone && world_.process(task.life).alive)) return;
  if (task.life == Life::kNone) task.start = {name, number, number, "supervisor", 0, ""};
  ++task.start.attempt;
  StartTaskSoon(name);
}

// What people asked for is no failure: its supervisor would start the worker again.
void CrashScenario::CheckRetired(const Process& worker, int code, const std::string& why) {
  const bool was_told = CheckerOf(worker).IsRetired(worker.life) && code == kExitSignalled;
  const ChiefRole* leader = Leader();  // another run's job says nothing of its own
  const bool had_place = plan_.faults.scale > Duration::zero() && worker.worker != nullptr && leader != nullptr &&
                         RunOf(worker) == RunOf(world_.process(chief_));
  const bool lacks_place = had_place && code == kExitFailed && absl::StrContains(why, "there is no worker-");
  if (was_told || lacks_place)
    findings_.Add(absl::StrCat(worker.name, " calls it a failure that it is retired: ", why));
}

// A worker that the job does without is told so, sooner or later.
void CrashScenario::LookForUnwanted() {
  for (const auto& [name, task] : tasks_) {
    const bool stays = calm_ && Leader() != nullptr && !IsWanted(task) && task.life != Life::kNone &&
                       world_.process(task.life).alive && !world_.process(task.life).paused;
    if (!stays) {
      unwanted_since_.erase(task.life);
    } else if (world_.now() >
               unwanted_since_.emplace(task.life, world_.now()).first->second + 4 * plan_.timing.dead_after + 30s) {
      findings_.Add(absl::StrCat(name, " stays, though the job has ", workers_, " workers"));
    }
  }
}

}  // namespace downpour
