#include "tests/sim/crash_scenario.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "chief/recovery.h"
#include "runtime/exit_code.h"
#include "tests/sim/trace_files.h"

namespace downpour {
namespace {

constexpr Duration kLongestRun = std::chrono::hours(1);
constexpr int kMostFailures = 8;  // then the faults end
constexpr int kSigtermed = 128 + 15;

}  // namespace

CrashScenario::CrashScenario(const FaultPlan& plan, RunOptions options)
    : plan_(plan),
      options_(std::move(options)),
      job_(plan.job),
      oracle_(plan.LastJob(), plan.train_examples + plan.more_examples, plan.oracle),
      world_(plan_, &oracle_, &findings_),
      prng_(MixAll(plan.seed, 5)),
      readers_prng_(MixAll(plan.seed, 9)) {
  OpenBook();
  world_.set_checker([this](const Process& process) -> InvariantChecker& { return CheckerOf(process); });
  world_.set_log(options_.log);
  world_.set_on_exit([this](Life life, int code, const std::string& why) { OnExit(life, code, why); });
  world_.set_on_crash([this](Life life) { OnCrash(life); });
}

RunResult CrashScenario::Run() {
  world_.disk().set_faults(plan_.disk);
  if (options_.crash_before) world_.CrashBefore(*options_.crash_before);
  Begin();
  Disturb();
  BeginReaders();
  const auto is_over = [this] { return succeeded_ && world_.Alive().empty() && ReadersAreGone(); };
  while (findings_.ok() && !is_over() && world_.events().RunNext()) {
    if (world_.now().time_since_epoch() > kLongestRun) findings_.Add("the run does not end");
  }
  if (findings_.ok()) checker().CheckEnd();
  if (!options_.trace_dir.empty()) WriteTraces(options_.trace_dir, world_, checker(), oracle_);
  return Result();
}

// ---- Supervising ----------------------------------------------------------------------------------------------------

void CrashScenario::Begin() {
  ++boot_;
  running_ = true;
  chief_ = Life::kNone;
  stop_planned_ = stopping_ = false;
  booted_ = world_.now();
  disk_faults_at_boot_ = Total(world_.disk_faults_dealt());
  servers_started_.clear();
  // Where none is whole a start without --resume may begin again.
  forgets_resume_ = plan_.forgetful && !plan_.damage && !plan_.lose && !plan_.rot && checker().durable().has_value();
  checker().Forget();
  if (boot_ > 1 && !plan_.same_servers) {
    const int later = plan_.servers_later;
    job_.cluster.parameter_server_count = later > 0 ? later : static_cast<int64_t>(1 + prng_.Below(5));
  }
  std::erase_if(tasks_, [this](const auto& item) { return !Survives(item.second); });
  workers_ = job_.cluster.worker_count;
  if (plan_.other_text && boot_ > 1) ChangeText();

  StartChiefSoon();
  for (int i = 0; i < job_.cluster.parameter_server_count; ++i) {
    const std::string name = absl::StrCat("ps-", i);
    const int port = prng_.Chance(0.5) ? 8000 + i : 9000 + 100 * boot_ + i;  // as before, or a new one
    tasks_[name].start = {name, i, i, plan_.faults.nameless ? "" : "supervisor", 0, absl::StrCat("ps-host:", port)};
    StartTaskSoon(name);
  }
  for (int i = 0; i < job_.cluster.worker_count; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    if (tasks_.contains(name)) continue;
    tasks_[name].start = {name, i, i, "supervisor", 0, ""};
    if (plan_.faults.nameless) tasks_[name].start = {name, i, -1, "", 0, ""};
    StartTaskSoon(name);
  }
}

void CrashScenario::StartChiefSoon() {
  world_.events().After(Duration(prng_.Below(plan_.start_within.count())), [this, boot = boot_] {
    if (boot != boot_ || !running_) return;
    StageInitialValues();
    StageCode();
    GrowJob();
    chief_ = last_chief_ = world_.StartChief(job_, /*resume=*/boot > 1 && !forgets_resume_, give_up_);
    chief_began_ = world_.now();
  });
}

// A person appends data, and resumes the job with more epochs, or starts its chief with them. Not a job that may be
// over already: that would be another kind of start.
void CrashScenario::GrowJob() {
  const bool may = plan_.more_epochs > 0 && !world_.has_grown() && checker().durable().has_value();
  if (!may || checker().EverHeld(checker().goal()) || !prng_.Chance(0.7)) return;
  ++faults_[plan_.more_examples > 0 ? "data appended" : "more epochs"];
  job_.training.epochs += plan_.more_epochs;
  world_.GrowData();
}

void CrashScenario::StartAgain(Life ended) {
  for (auto& [name, task] : tasks_) {
    if (task.life != ended || task.due || !IsWanted(task)) continue;
    if (!task.start.launcher.empty()) ++task.start.attempt;
    StartTaskSoon(name);
  }
}

void CrashScenario::StartTaskSoon(const std::string& name) {
  tasks_[name].due = true;
  const auto wait = Duration(prng_.Below(plan_.start_within.count()));
  world_.events().After(wait, [this, name, boot = boot_] { StartTask(name, boot); });
}

void CrashScenario::StartTask(const std::string& name, int boot) {
  if (boot != boot_ || !running_) return;
  Task& task = tasks_[name];
  task.due = false;
  if (task.start.endpoint.empty()) {
    task.life = world_.StartWorker(task.start);
  } else {
    task.life = world_.StartPs(task.start);
    ++servers_started_[name];
  }
}

void CrashScenario::OnExit(Life life, int code, const std::string& why) {
  world_.Say(absl::StrCat("exit ", code, ": ", why));
  if (world_.process(life).viewer != nullptr) return OnReaderExit(world_.process(life), why);
  // In a calm cluster words arrive.
  const bool was_told = !succeeded_ || code != kExitUnreachable || ended_ < calm_since_ + 4 * plan_.timing.dead_after ||
                        HasLostItsPlace(life);
  if (calm_ && !was_told) findings_.Add(absl::StrCat(world_.process(life).name, " was not told of the end: ", why));
  if (!running_) return;
  if (life == chief_) return OnChiefExit(code, why);
  const Process& process = world_.process(life);
  const JobState state = chief_ == Life::kNone ? JobState::kQueued : world_.process(chief_).chief->state();
  const bool was_let_go = checker().told_success() || checker().told_cancelled() || CheckerOf(process).IsRetired(life);
  if (code == 0 && !was_let_go) {
    findings_.Add(absl::StrCat(process.name, " leaves as if the job had succeeded: ", why));
  }
  CheckRetired(process, code, why);
  if (state >= JobState::kSucceeded || (stopping_ && plan_.all_told)) return;
  const auto task = std::ranges::find_if(tasks_, [life](const auto& item) { return item.second.life == life; });
  if (task != tasks_.end() && !IsWanted(task->second)) return;  // it left, or was not let in any more
  if (calm_ && code != 0 && code != kSigtermed && !plan_.odd_data && world_.now() > calm_since_ + Patience()) {
    findings_.Add(absl::StrCat(process.name, " gives up in a calm cluster: ", why));
  }
  StartAgain(life);
}

void CrashScenario::OnChiefExit(int code, const std::string& why) {
  if (std::exchange(forgets_resume_, false) && absl::StrContains(why, "add --resume")) {
    ++faults_["resume forgotten"];  // and the tasks wait for the next start
    chief_ = Life::kNone;
    return StartChiefSoon();
  }
  running_ = false;
  if (code == 0) {
    if (world_.process(chief_).chief->term() == 0) checker().Recall();
    if (const uint64_t skips = oracle_.Skips(checker().goal()); skips > MostSkipped()) {
      findings_.Add(absl::StrCat("the job succeeds with ", skips, " pushes skipped, and may have ", MostSkipped()));
    }
    succeeded_ = true;
    ended_ = world_.now();
    // A member gives up after 3 dead_after without a word, and words on the way may be held back for as long again.
    world_.events().After(8 * plan_.timing.dead_after + 5s, [this] { EndOfStragglers(); });
    return;
  }
  if (code == kSigtermed && stopping_) {
    ++generation_;
  } else if (code == kExitBadJobFile) {
    return findings_.Add(absl::StrCat("the job file is called bad, and is good: ", why));
  } else if (!IsCause(why) && !FailureHasCause()) {
    return findings_.Add(absl::StrCat("the job failed without cause: ", why));
  } else if (++failures_ >= kMostFailures && !calm_) {
    Calm();
  }
  world_.events().After(2s, [this] {
    KillAll();
    Begin();
  });
}

bool CrashScenario::Survives(const Task& task) const {
  return task.life != Life::kNone && task.start.endpoint.empty() && world_.process(task.life).alive;
}

// Another one of the same plan.
void CrashScenario::ChangeText() {
  ++faults_["another job text"];
  TrainingSpec& training = job_.training;
  const bool may_pull_ahead = training.consistency != Consistency::kSync && !job_.model.has_tables();
  training.pull_ahead = prng_.Chance(0.5) && may_pull_ahead;
  training.evaluate_every_epochs = DrawNumber(prng_, 0, 2);
  if (training.evaluate_every_epochs == 0) training.stop_early.reset();
  job_.checkpoint.keep = DrawNumber(prng_, 1, 3);
  job_.checkpoint.via = prng_.Chance(0.3) ? CheckpointVia::kShared : CheckpointVia::kChief;
}

// What is mended by what a person does next.
bool CrashScenario::IsCause(const std::string& why) {
  if (plan_.rot && absl::StrContains(why, "nobody came in its place")) return true;  // it is not waited for long
  if (plan_.diverges && absl::StrContains(why, "the loss of the last evaluation is not finite")) {
    ++faults_["model diverged"];
    world_.EndDivergence();  // as by another learning rate
    if (calm_) calm_since_ = progress_at_ = world_.now();
    return true;
  }
  const bool no_room = absl::StrContains(why, "no worker can prepare for the job");
  if (no_room) ++faults_["no worker had room"];
  if (no_room && calm_) calm_since_ = progress_at_ = world_.now();  // all of the job is still to do
  return no_room && plan_.device.no_room_for > Duration::zero();
}

bool CrashScenario::FailureHasCause() {
  if (SkipLimitReached()) return true;
  if (Total(world_.disk_faults_dealt()) > disk_faults_at_boot_) return true;
  if ((plan_.damage || plan_.lose || plan_.rot) && GiveUpLost()) return true;
  return std::any_of(servers_started_.begin(), servers_started_.end(),
                     [](const auto& started) { return started.second > Recovery::kMostLosses; });
}

// Whoever reads why may allow more of them.
bool CrashScenario::SkipLimitReached() {
  const std::string said = world_.process(chief_).chief->StatusJson(world_.now());
  if (!absl::StrContains(said, "more than training.maxSkippedPushes") || reference().skips() <= MostSkipped())
    return false;
  ++faults_["skip limit reached"];
  job_.training.max_skipped_pushes = kUnlimitedSkips;
  if (calm_) calm_since_ = progress_at_ = world_.now();  // much may be to be computed again
  return true;
}

// Where no checkpoint can be used, the chief says what a person has to type who means to begin again.
bool CrashScenario::GiveUpLost() {
  const std::string said = world_.process(chief_).chief->StatusJson(world_.now());
  const std::string flag = "--give_up=";
  const size_t at = said.find(flag);
  if (at == std::string::npos) return false;
  const size_t begin = at + flag.size();
  const absl::StatusOr<Round> lost =
      ParseRound(said.substr(begin, said.find_first_not_of("0123456789-", begin) - begin));
  if (!lost.ok()) return false;
  ++faults_["checkpoint given up"];
  give_up_ = *lost;
  SetCheckpointsAside();
  checker().GiveUp(give_up_);
  return true;
}

// The chief, every ps, and some of the workers: the others see the next chief of the job.
void CrashScenario::KillAll() {
  for (Life life : world_.Alive()) {
    const Process& process = world_.process(life);
    const bool doomed = process.kind != TaskRole::kWorker || process.crash_after.has_value();
    if (doomed || prng_.Chance(0.6)) world_.Kill(life);
  }
}

void CrashScenario::StopEverything() {
  stopping_ = true;
  if (plan_.by_signal && chief_ != Life::kNone) {
    ++faults_[plan_.all_told ? "all told to stop" : plan_.by_command ? "stopped by command" : "chief told to stop"];
    if (plan_.all_told) return TellAll();
    if (plan_.last_chief) {
      world_.Kill(chief_);
      OnCrash(chief_);
      return StopTheNextChief();
    }
    return plan_.by_command ? StopByCommand() : world_.Stop(chief_);
  }
  ++faults_["all stopped"];
  running_ = false;
  ++generation_;
  KillAll();
  if (plan_.power_failure) {
    world_.disk().PowerFailure();
    checker().OnPowerFailure();
  }
  // Once a checkpoint has all leases the chief may have called the job over, and nobody will read it again.
  if (!checker().EverHeld(checker().goal())) {
    if (plan_.lose && generation_ == 2) {
      LoseCheckpoints();
    } else if (plan_.damage) {
      DamageOne();
    }
  }
  world_.events().After(Duration(prng_.Below(1000000000)), [this] { Begin(); });
}

// Before its servers are here: they hold what no checkpoint has.
void CrashScenario::StopTheNextChief() {
  if (!stopping_ || !running_) return;
  if (Leader() != nullptr) {
    ++faults_["next chief told to stop"];
    return world_.Stop(chief_);
  }
  world_.events().After(1ms, [this, boot = boot_] {
    if (boot == boot_) StopTheNextChief();
  });
}

// In any order.
void CrashScenario::TellAll() {
  for (const Life life : world_.Alive()) {
    // The chief now and then while it writes the checkpoint by which it lets the ps go.
    const bool later = life == chief_ && prng_.Chance(0.5);
    const Duration after =
        later ? plan_.timing.heartbeat + Duration(prng_.Below(1 + 16 * plan_.disk_delay.count())) : 0s;
    world_.events().After(after + Duration(prng_.Below(100000000)), [this, life] { world_.Stop(life); });
    if (life != chief_) ExpectGone(life, 25s);
  }
}

// What a chief keeps in two copies is lost only if both are; its first one may have died between the two. After a power
// failure the name that a copy was written under may be the same file still.
void CrashScenario::DamageOne() {
  const std::vector<std::string> all = world_.disk().Files("");
  std::vector<std::string> files;
  const auto is_one_of_two = [](absl::string_view name) {
    return absl::EndsWith(name, ".a") || absl::EndsWith(name, ".b");
  };
  for (const std::string& file : all) {
    const absl::string_view name = absl::StripSuffix(file, ".tmp");
    const bool is_copy = is_one_of_two(name);
    const std::string stem(name.substr(0, name.size() - 1));
    const bool has_other =
        std::count(all.begin(), all.end(), stem + "a") + std::count(all.begin(), all.end(), stem + "b") == 2;
    const bool is_staged = absl::StartsWith(file, CheckpointDir(Round()));  // without it no chief starts
    if (!is_staged && (!is_copy || (has_other && !copy_damaged_))) files.push_back(file);
  }
  if (files.empty()) return;
  const std::string& file = files[prng_.Below(files.size())];
  copy_damaged_ |= is_one_of_two(absl::StripSuffix(file, ".tmp"));
  world_.disk().Damage(file);
}

// As a mount that is gone, or a folder deleted by mistake.
void CrashScenario::LoseCheckpoints() {
  ++faults_["checkpoints lost"];
  SetCheckpointsAside();
}

void CrashScenario::SetCheckpointsAside() {
  StorageOp remove;
  remove.kind = StorageOp::Kind::kRemove;
  remove.path = "checkpoints";
  world_.disk().Carry(remove);
}

// It stood still until another one had its place. It may wake when the job is over, and nobody waits to tell it so.
bool CrashScenario::HasLostItsPlace(Life life) const {
  const auto is_it = [life](const auto& task) { return task.second.life == life; };
  return std::ranges::find(cut_off_, life) != cut_off_.end() && std::ranges::none_of(tasks_, is_it);
}

void CrashScenario::EndOfStragglers() {
  for (Life life : world_.Alive()) {
    const Process& process = world_.process(life);
    const Incarnation member = process.ps != nullptr ? process.ps->incarnation() : process.worker->incarnation();
    if (member != Incarnation::kNone && !HasLostItsPlace(life)) {
      findings_.Add(absl::StrCat(process.name, " does not leave after the job's end"));
    }
    world_.Kill(life);  // whoever never met the chief waits for it, until its supervisor ends it
  }
  EndOfReaders();
}

RunResult CrashScenario::Result() const {
  RunResult result;
  result.finding = findings_.first();
  result.digest = world_.digest();
  result.steps = world_.steps();
  result.effects = world_.effects();
  result.faults = faults_;
  Add(world_.network().faults_dealt(), result.faults);
  Add(world_.disk_faults_dealt(), result.faults);
  for (const auto& book : books_) {
    result.pushes += book->reference.pushes_counted();
    result.duplicates += book->reference.duplicates();
    result.restored += book->reference.restored();
  }
  CountReaders(result);
  result.stops = generation_ - 1;
  result.failures = failures_;
  result.took = world_.now().time_since_epoch();
  if (calm_) result.calm_took = (succeeded_ ? ended_ : world_.now()) - calm_since_;
  result.calm_share = Seconds(result.calm_took) / Seconds(LongestCalm());
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
