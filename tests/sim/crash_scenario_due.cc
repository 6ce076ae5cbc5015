// What is due in a calm cluster: that it gets on, takes everybody in, gives work, writes checkpoints and ends.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "chief/known/checkpoint_interval.h"
#include "tests/sim/crash_scenario.h"

namespace downpour {

// For whatever is tried again after some silence, or begins with a process that is started again.
Duration CrashScenario::Patience() const { return 30s + 8 * plan_.timing.dead_after + 2 * plan_.start_within; }

// What one worker needs for all of the job, the slowest one, with every slice's values and gradient under way alone.
Duration CrashScenario::LongestCalm() const {
  const Duration way = plan_.network.delay + plan_.network.spread;
  // With tables the keys are found first, or amid the step, at most twice.
  const int64_t turns = !oracle_.job().model.has_tables() ? 1 : plan_.device.asks_amid ? 4 : 2;
  const Duration turn =
      std::chrono::duration_cast<Duration>((plan_.device.least + plan_.device.spread) * plan_.device.slow_worker) +
      4 * way * oracle_.grid().size();
  const Duration step = turns * turn;
  const TrainingSpec& training = oracle_.job().training;
  // What is pulled ahead may be too stale by then, each time; so may what is computed again between later steps.
  // A push that kills its ps does so twice, and each time all that no checkpoint has is computed again.
  const uint64_t computed = (training.max_staleness ? 2 : 1) + (plan_.oracle.poison ? 2 : 0);
  return Patience() + 2 * plan_.timing.dead_after + computed * oracle_.plan().total_steps() * step;
}

void CrashScenario::Due(const std::string& what, bool is_due, Duration patience) {
  if (!calm_ || !is_due) {
    due_since_.erase(what);
  } else if (world_.now() > due_since_.emplace(what, world_.now()).first->second + patience) {
    findings_.Add(absl::StrCat(what, " for ", Seconds(patience), " s in a calm cluster"));
  }
}

void CrashScenario::LookForProgress() {
  world_.events().After(1s, [this] {
    if (succeeded_) return;
    const bool led = running_ && chief_ != Life::kNone && world_.process(chief_).alive;
    uint64_t progress = static_cast<uint64_t>(boot_);
    if (checker().durable().has_value()) progress += checker().durable()->committed.Count();
    if (led) progress += world_.process(chief_).chief->committed().Count();
    if (led && calm_) {
      const Process& chief = world_.process(chief_);
      LookForIdlers(chief);
      LookForStrangers(chief);
      LookForRounds(chief);
      LookForSkips(chief);
      LookForReaders(chief);
    }
    if (progress != progress_) progress_at_ = world_.now();
    progress_ = progress;
    if (calm_ && world_.now() > progress_at_ + Patience()) {
      findings_.Add(absl::StrCat("no progress for ", Seconds(Patience()), " s in a calm cluster"));
    } else if (calm_ && world_.now() > calm_since_ + LongestCalm()) {
      findings_.Add(absl::StrCat("a calm cluster is not done after ", Seconds(LongestCalm()), " s"));
    }
    LookForProgress();
  });
}

void CrashScenario::LookForIdlers(const Process& process) {
  const ChiefRole& chief = *process.chief;
  const uint64_t reach = std::min(chief.goal(), oracle_.plan().ReachFrom(chief.committed().FirstMissing(0)));
  uint64_t taken = 0;  // of the leases within reach
  for (const IntervalSet::Interval& run : chief.committed().Intervals()) {
    if (run.begin < reach) taken += std::min(run.end, reach) - run.begin;
  }
  for (const auto& [lease, holder] : chief.holders()) taken += ToNumber(lease) < reach;
  const bool open = chief.state() == JobState::kRunning && taken < reach;
  for (const Life life : world_.Alive(TaskRole::kWorker)) {
    const WorkerRole& worker = *world_.process(life).worker;
    const bool idle =
        worker.incarnation() != Incarnation::kNone && worker.holding().empty() && !worker.stats().waiting_for.empty();
    Due(absl::StrCat(world_.process(life).name, "#", static_cast<uint32_t>(life), " has no work while leases are open"),
        open && idle, 4 * plan_.timing.dead_after + 5s);
  }
}

// Every process works, or ends.
void CrashScenario::LookForStrangers(const Process& process) {
  const ChiefRole& chief = *process.chief;
  const bool takes_in = chief.term() != 0 && chief.state() <= JobState::kRunning;
  std::set<Life> unwanted;  // which crash_scenario_commands.cc looks for
  for (const auto& [name, task_at] : tasks_) {
    if (!IsWanted(task_at)) unwanted.insert(task_at.life);
  }
  for (const TaskRole role : {TaskRole::kPs, TaskRole::kWorker}) {
    const std::vector<Incarnation> members = chief.alive(role);
    for (const Life life : world_.Alive(role)) {
      const Process& task = world_.process(life);
      const Incarnation one = task.ps != nullptr ? task.ps->incarnation() : task.worker->incarnation();
      const bool is_member = std::ranges::find(members, one) != members.end();
      Due(absl::StrCat(task.name, "#", static_cast<uint32_t>(life), " is no member, and stays"),
          takes_in && !is_member && !task.paused && !unwanted.contains(life), 8 * plan_.timing.dead_after + 10s);
    }
  }
}

// One that has begun becomes durable, or makes room for one that does.
void CrashScenario::LookForRounds(const Process& process) {
  const ChiefRole& chief = *process.chief;
  const auto& durable = checker().durable();
  const Round newest = durable ? durable->round : Round();
  const bool is_new = newest != newest_round_;
  newest_round_ = newest;
  const Duration every = process.job.checkpoint.every.value_or(Duration::zero());  // else the chief chooses
  const bool periodic = chief.state() == JobState::kRunning && chief.all_reported() && every > Duration::zero() &&
                        !chief.committed().CoversRange(0, chief.goal());
  Due("no checkpoint becomes durable", periodic && !is_new,
      every + Patience() + 4 * plan_.disk_delay * oracle_.grid().size());
  const bool owes = chief.state() == JobState::kRunning && chief.all_reported() && checker().OwesCheckpoint(chief_);
  Due("a checkpoint that a person asked for is not written", owes,
      CheckpointInterval::kMostAfterAbandoned + Patience() + 4 * plan_.disk_delay * oracle_.grid().size());
}

// By what its members count while they live, which heartbeats tell; a link that was cut is made again once its end is
// held dead. What records hold beside that counts when a round has them.
void CrashScenario::LookForSkips(const Process& process) {
  const std::vector<Incarnation> members = process.chief->alive(TaskRole::kPs);
  uint64_t skips = 0;
  for (const Life life : world_.Alive(TaskRole::kPs)) {
    const PsRole& ps = *world_.process(life).ps;
    if (std::ranges::find(members, ps.incarnation()) != members.end()) skips += ps.stats().pushes_skipped;
  }
  const bool too_many = process.chief->state() == JobState::kRunning &&
                        skips > static_cast<uint64_t>(process.job.training.max_skipped_pushes);
  Due("too many pushes are skipped and the job runs", too_many,
      2 * plan_.timing.dead_after + 4 * plan_.timing.heartbeat + 2s);
}

}  // namespace downpour
