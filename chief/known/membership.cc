#include "chief/known/membership.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/input_bound.h"
#include "schema/host_port.h"
#include "schema/text.h"

namespace downpour {
namespace {

// Counts beyond this are not exact in JSON, and no process gets there honestly.
constexpr uint64_t kMaxCount = uint64_t{1} << 53;
constexpr size_t kMaxOwnWords = 256;  // of what a process says about itself
constexpr int kHottest = 200;         // degrees Celsius

constexpr size_t kMaxWarning = 512;
// Of what a worker heard between two heartbeats: more than chief and ps say where parameters do not get through.
constexpr uint64_t kSomeParameters = uint64_t{64} << 10;

// A pause of the chief itself, after which it believes nobody dead before having listened again: a share of dead_after.
constexpr int kOwnPauseShare = 4;

// Those that add up over processes and their successors, beside kPushCounts.
constexpr uint64_t TaskStats::*kOtherCounts[] = {
    &TaskStats::examples,       &TaskStats::messages_rejected, &TaskStats::handshakes_refused,
    &TaskStats::resident_bytes, &TaskStats::bytes_in,          &TaskStats::bytes_out,
    &TaskStats::table_rows,     &TaskStats::table_bytes,       &TaskStats::keys_unborn};

uint64_t LargestCount(const TaskStats& s) {
  const Staleness& d = s.staleness;
  uint64_t largest = std::max({s.gpu.memory_used, s.gpu.memory_total, d.pushes, d.unknown, d.sum, d.max});
  for (const PushCount& row : kPushCounts) largest = std::max(largest, s.*row.count);
  for (const auto count : kOtherCounts) largest = std::max(largest, s.*count);
  return largest;
}

absl::Status CheckStats(const TaskStats& s) {
  const Staleness& d = s.staleness;
  if (LargestCount(s) > kMaxCount) return absl::InvalidArgumentError(absl::StrCat("a count of ", LargestCount(s)));
  if (!std::isfinite(s.cpu_seconds) || s.cpu_seconds < 0) return absl::InvalidArgumentError("processor time below 0");
  if (d.histogram.size() > kStalenessBuckets + 1)
    return absl::InvalidArgumentError("a histogram of staleness too wide");
  uint64_t counted = d.unknown;
  for (const uint64_t bucket : d.histogram) {
    if (bucket > d.pushes) return absl::InvalidArgumentError("a staleness that more pushes have than there are");
    counted += bucket;
  }
  if (counted > d.pushes) return absl::InvalidArgumentError("a histogram of staleness that exceeds its pushes");
  return absl::OkStatus();
}

// Between two heartbeats. A worker that waits for nothing computes, or reads for its step, however long that takes; and
// however slow its link is, parameters that arrive are progress.
bool GotOn(TaskRole role, const TaskStats& before, const TaskStats& now) {
  if (now.steps > before.steps) return true;
  return role == TaskRole::kWorker && (WaitsForNothing(now) || now.bytes_in >= before.bytes_in + kSomeParameters);
}

Refused Refuse(RefusalCode code, bool for_good, std::string why) { return {code, for_good, std::move(why)}; }

bool SpeaksOurProtocol(const Join& join) {
  return join.oldest_protocol <= kProtocolVersion && join.protocol >= kOldestProtocolSpoken;
}

// What stands in status and logs is short and printable, whatever was said.
Join Cleaned(Join join) {
  for (std::string* words : {&join.host, &join.endpoint, &join.launcher, &join.device}) {
    *words = CleanText(*words, kMaxOwnWords);
  }
  return join;
}

}  // namespace

const char* NameOf(TaskState state) {
  switch (state) {
    case TaskState::kPending:
      return "PENDING";
    case TaskState::kPreparing:
      return "PREPARING";
    case TaskState::kRunning:
      return "RUNNING";
    case TaskState::kLost:
      return "LOST";
    case TaskState::kLeft:
      return "LEFT";
    case TaskState::kRefused:
      return "REFUSED";
  }
  return "?";
}

const char* NameOf(TaskRole role) {
  switch (role) {
    case TaskRole::kChief:
      return "chief";
    case TaskRole::kPs:
      return "ps";
    case TaskRole::kWorker:
      return "worker";
  }
  return "?";
}

Membership::Membership(const ClusterSpec& cluster, const Timing& timing) : timing_(timing) {
  for (int64_t index = 0; index < cluster.parameter_server_count; ++index) AddTask(TaskRole::kPs, index);
  SetWorkerCount(cluster.worker_count);
}

void Membership::AddTask(TaskRole role, int64_t index) {
  Task& task = tasks_.emplace_back();
  task.role = role;
  task.index = index;
  task.name = absl::StrCat(NameOf(role), "-", index);
  task.heard = last_look_;
}

void Membership::SetWorkerCount(int64_t count) {
  worker_count_ = count;
  for (int64_t next = tasks_.back().role == TaskRole::kWorker ? tasks_.back().index + 1 : 0; next < count; ++next) {
    AddTask(TaskRole::kWorker, next);
  }
}

void Membership::DropRetired() {
  while (IsRetired(tasks_.back()) && !tasks_.back().alive()) {
    AddStats(tasks_.back().stats, departed_[static_cast<size_t>(TaskRole::kWorker)]);
    tasks_.pop_back();
  }
}

void Membership::Begin(Time now, uint32_t term, uint64_t run) {
  term_ = term;
  run_ = run;
  for (Task& task : tasks_) task.heard = now;
}

// A process that asked before, under whatever name it got.
Task* Membership::FindProcess(const Join& join) {
  for (Task& task : tasks_) {
    if (task.role == join.role && task.incarnation != Incarnation::kNone && task.process.nonce == join.nonce) {
      return &task;
    }
  }
  return nullptr;
}

Task* Membership::ChooseTask(const Join& join, Refused* refusal) {
  const std::string kind = NameOf(join.role);
  int64_t wanted = 0;
  for (Task& task : tasks_) {
    if (task.role != join.role || IsRetired(task)) continue;
    if (join.index < 0 ? !task.alive() : task.index == join.index) return &task;
    ++wanted;
  }
  const char* remedy = join.role == TaskRole::kWorker ? "; downpour scale --workers changes their number" : "";
  *refusal =
      join.index < 0
          ? Refuse(RefusalCode::kNameTaken, false,
                   absl::StrCat("the job asks for ", wanted, " of kind ", kind, ", and all of them are there", remedy))
          : Refuse(RefusalCode::kNoSuchTask, true,
                   absl::StrCat("there is no ", kind, "-", join.index, ": the job asks for ", wanted,
                                " of them, counted from 0"));
  return nullptr;
}

Membership::Verdict Membership::Admit(Time now, PeerId from, const Join& join) {
  if (!SpeaksOurProtocol(join)) {
    return {.refusal = Refuse(RefusalCode::kProtocolVersion, true,
                              absl::StrCat("this process speaks protocol ", join.oldest_protocol, " to ", join.protocol,
                                           ", the chief ", kOldestProtocolSpoken, " to ", kProtocolVersion,
                                           ": install the same release on both"))};
  }
  if (join.role == TaskRole::kPs && (!IsDialable(join.endpoint) || join.endpoint.size() > kMaxOwnWords)) {
    return {.refusal = Refuse(RefusalCode::kEjected, true,
                              absl::StrCat("workers cannot dial \"", OneLine(join.endpoint, kMaxOwnWords),
                                           "\": a ps must listen on HOST:PORT or ipc:///PATH, in at most ",
                                           kMaxOwnWords, " characters"))};
  }
  if (IsAhead(join)) {
    return {.refusal =
                Refuse(RefusalCode::kUnknown, true,
                       absl::StrCat("a process of term ", ToNumber(join.was) >> 32, " of this run asks a chief of ",
                                    "term ", term_, ": the job folder was put back to an earlier state, and the ",
                                    "chief's clock is behind. What that process holds is lost; start it again"))};
  }
  Task* known = FindProcess(join);
  // A beat of that incarnation would bring it back as well.
  const bool is_back = known != nullptr && join.run == run_ && join.was == known->incarnation && Revive(*known);
  if (known != nullptr && known->alive()) {
    known->control = from;
    known->heard = now;
    if (join.number > known->process.number) {  // else an older one, late
      known->process.number = join.number;
      known->process.endpoint = Cleaned(join).endpoint;
    }
    return {.task = known, .is_back = is_back};
  }
  if (known != nullptr && known->state == TaskState::kRefused) return {.refusal = known->refusal};
  if (known != nullptr && known->state == TaskState::kLeft) {
    return {.refusal = Refuse(RefusalCode::kUnknown, false, "it said goodbye")};
  }
  Refused refusal;
  Task* task = known != nullptr && !IsRetired(*known) ? known : ChooseTask(join, &refusal);
  if (task == nullptr) return {.refusal = refusal};
  const bool restarted =
      !join.launcher.empty() && join.launcher == task->process.launcher && join.attempt > task->process.attempt;
  // Both had this place under earlier chiefs: who got it later holds more.
  const bool succeeds = Holds(join) && task->holds && join.was > task->process.was;
  if (task->alive() && !restarted && !succeeds) {
    return {.refusal = Refuse(RefusalCode::kNameTaken, false,
                              absl::StrCat("the name ", task->name, " is held by process ", task->process.pid, " on ",
                                           task->process.host, ", which is alive"))};
  }
  Verdict verdict{.task = task, .is_new = true};
  if (task->alive()) verdict.replaced = *task;
  TakeOver(now, from, join, *task);
  return verdict;
}

bool Membership::Holds(const Join& join) const {
  return join.run == run_ && ToNumber(join.was) >> 32 < term_ && Issued(join.was);
}

void Membership::TakeOver(Time now, PeerId from, const Join& join, Task& task) {
  AddStats(task.stats, departed_[static_cast<size_t>(task.role)]);
  Task fresh;
  fresh.role = task.role;
  fresh.index = task.index;
  fresh.name = task.name;
  fresh.state = TaskState::kPreparing;
  fresh.incarnation = Incarnation{uint64_t{term_} << 32 | ++issued_};
  fresh.process = Cleaned(join);
  fresh.holds = Holds(join);
  fresh.control = from;
  fresh.heard = now;
  task = std::move(fresh);
}

Task* Membership::Find(Incarnation incarnation) { return const_cast<Task*>(std::as_const(*this).Find(incarnation)); }

const Task* Membership::Find(Incarnation incarnation) const {
  if (incarnation == Incarnation::kNone) return nullptr;
  const auto found =
      std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& task) { return task.incarnation == incarnation; });
  return found == tasks_.end() ? nullptr : &*found;
}

