#include "tools/local_run.h"

#include <sys/wait.h>
#include <zmq.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/human_units.h"
#include "tools/job_folder.h"
#include "tools/progress.h"

namespace downpour {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr Duration kQuestionEvery = 500ms;  // fast enough for a line that people watch
constexpr Duration kLineEvery = 5s;         // in a pipe
// A task that ends by itself may only follow the job's end; a moment later the chief's own end shows it.
constexpr Duration kRestartNoSooner = 1s;
constexpr Duration kMembersLeaveWithin = 3s;

std::string Who(const Exited& exited) { return absl::StrCat(exited.name, " (pid ", exited.pid, ")"); }

}  // namespace

LocalRun::LocalRun(LocalCluster cluster, Supervisor& supervisor, Talk& talk, bool show_progress)
    : cluster_(std::move(cluster)), supervisor_(supervisor), talk_(talk), show_progress_(show_progress) {}

RunResult LocalRun::UntilEnd() {
  absl::StatusOr<FolderWatch> folder = FolderWatch::Open(cluster_.job_dir);
  const absl::Status started = folder.ok() ? supervisor_.Start(ChiefProcess(cluster_)) : folder.status();
  if (!started.ok()) {
    result_.cause = std::string(started.message());
    return result_;
  }
  folder_ = std::move(*folder);
  chief_pid_ = supervisor_.PidOf(kChiefTask);
  while (supervisor_.IsRunning(kChiefTask)) {
    Wait();
    const Supervisor::News news = supervisor_.Collect();
    for (const int signal : news.signals) OnSignal(signal);
    for (const Exited& exited : news.exited) OnExit(exited);
    if (!supervisor_.IsRunning(kChiefTask)) break;
    if (!chief_) LookForChief();
    if (chief_) TalkToChief();
    StartDue();
  }
  talk_.EndProgress();
  LetMembersLeave();
  return result_;
}

void LocalRun::Wait() {
  zmq_pollitem_t items[] = {{nullptr, supervisor_.fd(), ZMQ_POLLIN, 0},
                            {chief_ ? chief_->socket() : nullptr, folder_->fd(), ZMQ_POLLIN, 0}};
  Clock::time_point until = chief_ ? next_question_ : Clock::time_point::max();
  for (const auto& [task, start] : due_) until = std::min(until, start.when);
  long timeout_ms = -1;
  if (until != Clock::time_point::max()) {
    timeout_ms = std::max<long>(0, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count());
  }
  zmq_poll(items, 2, timeout_ms);
}

void LocalRun::OnSignal(int signal) {
  if (result_.stop_signal != 0) {
    talk_.Say("downpour run: stopped at once");
    supervisor_.KillAll();
    return;
  }
  result_.stop_signal = signal;
  due_.clear();
  talk_.Say("downpour run: stopping; once more to stop at once");
  supervisor_.Send(kChiefTask, SIGTERM);
}

void LocalRun::OnExit(const Exited& exited) {
  const std::string how = DescribeEnd(exited.wait_status);
  const bool killed = WIFSIGNALED(exited.wait_status);
  if (exited.name == kChiefTask) {
    if (!killed) result_.chief_exit = WEXITSTATUS(exited.wait_status);
    if (killed && result_.cause.empty()) result_.cause = absl::StrCat("the chief died: ", Who(exited), " got ", how);
    return;
  }
  const bool job_is_over = result_.stop_signal != 0 || !result_.cause.empty() || HasEnded(status_);
  if (job_is_over || (!killed && WEXITSTATUS(exited.wait_status) == 0)) return;
  if (!IsServerTask(exited.name)) return OnWorkerExit(exited, how);
  if (!killed) return;  // it follows the job's end, or says why in its log; the chief knows what becomes of the job
  result_.cause = absl::StrCat("a parameter server died: ", Who(exited), " got ", how);
  talk_.Say(absl::StrCat("downpour run: ", result_.cause, "; waiting for the chief to end the job"));
}

