#include "cluster/local_run.h"

#include <sys/wait.h>
#include <zmq.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cluster/human_units.h"
#include "cluster/job_folder.h"
#include "cluster/poll_timeout.h"
#include "cluster/progress.h"
#include "runtime/exit_code.h"
#include "runtime/options.h"
#include "runtime/posix/process.h"
#include "runtime/process/child.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr Duration kLineEvery = 5s;  // in a pipe
// A task that ends by itself may only follow the job's end; a moment later the chief's own end shows it.
constexpr Duration kRestartNoSooner = 1s;

// As the chief sees it. One that is away is LOST, or PENDING to a chief that came after it.
bool IsHere(const TaskReport& task) { return task.state == "PREPARING" || task.state == "RUNNING"; }

std::string Who(const Exited& exited) { return absl::StrCat(exited.name, " (pid ", exited.pid, ")"); }

std::string EndOf(const Exited& exited, const std::string& how) { return absl::StrCat(Who(exited), " ended: ", how); }

}  // namespace

LocalRun::LocalRun(LocalCluster cluster, Supervisor& supervisor, Talk& talk, bool show_progress, Journalled journalled,
                   RunPace pace)
    : cluster_(std::move(cluster)),
      supervisor_(supervisor),
      talk_(talk),
      show_progress_(show_progress),
      journalled_(std::move(journalled)),
      pace_(pace),
      announcement_(cluster_.job_dir),
      budget_(pace.restarts) {}

RunResult LocalRun::UntilEnd() {
  absl::StatusOr<FolderWatch> folder = FolderWatch::Open(cluster_.job_dir);
  if (!folder.ok()) {
    result_.cause = std::string(folder.status().message());
    return result_;
  }
  folder_ = std::move(*folder);
  Start(kChiefTask, 0);
  while (supervisor_.IsRunning(kChiefTask) || due_.contains(kChiefTask)) {
    Wait();
    const Supervisor::News news = supervisor_.Collect();
    for (const int signal : news.signals) OnSignal(signal);
    for (const Exited& exited : news.exited) OnExit(exited);
    if (!chief_) LookForChief();
    if (chief_) TalkToChief();
    StartDue();
  }
  talk_.EndProgress();
  LetMembersLeave();
  CountDropped();
  ReadSummary();
  return result_;
}

void LocalRun::Wait() {
  zmq_pollitem_t items[] = {{nullptr, supervisor_.fd(), ZMQ_POLLIN, 0},
                            {chief_ ? chief_->socket() : nullptr, folder_->fd(), ZMQ_POLLIN, 0}};
  Clock::time_point until = chief_ ? next_question_ : Clock::time_point::max();
  for (const auto& [task, start] : due_) until = std::min(until, start.when);
  zmq_poll(items, 2, PollTimeout(until - Clock::now()));
}

void LocalRun::OnExit(const Exited& exited) {
  const std::string how =
      absl::StrCat(DescribeEnd(exited.wait_status), StoodStill(exited) ? ", as it stood still" : "");
  const bool killed = WIFSIGNALED(exited.wait_status);
  if (exited.name == kChiefTask) return OnChiefExit(exited, how);
  if (IsOver() || !IsWanted(exited.name)) return;
  if (!killed && WEXITSTATUS(exited.wait_status) == kExitDone) {
    left_[exited.name] = 0;
    return;
  }
  StartAgain(exited.name, {.what = EndOf(exited, how),
                           .how = how,
                           .lived = exited.lived,
                           .no_sooner = killed ? Duration::zero() : kRestartNoSooner});
}