const Task* Membership::FindNamed(const std::string& name) const {
  const auto found = std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& task) { return task.name == name; });
  return found == tasks_.end() ? nullptr : &*found;
}

Task* Membership::FindAlive(Incarnation incarnation) {
  Task* task = Find(incarnation);
  return task != nullptr && task->alive() ? task : nullptr;
}

Task* Membership::FindByPeer(PeerId peer) {
  for (Task& task : tasks_) {
    if (task.alive() && (task.control == peer || task.bulk == peer)) return &task;
  }
  return nullptr;
}

bool Membership::Issued(Incarnation incarnation) const {
  const uint64_t term = ToNumber(incarnation) >> 32;
  const auto counter = static_cast<uint32_t>(ToNumber(incarnation));
  return counter >= 1 && term >= 1 && (term < term_ || (term == term_ && counter <= issued_));
}

bool Membership::IsAhead(const Join& join) const {
  return join.run == run_ && ToNumber(join.was) >> 32 >= term_ && !Issued(join.was);
}

bool Membership::Revive(Task& task) {
  if (task.role != TaskRole::kPs || task.state != TaskState::kLost) return false;
  task.state = TaskState::kPreparing;
  return true;
}

absl::Status Membership::Receive(Time now, PeerId from, const Heartbeat& heartbeat, Task& task) {
  task.control = from;
  task.heard = now;
  task.placement_number = std::max(task.placement_number, heartbeat.placement);
  if (task.leaving.empty() && !heartbeat.leaving.empty()) {
    task.leaving = CleanText(heartbeat.leaving, kMaxOwnWords);
    task.leaving_since = now;
  }
  if (const absl::Status status = CheckStats(heartbeat.stats); !status.ok()) return status;
  const bool overtaken = heartbeat.stats.steps < task.stats.steps || heartbeat.stats.examples < task.stats.examples ||
                         heartbeat.stats.cpu_seconds < task.stats.cpu_seconds;
  if (overtaken) return absl::OkStatus();  // by a later one
  const TaskStats before = std::exchange(task.stats, heartbeat.stats);
  TaskStats& stats = task.stats;
  for (std::string* words : {&stats.waiting_for, &stats.refused_from, &stats.gpu.address, &stats.gpu.name}) {
    *words = CleanText(*words, kMaxOwnWords);
  }
  if (stats.waiting_for != before.waiting_for || stats.steps > before.steps) task.waiting_since = now;
  if (GotOn(task.role, before, stats)) task.got_on = now;
  task.warning = CleanText(stats.warning, kMaxWarning);
  task.warned_at = now - std::chrono::milliseconds(stats.warned_ms_ago);
  stats.gpu.utilisation = std::clamp(stats.gpu.utilisation, -1, 100);
  stats.gpu.celsius = std::clamp(stats.gpu.celsius, -1, kHottest);
  task.steps.Add(now, static_cast<double>(task.stats.steps));
  task.examples.Add(now, static_cast<double>(task.stats.examples));
  task.cpu_seconds.Add(now, task.stats.cpu_seconds);
  return absl::OkStatus();
}

