#include "tests/sim/story.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/trace_files.h"

namespace downpour {
namespace {

constexpr Duration kLongestRun = std::chrono::hours(1);
constexpr int kMostFailures = 8;  // then the faults end

}  // namespace

Story::Story(const Draw& draw, RunOptions options)
    : draw_(draw),
      options_(std::move(options)),
      job_(draw.job),
      oracle_(draw.job, draw.train_examples, draw.oracle),
      truth_(&oracle_, &findings_),
      world_(draw_, &oracle_, &findings_),
      watch_(&world_, &oracle_, &truth_),
      prng_(MixAll(draw.seed, 5)) {
  world_.set_watch(&watch_);
  world_.set_log(options_.log);
  world_.set_on_exit([this](Life life, int code, const std::string& why) { OnExit(life, code, why); });
}

RunResult Story::Run() {
  world_.disk().set_faults(draw_.disk);
  Begin();
  Disturb();
  while (findings_.ok() && !(succeeded_ && world_.Alive().empty()) && world_.agenda().RunNext()) {
    if (world_.now().time_since_epoch() > kLongestRun) findings_.Add("the run does not end");
  }
  if (findings_.ok()) watch_.CheckEnd();
  if (!options_.trace_dir.empty()) WriteTraces(options_.trace_dir, world_, watch_, oracle_);
  return Result();
}

// ---- Supervising ----------------------------------------------------------------------------------------------------

void Story::Begin() {
  ++boot_;
  running_ = true;
  stop_planned_ = false;
  booted_ = world_.now();
  disk_faults_at_boot_ = world_.disk().faults_dealt();
  if (watch_.durable().has_value()) durable_at_boot_ = watch_.durable()->round;
  if (boot_ > 1) job_.cluster.parameter_server_count = static_cast<int64_t>(1 + prng_.Below(5));
  tasks_.clear();

  const int boot = boot_;
  world_.agenda().After(Duration(prng_.Below(1000000000)), [this, boot] {
    if (boot == boot_) chief_ = world_.StartChief(job_, /*resume=*/boot > 1);
  });
  for (int i = 0; i < job_.cluster.parameter_server_count; ++i) {
    const std::string name = absl::StrCat("ps-", i);
    const int port = prng_.Chance(0.5) ? 8000 + i : 9000 + 100 * boot_ + i;  // as before, or a new one
    tasks_[name].start = {name, i, "supervisor", 0, absl::StrCat("ps-host:", port)};
    StartTaskSoon(name);
  }
  for (int i = 0; i < job_.cluster.worker_count; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    tasks_[name].start = {name, i, "supervisor", 0, ""};
    if (draw_.faults.nameless) tasks_[name].start = {name, -1, "", 0, ""};
    StartTaskSoon(name);
  }
}

void Story::StartAgain(Life ended) {
  for (auto& [name, task] : tasks_) {
    if (task.life != ended || task.due || !task.start.endpoint.empty()) continue;
    if (!draw_.faults.nameless) ++task.start.attempt;
    StartTaskSoon(name);
  }
}

void Story::StartTaskSoon(const std::string& name) {
  tasks_[name].due = true;
  world_.agenda().After(Duration(prng_.Below(1000000000)), [this, name, boot = boot_] { StartTask(name, boot); });
}

void Story::StartTask(const std::string& name, int boot) {
  if (boot != boot_ || !running_) return;
  Task& task = tasks_[name];
  task.due = false;
  task.life = task.start.endpoint.empty() ? world_.StartWorker(task.start) : world_.StartPs(task.start);
}

void Story::OnExit(Life life, int code, const std::string& why) {
  world_.Say(absl::StrCat("exit ", code, ": ", why));
  if (!running_) return;
  if (life == chief_) return OnChiefExit(code, why);
  if (code == 0) {
    if (world_.process(chief_).chief->state() == JobState::kSucceeded) return;
    findings_.Add(absl::StrCat(world_.process(life).name, " leaves as if the job had succeeded: ", why));
  }
  if (calm_ && world_.now() > calm_since_ + 4 * draw_.timing.dead_after) {
    findings_.Add(absl::StrCat(world_.process(life).name, " gives up in a calm cluster: ", why));
  }
  StartAgain(life);
}

void Story::OnChiefExit(int code, const std::string& why) {
  running_ = false;
  if (code == 0) {
    succeeded_ = true;
    // A member gives up after 3 dead_after without a word, and words on the way may be held back for as long again.
    world_.agenda().After(8 * draw_.timing.dead_after + 5s, [this] { EndOfStragglers(); });
    return;
  }
  if (!FailureHasCause()) return findings_.Add(absl::StrCat("the job failed without cause: ", why));
  if (++failures_ >= kMostFailures && !calm_) Calm();
  world_.agenda().After(2s, [this] {
    KillAll();
    Begin();
  });
}

bool Story::FailureHasCause() const {
  if (world_.disk().faults_dealt() > disk_faults_at_boot_) return true;
  return std::any_of(tasks_.begin(), tasks_.end(), [this](const auto& item) {
    const Task& task = item.second;
    if (task.start.endpoint.empty() || task.life == Life::kNone) return false;
    const Process& ps = world_.process(task.life);
    return !ps.alive ||
           world_.now() - watch_.LastHeartbeat(ps.ps->incarnation()) >= draw_.timing.dead_after - draw_.timing.tick;
  });
}

void Story::KillAll() {
  for (Life life : world_.Alive()) world_.Kill(life);
}

void Story::StopEverything() {
  running_ = false;
  ++generation_;
  KillAll();
  if (draw_.power_failure) world_.disk().PowerFailure();
  world_.agenda().After(Duration(prng_.Below(1000000000)), [this] { Begin(); });
}

void Story::EndOfStragglers() {
  for (Life life : world_.Alive()) {
    const Process& process = world_.process(life);
    const Incarnation member = process.ps != nullptr ? process.ps->incarnation() : process.worker->incarnation();
    if (member != Incarnation::kNone) findings_.Add(absl::StrCat(process.name, " does not leave after the job's end"));
    world_.Kill(life);  // whoever never met the chief waits for it, until its supervisor ends it
  }
}

// ---- Disturbing -----------------------------------------------------------------------------------------------------

Life Story::OneOf(const std::vector<Life>& lives) {
  return lives.empty() ? Life::kNone : lives[prng_.Below(lives.size())];
}

Duration Story::Around(Duration mean) {
  return Duration(static_cast<int64_t>(static_cast<double>(mean.count()) * -std::log(1 - prng_.Uniform())));
}

void Story::Disturb() {
  Keep(draw_.faults.worker_crash, &Story::CrashWorker);
  Keep(draw_.faults.worker_stop, &Story::StopWorker);
  Keep(draw_.faults.pause, &Story::PauseOne);
  Keep(draw_.faults.cut, &Story::CutTwo);
  Keep(draw_.faults.reset, &Story::ResetOne);
  Keep(draw_.faults.malformed, &Story::Garble);
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

void Story::CrashWorker() {
  const Life life = OneOf(world_.Alive(TaskRole::kWorker));
  if (life == Life::kNone) return;
  world_.Crash(life);
  StartAgain(life);
}

void Story::StopWorker() {
  const Life life = OneOf(world_.Alive(TaskRole::kWorker));
  if (life != Life::kNone) world_.Stop(life);
}

void Story::PauseOne() {
  const Life life = OneOf(world_.Alive());
  if (life == Life::kNone) return;
  // The only copy of a slice must not be away for longer than the chief waits, or the job fails.
  const bool worker = world_.process(life).kind == TaskRole::kWorker;
  world_.Pause(life, Around(worker ? draw_.timing.dead_after : draw_.timing.dead_after / 10));
}

void Story::CutTwo() {
  const Life one = OneOf(world_.Alive());
  const Life other = OneOf(world_.Alive());
  if (one == other) return;
  const bool worker = world_.process(one).kind == TaskRole::kWorker || world_.process(other).kind == TaskRole::kWorker;
  const Duration length = Around(worker ? draw_.timing.dead_after / 2 : draw_.timing.dead_after / 10);
  const bool loses = prng_.Chance(0.5);
  world_.network().Cut(one, other, length, loses);
  if (prng_.Chance(0.5)) world_.network().Cut(other, one, length, loses);
}

void Story::ResetOne() { world_.network().ResetOne(); }

void Story::Garble() {
  const Life life = OneOf(world_.Alive());
  if (life != Life::kNone) world_.GiveMalformed(life);
}

void Story::LookForStop() {
  world_.agenda().After(50ms, [this] {
    if (generation_ >= draw_.generations) {
      world_.agenda().After(draw_.calm_after, [this] { Calm(); });
      return;
    }
    const bool durable = watch_.durable().has_value() && watch_.durable()->round != durable_at_boot_;
    if (running_ && !stop_planned_ && (durable || world_.now() > booted_ + draw_.calm_after)) {
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

void Story::LookForProgress() {
  world_.agenda().After(1s, [this] {
    if (succeeded_) return;
    uint64_t progress = static_cast<uint64_t>(boot_);
    if (watch_.durable().has_value()) progress += watch_.durable()->committed.Count();
    if (running_ && chief_ != Life::kNone && world_.process(chief_).alive) {
      progress += world_.process(chief_).chief->committed().Count();
    }
    if (progress != progress_) progress_at_ = world_.now();
    progress_ = progress;
    const Duration patience = 30s + 8 * draw_.timing.dead_after;
    if (calm_ && world_.now() > progress_at_ + patience) {
      findings_.Add(absl::StrCat("no progress for ", Seconds(patience), " s in a calm cluster"));
    }
    LookForProgress();
  });
}

RunResult Story::Result() const {
  RunResult result;
  result.finding = findings_.first();
  result.digest = world_.digest();
  result.steps = world_.steps();
  result.faults = world_.faults_dealt();
  result.pushes = truth_.pushes_counted();
  result.duplicates = truth_.duplicates();
  result.stops = generation_ - 1;
  result.failures = failures_;
  result.took = world_.now().time_since_epoch();
  if (calm_) result.calm_took = world_.now() - calm_since_;
  world_.ForEach([&](const Process& process) {
    if (process.ps == nullptr) return;
    const Staleness& one = process.ps->stats().staleness;
    result.staleness.pushes += one.pushes;
    result.staleness.unknown += one.unknown;
    result.staleness.sum += one.sum;
    result.staleness.max = std::max(result.staleness.max, one.max);
  });
  return result;
}

}  // namespace downpour