void LocalRun::OnWorkerExit(const Exited& exited, const std::string& how) {
  const double progress = status_.leases_committed.value_or(0);
  const auto restart = budget_.Spend(exited.name, progress, exited.lived, how);
  if (!restart) {
    return GiveUp(absl::StrCat(exited.name, " ended ", RestartBudget::kMaxRestarts + 1,
                               " times without progress of the job in between, the first time by ",
                               budget_.FirstEnd(exited.name), "; see ", LogPath(cluster_.job_dir, exited.name)));
  }
  const Duration delay = WIFSIGNALED(exited.wait_status) ? restart->delay : std::max(restart->delay, kRestartNoSooner);
  due_[exited.name] = {Clock::now() + delay, restart->attempt, absl::StrCat(Who(exited), " ended: ", how)};
}

void LocalRun::LookForChief() {
  folder_->Drain();
  const absl::StatusOr<ChiefLocation> location = ReadChiefLocation(cluster_.job_dir);
  if (!location.ok() || location->pid != chief_pid_) return;  // not there yet, or of an earlier chief
  absl::StatusOr<ChiefClient> client = ChiefClient::Dial(location->endpoint);
  if (!client.ok()) return GiveUp(std::string(client.status().message()));
  chief_.emplace(*std::move(client));
  talk_.Say(absl::StrCat("downpour run: chief at ", location->endpoint, ", ", cluster_.servers, " ps, ",
                         cluster_.workers, " workers; job folder ", cluster_.job_dir));
  for (const std::string& task : MemberTasks(cluster_)) StartMember(task, 0);
}

void LocalRun::TalkToChief() {
  const absl::StatusOr<std::optional<std::string>> answer = chief_->TryTake();
  if (answer.ok() && answer->has_value()) {
    if (const absl::StatusOr<StatusView> status = ParseStatus(**answer); status.ok()) OnStatus(*status);
  }
  if (Clock::now() < next_question_) return;
  chief_->TryAsk();
  next_question_ = Clock::now() + kQuestionEvery;
}

void LocalRun::OnStatus(const StatusView& status) {
  for (const FailureView& failure : status.failures) {
    const std::string told = absl::StrCat(failure.task, ": ", failure.what);
    if (failures_told_.insert(absl::StrCat(failure.unix_ms.value_or(0), told)).second) {
      talk_.Say("chief: " + Printable(told));
    }
  }
  const bool changed = status.state != status_.state;
  status_ = status;
  if (!show_progress_ || (!talk_.traits().redraws && !changed && Clock::now() < next_line_)) return;
  talk_.Progress(ProgressLine(status));
  next_line_ = Clock::now() + kLineEvery;
}

void LocalRun::StartDue() {
  for (auto start = due_.begin(); start != due_.end();) {
    if (start->second.when > Clock::now()) {
      ++start;
      continue;
    }
    const auto [task, due] = *start;
    start = due_.erase(start);
    StartMember(task, due.attempt);
    talk_.Say(absl::StrCat("downpour run: ", due.ended, "; started again as pid ", supervisor_.PidOf(task)));
  }
}

void LocalRun::StartMember(const std::string& task, uint32_t attempt) {
  const absl::Status started = supervisor_.Start(MemberProcess(cluster_, task, chief_->endpoint(), attempt));
  if (!started.ok()) GiveUp(std::string(started.message()));
}

void LocalRun::GiveUp(const std::string& cause) {
  if (!result_.cause.empty()) return;
  result_.cause = cause;
  due_.clear();
  talk_.Say("downpour run: " + cause);
  supervisor_.Send(kChiefTask, SIGTERM);
}

void LocalRun::LetMembersLeave() {
  const auto deadline = Clock::now() + kMembersLeaveWithin;
  // Without a chief that said so nobody knows that it is over.
  while (result_.chief_exit && supervisor_.running() > 0 && Clock::now() < deadline) {
    zmq_pollitem_t item = {nullptr, supervisor_.fd(), ZMQ_POLLIN, 0};
    zmq_poll(&item, 1, std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count());
    if (!supervisor_.Collect().signals.empty()) break;
  }
  supervisor_.KillAll();
}

}  // namespace downpour