// One that ends by itself ends the job, unless it never led it.
void LocalRun::OnChiefExit(const Exited& exited, const std::string& how) {
  const bool refused = HasRefused(exited);
  if (!WIFSIGNALED(exited.wait_status) && !refused) {
    result_.chief_exit = WEXITSTATUS(exited.wait_status);
    due_.clear();
    return;
  }
  if (WIFSIGNALED(exited.wait_status) && TakeWordOf(Ending::kAnother)) return;
  if (HasGivenUp() || (result_.stop_signal != 0 && !StartsALastChief())) return;
  // The next one would go on without them. After a signal to stop every ps is still there, and waits for its end.
  const bool members_left = result_.stop_signal == 0 && HasEnded(status_) && status_.state != "SUCCEEDED";
  if (!refused && members_left) {
    return NameCause(absl::StrCat("the chief died as the job ended: ", Who(exited), " got ", how));
  }
  Setback setback{.what = EndOf(exited, how), .how = how, .lived = exited.lived};
  if (refused) {
    absl::StrAppend(&setback.how, ", its log ends with: ", Printable(LastWordIn(cluster_.job_dir, kChiefTask)));
    setback.no_sooner = pace_.after_refusal;  // for people to mend what it refuses for
    talk_.Say(absl::StrCat("downpour run: ", EndOf(exited, setback.how)));
  }
  if (result_.stop_signal != 0) {  // whatever is left of its budget
    due_[kChiefTask] = {.when = Clock::now(), .after = setback.what};
    return;
  }
  StartAgain(kChiefTask, setback);
  if (!chief_ || IsOver()) return;
  for (const std::string& member : MemberTasks(cluster_)) {  // needed again, should it go on
    if (!supervisor_.IsRunning(member) && !due_.contains(member)) BringBack(member);
  }
}

void LocalRun::BringBack(const std::string& task) {
  const RestartBudget::Restart restart = budget_.Spend(task, 0, RestartBudget::kShortLife, "its chief's word");
  due_[task] = {Clock::now() + kRestartNoSooner, restart.attempt, absl::StrCat(task, " left at its chief's word")};
}

// It came in the place of another, and left no word of the job's end, as where the disk is full: what the job has
// learned since its last checkpoint is still there, in the ps.
bool LocalRun::HasRefused(const Exited& chief) const {
  if (WIFSIGNALED(chief.wait_status) || WEXITSTATUS(chief.wait_status) != kExitFailed) return false;
  if (!chief_ || HasGivenUp() || result_.stop_signal != 0) return false;
  const std::vector<std::string> members = MemberTasks(cluster_);
  if (std::none_of(members.begin(), members.end(), [this](const auto& task) { return supervisor_.IsRunning(task); })) {
    return false;
  }
  const std::optional<ChiefLocation> location = announcement_.Look();
  if (!location) return true;
  const bool led = leader_ == chief.pid || HasEnded(status_);
  return !led && !ReadSummaryOf(cluster_.job_dir, location->term).ok();
}

void LocalRun::StartAgain(const std::string& task, const Setback& after) {
  const double progress = task == kChiefTask ? journalled_() : status_.progress.leases_committed.value_or(0);
  // A chief that refuses is tried at one pace: a person who mends its disk does not wait ever longer.
  const Duration least = task == kChiefTask ? Duration::zero() : after.no_sooner;
  const RestartBudget::Restart restart = budget_.Spend(task, progress, after.lived, after.how, least);
  due_[task] = {Clock::now() + std::max(restart.delay, after.no_sooner), restart.attempt, after.what};
  if (!IsBeyondHope(task)) return;
  if (task == kChiefTask && TakeWordOf(Ending::kSuccess)) return;
  GiveUp(WhyNoMore(task));
}

// Nobody else has what a ps holds, nor is there another chief; of workers one is enough.
bool LocalRun::IsBeyondHope(const std::string& task) {
  return task == kChiefTask || IsServerTask(task) ? budget_.Of(task).spent() : NoWorkerGetsOn();
}

std::string LocalRun::WhyNoMore(const std::string& task) {
  const RestartBudget::Account& account = budget_.Of(task);
  return absl::StrCat(task, " ended ", account.ends,
                      " times without progress of the job in between, the first time by ", account.first_end,
                      account.last_end == account.first_end ? "" : ", the last time by " + account.last_end, "; see ",
                      LogPath(cluster_.job_dir, task), ", which ends: ", LastWordIn(cluster_.job_dir, task));
}

// None runs, and each that could be started again has spent its budget.
bool LocalRun::NoWorkerGetsOn() {
  for (const std::string& task : MemberTasks(cluster_)) {
    if (!IsServerTask(task) && supervisor_.IsRunning(task)) return false;
  }
  return std::all_of(due_.begin(), due_.end(), [&](const auto& due) { return budget_.Of(due.first).spent(); });
}

