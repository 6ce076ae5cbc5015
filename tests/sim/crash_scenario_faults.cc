// What disturbs a story, and when it must be left in peace.
#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "chief/known/membership.h"
#include "schema/checkpoint_format.h"
#include "tests/schema/random_message.h"
#include "tests/sim/crash_scenario.h"

namespace downpour {

Life CrashScenario::OneOf(const std::vector<Life>& lives) {
  return lives.empty() ? Life::kNone : lives[prng_.Below(lives.size())];
}

Duration CrashScenario::Around(Duration mean) {
  return Duration(static_cast<int64_t>(static_cast<double>(mean.count()) * -std::log(1 - prng_.Uniform())));
}

void CrashScenario::Disturb() {
  if (plan_.odd_data) ++faults_["another copy of the data"];
  Repeat(plan_.faults.worker_crash, &CrashScenario::CrashWorker);
  Repeat(plan_.faults.ps_crash, &CrashScenario::CrashPs);
  Repeat(plan_.faults.chief_crash, &CrashScenario::CrashChief);
  Repeat(plan_.faults.worker_stop, &CrashScenario::StopWorker);
  Repeat(plan_.faults.ps_stop, &CrashScenario::StopPs);
  Repeat(plan_.faults.pause, &CrashScenario::PauseOne);
  Repeat(plan_.faults.cut, &CrashScenario::CutTwo);
  Repeat(plan_.faults.reset, &CrashScenario::ResetOne);
  Repeat(plan_.faults.move, &CrashScenario::MoveOne);
  Repeat(plan_.faults.rival, &CrashScenario::StartRival);
  Repeat(plan_.faults.malformed, &CrashScenario::Garble);
  Repeat(plan_.faults.stranger, &CrashScenario::Intrude);
  Repeat(plan_.faults.new_folder, &CrashScenario::BeginFolder);
  Repeat(plan_.faults.put_back, &CrashScenario::PutBackFolder);
  Repeat(plan_.faults.lie, &CrashScenario::Lie);
  Repeat(plan_.faults.ask, &CrashScenario::AskForCheckpoint);
  Repeat(plan_.faults.impostor, &CrashScenario::Impersonate);
  if (plan_.end_trouble) LookForTrouble();
  LookForStop();
  LookForProgress();
  if (plan_.faults.scale == Duration::zero()) return;
  Repeat(plan_.faults.scale, &CrashScenario::ScaleJob);
  FollowWorkerCount();
}

void CrashScenario::Repeat(Duration mean, void (CrashScenario::*fault)()) {
  if (mean == Duration::zero() || calm_) return;
  world_.events().After(Around(mean), [this, mean, fault] {
    if (running_ && !calm_) (this->*fault)();
    Repeat(mean, fault);
  });
}

void CrashScenario::Crash(TaskRole kind) {
  const Life life = OneOf(world_.Alive(kind));
  if (life == Life::kNone) return;
  ++faults_[absl::StrCat(NameOf(kind), " killed")];
  world_.Crash(life);
  StartAgain(life);
}

// In the middle of whatever it is at, its disk's operations too; the next one finds what those left.
void CrashScenario::CrashChief() {
  if (chief_ == Life::kNone || stopping_) return;
  ++faults_["chief killed"];
  world_.Kill(chief_);
  OnCrash(chief_);
}

void CrashScenario::OnCrash(Life life) {
  ++faults_[absl::StrCat(NameOf(world_.process(life).kind), " crashed")];
  if (life != chief_) return StartAgain(life);
  const JobState state = world_.process(chief_).chief->state();
  if (state == JobState::kFailed || state == JobState::kCancelled) {
    return OnChiefExit(1, world_.process(chief_).chief->StatusJson(world_.now()));
  }
  chief_ = Life::kNone;
  StartChiefSoon();
  for (const auto& [name, task] : tasks_) {  // who left when it called the job over is needed again
    if (task.life != Life::kNone && !world_.process(task.life).alive) StartAgain(task.life);
  }
}

void CrashScenario::StopOne(TaskRole kind) {
  const Life life = OneOf(world_.Alive(kind));
  if (life == Life::kNone) return;
  ++faults_[absl::StrCat(NameOf(kind), " told to stop")];
  world_.Stop(life);
  if (prng_.Chance(0.3)) world_.events().After(Around(1s), [this, life] { world_.Stop(life); });
  ExpectGone(life, 25s);
}

void CrashScenario::ExpectGone(Life life, Duration within) {
  const bool hears = !world_.process(life).paused;  // else when it wakes, and from then on its time counts
  world_.events().After(hears ? within : 1s, [this, life, within, hears] {
    const Process& process = world_.process(life);
    if (!process.alive) return;
    if (!hears) return ExpectGone(life, within);
    if (process.paused) return ExpectGone(life, 1s);
    findings_.Add(absl::StrCat(process.name, " was told to stop and stays"));
  });
}

void CrashScenario::PauseOne() {
  const Life life = OneOf(world_.Alive());
  if (life == Life::kNone) return;
  ++faults_[absl::StrCat(NameOf(world_.process(life).kind), " paused")];
  world_.Pause(life, std::min(Around(plan_.timing.dead_after), 2 * plan_.timing.dead_after));
}

void CrashScenario::CutTwo() {
  const Life one = OneOf(world_.Alive());
  const Life other = OneOf(world_.Alive());
  if (one == other) return;
  ++faults_["cut"];
  const Duration length = Around(plan_.timing.dead_after / 2);
  const bool loses = prng_.Chance(0.5);
  world_.network().Cut(one, other, length, loses);
  if (prng_.Chance(0.5)) world_.network().Cut(other, one, length, loses);
}

void CrashScenario::ResetOne() { world_.network().ResetOne(); }

// As with DHCP, or where a virtual machine migrates. It is started again at the new address, too.
void CrashScenario::MoveOne() {
  const Life life = OneOf(world_.Alive(TaskRole::kPs));
  if (life == Life::kNone) return;
  ++faults_["ps moved"];
  const std::string endpoint = absl::StrCat("moved-host:", 20000 + moves_++);
  for (auto& [name, task] : tasks_) {
    if (task.life == life) task.start.endpoint = endpoint;
  }
  world_.Move(life, endpoint);
}

// As where a host is cut off, and its supervisor starts the task on another one. When it comes back, the chief may have
// been killed as well, and the other process too: the next chief meets either of them first.
void CrashScenario::StartRival() {
  const Life life = OneOf(world_.Alive(TaskRole::kPs));
  const auto at = std::ranges::find_if(tasks_, [life](const auto& item) { return item.second.life == life; });
  if (life == Life::kNone || at == tasks_.end() || at->second.due || world_.process(life).paused) return;
  ++faults_["ps stood still while another one took its place"];
  const Duration length = plan_.timing.dead_after + std::min(Around(3s), 12 * plan_.timing.dead_after);
  world_.Pause(life, length);
  cut_off_.push_back(life);
  TaskStart& start = at->second.start;
  ++start.attempt;
  start.endpoint = absl::StrCat("rival-host:", 20000 + moves_++);
  StartTaskSoon(at->first);
  world_.events().After(length, [this, name = at->first] {
    if (!running_ || calm_ || !prng_.Chance(0.5)) return;
    CrashChief();
    const Life rival = tasks_[name].life;
    if (!prng_.Chance(0.5) || rival == Life::kNone || !world_.process(rival).alive) return;
    world_.Kill(rival);
    StartAgain(rival);
  });
}

void CrashScenario::Garble() {
  const Life life = OneOf(world_.Alive());
  if (life == Life::kNone) return;
  ++faults_["malformed frame"];
  world_.GiveMalformed(life);
}

void CrashScenario::Intrude() {
  std::vector<std::string> endpoints = {kChiefEndpoint};
  for (const auto& [name, task] : tasks_) {
    if (!task.start.endpoint.empty()) endpoints.push_back(task.start.endpoint);
  }
  ++faults_["stranger"];
  const Life stranger = world_.StartStranger(endpoints);
  Random random(prng_.Next());
  if (const ChiefRole* leader = Leader()) {  // in the words of an honest tool, but for the secret
    const auto kind = static_cast<ControlKind>(random() % 3);
    const Control command = {leader->term(), leader->commands() + 1, /*nonce=*/random(), kind, 1};
    world_.network().Send(stranger, PeerId{1}, command);
  }
  // Mostly in the right run, or what it says would count for nothing.
  const uint64_t run = chief_ == Life::kNone || prng_.Chance(0.2) ? prng_.Next() : RunOf(world_.process(chief_));
  for (size_t i = 0; i < endpoints.size(); ++i) {
    const uint64_t messages = 1 + prng_.Below(4);
    for (uint64_t n = 0; n < messages; ++n) {
      Message message = RandomMessage(prng_.Below(std::variant_size_v<MessageKinds>), random);
      auto* question = std::get_if<StatusRequest>(&message);
      if (question != nullptr && random() % 2 == 0) question->secret = kSecret;
      world_.network().Send(stranger, PeerId{1 + i}, std::move(message), run);
    }
  }
}

// In the words of an honest worker, with evidence of the right epochs, of what no slice has finished.
void CrashScenario::Lie() {
  const std::vector<Life> workers = world_.Alive(TaskRole::kWorker);
  if (workers.empty() || chief_ == Life::kNone || !world_.process(chief_).alive) return;
  const std::vector<SliceEpoch> epochs = world_.process(chief_).chief->epochs();
  if (epochs.empty()) return;
  ++faults_["lie"];
  LeaseDone done;
  done.from = world_.process(OneOf(workers)).worker->incarnation();
  done.lease = LeaseId{prng_.Below(checker().LeasesOfJob())};
  for (size_t i = 0; i < epochs.size(); ++i) done.evidence.push_back({SliceId{static_cast<uint32_t>(i)}, epochs[i]});
  world_.network().Send(world_.StartStranger({kChiefEndpoint}), PeerId{1}, std::move(done),
                        RunOf(world_.process(chief_)));
}

void CrashScenario::LookForTrouble() {
  world_.events().After(10ms, [this] {
    if (succeeded_ || troubles_ == 2) return;
    if (running_ && chief_ != Life::kNone && world_.process(chief_).alive) TroubleAtTheEnd();
    LookForTrouble();
  });
}

// Once when all leases are committed, and once when a checkpoint holds them: what was called done is open again then.
void CrashScenario::TroubleAtTheEnd() {
  const ChiefRole& chief = *world_.process(chief_).chief;
  const uint64_t leases = chief.goal();
  const auto& durable = checker().durable();
  const bool is_held = durable && durable->committed.CoversRange(0, leases);
  const bool is_time = troubles_ == 0 ? chief.committed().CoversRange(0, leases) && prng_.Chance(0.2) : is_held;
  if (chief.state() != JobState::kRunning || !is_time) return;
  const Life ps = OneOf(world_.Alive(TaskRole::kPs));
  if (ps == Life::kNone) return;
  ++troubles_;
  ++faults_["trouble at the end"];
  if (plan_.rot && is_held) DamageRecordsOf(world_.process(ps).name, durable->round);
  world_.Kill(ps);
  OnCrash(ps);
  if (calm_) calm_since_ = progress_at_ = world_.now();
}

void CrashScenario::DamageRecordsOf(const std::string& ps, Round round) {
  for (const std::string& file : world_.disk().Files(CheckpointDir(round))) {
    if (!absl::StrContains(file, absl::StrCat("/", ps, ".shard")) && !prng_.Chance(0.15)) continue;
    checker().NoteDamage(round);
    world_.disk().Damage(file);
  }
}

void CrashScenario::LookForStop() {
  world_.events().After(50ms, [this] {
    if (generation_ >= plan_.generations) {
      world_.events().After(plan_.calm_after, [this] { Calm(); });
      return;
    }
    const bool ripe = checker().durable().has_value() || world_.now() > booted_ + plan_.calm_after;
    if (running_ && !stop_planned_ && ripe) {
      stop_planned_ = true;
      world_.events().After(Around(plan_.stop_after), [this, boot = boot_] {
        if (!running_ || boot != boot_ || calm_) return;
        if (!plan_.amid_restore) return StopEverything();
        Crash(TaskRole::kPs);
        StopAmidRestore(world_.now() + plan_.start_within + 10s);
      });
    }
    LookForStop();
  });
}

// Once a ps has taken a dead one's place, and before all slices have reported; at `by` in any case.
void CrashScenario::StopAmidRestore(Time by) {
  const ChiefRole* chief = Leader();
  const bool restores = chief != nullptr && chief->state() == JobState::kRunning && !chief->all_reported();
  if (restores || world_.now() >= by) {
    faults_["told to stop amid a restore"] += restores;
    return StopEverything();
  }
  world_.events().After(1ms, [this, by, boot = boot_] {
    if (running_ && boot == boot_ && !calm_) StopAmidRestore(by);
  });
}

void CrashScenario::Calm() {
  if (calm_) return;
  world_.Say("calm");
  calm_ = true;
  calm_since_ = progress_at_ = world_.now();
  world_.network().Calm();
  world_.disk().set_faults({});
  world_.set_stalls(0);
  for (Life life : cut_off_) world_.Continue(life);  // else it may sleep beyond the job's end, and never hear of it
}

}  // namespace downpour