Duration Membership::DiscountOwnPause(Time now) {
  const Duration pause = now - last_look_;
  // Before the first look there is always one.
  if (pause <= timing_.dead_after / kOwnPauseShare) return Duration::zero();
  last_look_ = now;
  for (Task& task : tasks_) {
    task.heard = std::min(now, task.heard + pause);
    if (task.let_go) task.let_go = std::min(now, *task.let_go + pause);
  }
  return pause;
}

std::vector<Task*> Membership::TakeSilent(Time now) {
  last_look_ = now;
  std::vector<Task*> silent;
  for (Task& task : tasks_) {
    if (!task.alive() || now - task.heard < timing_.dead_after) continue;
    task.state = TaskState::kLost;
    silent.push_back(&task);
  }
  return silent;
}

bool Membership::AllAlive(TaskRole role) const {
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [role](const Task& task) { return task.role != role || task.alive(); });
}

std::vector<Task*> Membership::Alive(TaskRole role) {
  std::vector<Task*> alive;
  for (Task& task : tasks_) {
    if (task.role == role && task.alive()) alive.push_back(&task);
  }
  return alive;
}

TaskStats Membership::Totals(TaskRole role) const {
  TaskStats totals = departed_[static_cast<size_t>(role)];
  for (const Task& task : tasks_) {
    if (task.role == role) AddStats(task.stats, totals);
  }
  return totals;
}

void AddStats(const TaskStats& from, TaskStats& to) {
  for (const PushCount& row : kPushCounts) to.*row.count += from.*row.count;
  for (const auto count : kOtherCounts) to.*count += from.*count;
  to.cpu_seconds += from.cpu_seconds;
  to.staleness.pushes += from.staleness.pushes;
  to.staleness.unknown += from.staleness.unknown;
  to.staleness.sum += from.staleness.sum;
  to.staleness.max = std::max(to.staleness.max, from.staleness.max);
  auto& histogram = to.staleness.histogram;
  histogram.resize(std::max(histogram.size(), from.staleness.histogram.size()));
  for (size_t i = 0; i < from.staleness.histogram.size(); ++i) histogram[i] += from.staleness.histogram[i];
}

}  // namespace downpour