void LocalRun::LookForChief() {
  folder_->Drain();
  const std::optional<ChiefLocation> location = announcement_.Look();
  if (!location) return;
  absl::StatusOr<ChiefClient> client = ChiefClient::DialWithKeysIn(cluster_.keys, location->endpoint);
  if (!client.ok()) return GiveUp(std::string(client.status().message()));
  client->UseSecret(location->secret);
  chief_.emplace(*std::move(client));
  for (const std::string& task : MemberTasks(cluster_)) {
    if (!Start(task, 0) && HasGivenUp()) return;
  }
  // Not before they are there: who reads this may ask for any task's log.
  talk_.Say(absl::StrCat("downpour run: chief at ", location->endpoint, ", ", cluster_.servers, " ps, ",
                         Counted(static_cast<uint64_t>(cluster_.workers), "worker"), "; job folder ", cluster_.job_dir,
                         cluster_.keys.empty() ? "" : "; keys " + cluster_.keys));
}

void LocalRun::TalkToChief() {
  const absl::StatusOr<std::optional<std::string>> answer = chief_->TryTake();
  if (answer.ok() && answer->has_value()) {
    if (const absl::StatusOr<StatusReport> status = ParseStatus(**answer); status.ok()) OnStatus(*status);
  }
  if (absl::IsPermissionDenied(answer.status())) DialAgain();
  // Another chief leads now, at the same address, and drew a secret of its own before it was announced.
  if (const auto location = absl::IsUnauthenticated(answer.status()) ? announcement_.Look() : std::nullopt) {
    chief_->UseSecret(location->secret);
  }
  if (Clock::now() < next_question_) return;
  CountLooks();
  chief_->TryAsk();
  next_question_ = Clock::now() + pace_.question_every;
}

// The clients' key was renewed, and the old one taken out of the chief's list: the chief lives.
void LocalRun::DialAgain() {
  answered_ = true;
  absl::StatusOr<ChiefClient> client = ChiefClient::DialWithKeysIn(cluster_.keys, chief_->endpoint());
  if (!client.ok()) return;
  client->UseSecret(chief_->secret());
  chief_.emplace(*std::move(client));
}

void LocalRun::TellNews(const StatusReport& status) {
  for (const std::string& change : status.changes) {
    const std::string told = "changed since the job was last led: " + change;
    if (failures_told_.insert(told).second) talk_.Say("downpour run: " + Printable(told));
  }
  for (const FailureReport& failure : status.failures) {
    const std::string told = absl::StrCat(failure.task, ": ", failure.what);
    if (!failures_told_.insert(absl::StrCat(failure.unix_ms.value_or(0), told)).second) continue;
    if (failure.unix_ms && *failure.unix_ms < static_cast<uint64_t>(began_unix_ms_)) continue;  // in an earlier run
    const bool is_old = failure.age && *failure.age > Seconds(kLineEvery);
    talk_.Say(
        absl::StrCat("downpour run: ", Printable(told), is_old ? ", " + HumanSeconds(*failure.age) + " ago" : ""));
  }
}

// Its own chief has died then, and another job's took the port. Nothing that it says is of this job.
bool LocalRun::IsForeign(const StatusReport& status) {
  const bool is_foreign = IsAnotherRun(status_.run, status.run);
  if (is_foreign && failures_told_.insert("run " + status.run).second) {
    talk_.Say(absl::StrCat("downpour run: at ", chief_->endpoint(),
                           " there is the chief of another run now, of the job ", status.job,
                           ": end that, or start this job again at another port (--listen)"));
  }
  return is_foreign;
}

