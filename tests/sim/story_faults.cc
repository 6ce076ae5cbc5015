// What disturbs a story, and when it must be left in peace.
#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "chief/membership.h"
#include "tests/schema/random_message.h"
#include "tests/sim/story.h"

namespace downpour {

Life Story::OneOf(const std::vector<Life>& lives) {
  return lives.empty() ? Life::kNone : lives[prng_.Below(lives.size())];
}

Duration Story::Around(Duration mean) {
  return Duration(static_cast<int64_t>(static_cast<double>(mean.count()) * -std::log(1 - prng_.Uniform())));
}

void Story::Disturb() {
  if (draw_.odd_data) ++faults_["another copy of the data"];
  Keep(draw_.faults.worker_crash, &Story::CrashWorker);
  Keep(draw_.faults.ps_crash, &Story::CrashPs);
  Keep(draw_.faults.chief_crash, &Story::CrashChief);
  Keep(draw_.faults.worker_stop, &Story::StopWorker);
  Keep(draw_.faults.ps_stop, &Story::StopPs);
  Keep(draw_.faults.pause, &Story::PauseOne);
  Keep(draw_.faults.cut, &Story::CutTwo);
  Keep(draw_.faults.reset, &Story::ResetOne);
  Keep(draw_.faults.malformed, &Story::Garble);
  Keep(draw_.faults.stranger, &Story::Intrude);
  LookForStop();
  LookForProgress();
}

void Story::Keep(Duration mean, void (Story::*fault)()) {
  if (mean == Duration::zero() || calm_) return;
  world_.agenda().After(Around(mean), [this, mean, fault] {
    if (running_ && !calm_) (this->*fault)();
    Keep(mean, fault);
  });
}

void Story::Crash(TaskRole kind) {
  const Life life = OneOf(world_.Alive(kind));
  if (life == Life::kNone) return;
  ++faults_[absl::StrCat(NameOf(kind), " killed")];
  world_.Crash(life);
  StartAgain(life);
}

// In the middle of whatever it is at, its disk's operations too; the next one finds what those left.
void Story::CrashChief() {
  if (chief_ == Life::kNone || stopping_) return;
  ++faults_["chief killed"];
  world_.Kill(chief_);
  OnCrash(chief_);
}

void Story::OnCrash(Life life) {
  ++faults_[absl::StrCat(NameOf(world_.process(life).kind), " crashed")];
  if (life != chief_) return StartAgain(life);
  const JobState state = world_.process(chief_).chief->state();
  if (state == JobState::kFailed || state == JobState::kCancelled) return OnChiefExit(1, "killed as the job ended");
  chief_ = Life::kNone;
  StartChiefSoon();
  for (const auto& [name, task] : tasks_) {  // who left when it called the job over is needed again
    if (task.life != Life::kNone && !world_.process(task.life).alive) StartAgain(task.life);
  }
}

void Story::StopOne(TaskRole kind) {
  const Life life = OneOf(world_.Alive(kind));
  if (life == Life::kNone) return;
  ++faults_[absl::StrCat(NameOf(kind), " told to stop")];
  world_.Stop(life);
  if (prng_.Chance(0.3)) world_.agenda().After(Around(1s), [this, life] { world_.Stop(life); });
  ExpectGone(life, 25s);
}

void Story::ExpectGone(Life life, Duration within) {
  const bool hears = !world_.process(life).paused;  // else when it wakes, and from then on its time counts
  world_.agenda().After(hears ? within : 1s, [this, life, within, hears] {
    const Process& process = world_.process(life);
    if (!process.alive) return;
    if (!hears) return ExpectGone(life, within);
    if (process.paused) return ExpectGone(life, 1s);
    findings_.Add(absl::StrCat(process.name, " was told to stop and stays"));
  });
}

void Story::PauseOne() {
  const Life life = OneOf(world_.Alive());
  if (life == Life::kNone) return;
  ++faults_[absl::StrCat(NameOf(world_.process(life).kind), " paused")];
  world_.Pause(life, std::min(Around(draw_.timing.dead_after), 2 * draw_.timing.dead_after));
}

void Story::CutTwo() {
  const Life one = OneOf(world_.Alive());
  const Life other = OneOf(world_.Alive());
  if (one == other) return;
  ++faults_["cut"];
  const Duration length = Around(draw_.timing.dead_after / 2);
  const bool loses = prng_.Chance(0.5);
  world_.network().Cut(one, other, length, loses);
  if (prng_.Chance(0.5)) world_.network().Cut(other, one, length, loses);
}

void Story::ResetOne() { world_.network().ResetOne(); }

void Story::Garble() {
  const Life life = OneOf(world_.Alive());
  if (life == Life::kNone) return;
  ++faults_["malformed frame"];
  world_.GiveMalformed(life);
}

void Story::Intrude() {
  std::vector<std::string> endpoints = {kChiefEndpoint};
  for (const auto& [name, task] : tasks_) {
    if (!task.start.endpoint.empty()) endpoints.push_back(task.start.endpoint);
  }
  ++faults_["stranger"];
  const Life stranger = world_.StartStranger(endpoints);
  Random random(prng_.Next());
  for (size_t i = 0; i < endpoints.size(); ++i) {
    world_.network().Send(stranger, PeerId{1 + i}, RandomMessage(prng_.Below(std::variant_size_v<Message>), random));
  }
}

void Story::LookForStop() {
  world_.agenda().After(50ms, [this] {
    if (generation_ >= draw_.generations) {
      world_.agenda().After(draw_.calm_after, [this] { Calm(); });
      return;
    }
    const bool ripe = watch_.durable().has_value() || world_.now() > booted_ + draw_.calm_after;
    if (running_ && !stop_planned_ && ripe) {
      stop_planned_ = true;
      world_.agenda().After(Around(draw_.stop_after), [this, boot = boot_] {
        if (running_ && boot == boot_ && !calm_) StopEverything();
      });
    }
    LookForStop();
  });
}

void Story::Calm() {
  if (calm_) return;
  world_.Say("calm");
  calm_ = true;
  calm_since_ = progress_at_ = world_.now();
  world_.network().Calm();
  world_.disk().set_faults({});
}

// What one worker needs for all of the job, the slowest one, with every slice's values and gradient under way alone.
Duration Story::LongestCalm() const {
  const Duration way = draw_.network.delay + draw_.network.spread;
  const Duration step =
      std::chrono::duration_cast<Duration>((draw_.device.least + draw_.device.spread) * draw_.device.slow_worker) +
      4 * way * oracle_.grid().size();
  return 30s + 10 * draw_.timing.dead_after + oracle_.plan().total_steps() * step;
}

void Story::LookForProgress() {
  world_.agenda().After(1s, [this] {
    if (succeeded_) return;
    uint64_t progress = static_cast<uint64_t>(boot_);
    if (watch_.durable().has_value()) progress += watch_.durable()->committed.Count();
    if (running_ && chief_ != Life::kNone && world_.process(chief_).alive) {
      progress += world_.process(chief_).chief->committed().Count();
      LookForIdlers(*world_.process(chief_).chief);
    }
    if (progress != progress_) progress_at_ = world_.now();
    progress_ = progress;
    const Duration patience = 30s + 8 * draw_.timing.dead_after;
    if (calm_ && world_.now() > progress_at_ + patience) {
      findings_.Add(absl::StrCat("no progress for ", Seconds(patience), " s in a calm cluster"));
    } else if (calm_ && world_.now() > calm_since_ + LongestCalm()) {
      findings_.Add(absl::StrCat("a calm cluster is not done after ", Seconds(LongestCalm()), " s"));
    }
    LookForProgress();
  });
}

void Story::LookForIdlers(const ChiefRole& chief) {
  const bool open = calm_ && chief.state() == JobState::kRunning &&
                    chief.committed().Count() + chief.holders().size() < oracle_.plan().total_leases();
  for (Life life : world_.Alive(TaskRole::kWorker)) {
    const WorkerRole& worker = *world_.process(life).worker;
    const bool idle =
        worker.incarnation() != Incarnation::kNone && worker.holding().empty() && !worker.stats().waiting_for.empty();
    if (!open || !idle) {
      idle_since_.erase(life);
    } else if (world_.now() >
               idle_since_.emplace(life, world_.now()).first->second + 4 * draw_.timing.dead_after + 5s) {
      findings_.Add(
          absl::StrCat(world_.process(life).name, " waits for ", worker.stats().waiting_for, " while leases are open"));
    }
  }
}

}  // namespace downpour