void LocalRun::OnStatus(const StatusReport& status) {
  answered_ = true;
  if (IsForeign(status)) return;
  TellNews(status);
  for (const TaskReport& task : status.tasks) {
    const pid_t pid = supervisor_.PidOf(task.name);
    const bool same_process = task.pid == static_cast<uint64_t>(pid);
    if (same_process && task.step.value_or(0) > 0) budget_.Refill(task.name);
    if (same_process && IsHere(task)) pulses_[task.name] = {pid, /*joined=*/true};
  }
  if (const pid_t chief = supervisor_.PidOf(kChiefTask); status.chief.pid == static_cast<uint64_t>(chief)) {
    if (status.progress.commits.value_or(0) > 0) budget_.Refill(kChiefTask);
    pulses_[kChiefTask] = {chief, /*joined=*/true};
    if (status.chief.term.value_or(0) > 0) leader_ = chief;
    if (result_.stop_signal != 0 && leader_ == chief) AskChiefToEnd(result_.stop_signal);
  }
  const bool changed = status.state != status_.state;
  status_ = status;
  if (HasEnded(status_)) std::erase_if(due_, [](const auto& due) { return due.first != kChiefTask; });
  FollowWorkerCount();
  BringBackThoseWhoLeft();
  if (!show_progress_ || (!talk_.traits().redraws && !changed && Clock::now() < next_line_)) return;
  talk_.Progress(ProgressLine(status));
  next_line_ = Clock::now() + kLineEvery;
}

// Looks are counted, no time is taken: while this process itself stands still it misses nobody, and a chief that was
// away does not tell of many looks at once.
void LocalRun::CountLooks() {
  if (!std::exchange(answered_, false)) return MissSignOfLife(kChiefTask);
  if (IsOver() || status_.chief.term == 0) return;  // 0: it still reads its folder, and takes nobody in yet
  for (const TaskReport& task : status_.tasks) {
    if (!IsHere(task)) MissSignOfLife(task.name);
  }
}

// A job that waits less for a ps leaves its successor the time to come. Whoever the chief holds dead has been silent
// for dead_after already.
Duration LocalRun::PatienceWith(const Pulse& pulse) const {
  if (!pulse.joined) return pace_.start_patience;
  return std::min(pace_.patience, std::max(cluster_.server_wait / 4, Timing().dead_after));
}

void LocalRun::MissSignOfLife(const std::string& task) {
  const auto found = pulses_.find(task);
  const pid_t pid = supervisor_.PidOf(task);
  if (found == pulses_.end() || found->second.pid != pid || IsSpent(found->second)) return;
  Pulse& pulse = found->second;
  ++pulse.looks;
  if (!IsSpent(pulse)) return;
  talk_.Say(absl::StrCat("downpour run: ", task, " (pid ", pid,
                         pulse.joined ? ") stands still, with no sign of life for more than "
                                      : ") stands still, and has not joined for more than ",
                         HumanSeconds(Seconds(PatienceWith(pulse))), ": it is killed"));
  supervisor_.Send(task, SIGKILL);
}

bool LocalRun::StoodStill(const Exited& exited) const {
  const auto found = pulses_.find(exited.name);
  return found != pulses_.end() && found->second.pid == exited.pid && IsSpent(found->second);
}

void LocalRun::StartDue() {
  std::vector<std::string> tasks;  // a start that fails clears due_
  for (const auto& [task, start] : due_) {
    if (start.when <= Clock::now()) tasks.push_back(task);
  }
  for (const std::string& task : tasks) {
    const DueStart start = due_.extract(task).mapped();
    if (Start(task, start.attempt)) {
      talk_.Say(absl::StrCat("downpour run: ", start.after, "; started again as pid ", supervisor_.PidOf(task)));
    } else if (HasGivenUp()) {
      return;
    }
  }
}

bool LocalRun::Start(const std::string& task, uint32_t attempt) {
  const bool is_chief = task == kChiefTask;
  const std::string endpoint = chief_ ? chief_->endpoint() : "";
  const absl::Status started =
      supervisor_.Start(is_chief ? ChiefProcess(cluster_, endpoint) : MemberProcess(cluster_, task, endpoint, attempt));
  if (started.ok()) {
    const pid_t pid = supervisor_.PidOf(task);
    if (is_chief) {
      chief_asked_to_end_ = false;
      announcement_.Expect(pid);
    } else {
      pulses_[task] = {pid};
    }
    return true;
  }
  const std::string why(started.message());
  if (!MayPass(started)) {
    GiveUp(why);
    return false;
  }
  talk_.Say(absl::StrCat("downpour run: ", task, ": ", why));
  StartAgain(task, {.what = absl::StrCat(task, ": ", why), .how = "a start that failed: " + why});
  return false;
}

}  // namespace downpour
