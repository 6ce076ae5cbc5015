// A cluster on this machine, from its start to its end: starts chief, ps and workers, starts the dead again, says
// how it goes, and knows in the end what it was that ended it.
//
//   LocalRun run(cluster, *supervisor, talk, /*show_progress=*/true, journalled);
//   const RunResult result = run.UntilEnd();
//
// Order: the chief first; the others once it says where it listens, where a chief in its place listens too; the run is
//   over when the chief has ended by itself. A chief that is killed after the signal to stop is started again a few
//   times more, as long as every ps is there: only a chief writes the last checkpoint.
// Errors: a chief that is killed again and again ends the job; a ps that dies again and again, and workers that all do,
//   are a reason to ask the chief to end it. So is a program that cannot be started; one for which there is no room now
//   counts as one that died, and is tried again. One that runs and gives no sign of life, or never joins, is killed and
//   started again; a chief that refuses to take the place of one that had answered is tried again as one that died is.
//   The first cause is the one named, also in summary.json and in logs/run.log. SIGINT, SIGTERM or SIGHUP ask the chief
//   to end the job, a second one kills everything at once.
// Threads: one.
// Tests: tests/unit/cluster/local_run_test.cc, local_run_end_test.cc,
//   local_run_stands_still_test.cc.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cluster/chief_client.h"
#include "cluster/folder_watch.h"
#include "cluster/job_folder.h"
#include "cluster/restart_budget.h"
#include "cluster/role_commands.h"
#include "cluster/status_view.h"
#include "cluster/supervisor.h"
#include "cluster/terminal.h"
#include "runtime/posix/process.h"
#include "runtime/world_time.h"

namespace downpour {

struct RunResult {
  std::optional<int> chief_exit;         // its exit code; nothing if it was killed
  int stop_signal = 0;                   // that asked this process to stop; 0: none
  std::string cause;                     // what ended the job, if that is known here: a process that died
  uint64_t leases_dropped = 0;           // at least: committed, and in no checkpoint, as no chief lived to write one
  std::optional<SummaryReport> summary;  // that the chief wrote
};

struct RunPace {
  RestartDelays restarts;
  Duration after_refusal = 10s;     // of a chief that does not take the place of the one before
  Duration question_every = 500ms;  // fast enough for a line that people watch
  Duration members_leave_within = 3s;
  // From when the chief holds a process dead that still runs, or from a chief's own last answer, to its end by
  // SIGKILL. As long as systemd's WatchdogSec in deploy/: a machine that swaps or stood still takes seconds, and what
  // a ps holds has to be computed again.
  Duration patience = 30s;
  // From a task's start to its joining, in which it loads its program and opens its GPU, but reads no data yet: as
  // long as systemd's TimeoutStartSec, unless it is told otherwise.
  Duration start_patience = 90s;
  // From the signal to stop to the start of the last chief for it, which has as long itself for its checkpoint.
  Duration last_chiefs_within = 20s;
};

class LocalRun {
 public:
  // How far the job is, as the chief's journal in the job folder says: rises while the job gets on. A chief may die
  // before it has been asked for its status.
  using Journalled = std::function<double()>;
  LocalRun(LocalCluster cluster, Supervisor& supervisor, Talk& talk, bool show_progress, Journalled journalled,
           RunPace pace = {});
  RunResult UntilEnd();

  // That are started after the signal to stop, one after the other was killed. What kills each of them would hold up
  // whoever wants the end.
  static constexpr int kMostLastChiefs = 3;

 private:
  using Clock = std::chrono::steady_clock;
  struct DueStart {
    Clock::time_point when;
    uint32_t attempt = 0;
    std::string after;  // what happened before
  };
  struct Setback {
    std::string what;  // "worker-0 (pid 7) ended: signal 9 (SIGKILL)"
    std::string how;   // "signal 9 (SIGKILL)"
    Duration lived{};
    Duration no_sooner{};
  };
  struct Pulse {
    pid_t pid = 0;
    bool joined = false;  // of the chief: it has answered
    int looks = 0;        // in vain, one with each question, since its last sign of life
  };

  void Wait();
  void OnSignal(int signal);
  void OnExit(const Exited& exited);
  void OnChiefExit(const Exited& exited, const std::string& how);
  bool HasRefused(const Exited& chief) const;
  void StartAgain(const std::string& task, const Setback& after);  // soon, or gives up where nobody gets on any more
  void BringBack(const std::string& task);                         // soon, as it left in good order
  bool IsBeyondHope(const std::string& task);
  bool NoWorkerGetsOn();
  std::string WhyNoMore(const std::string& task);
  void LookForChief();
  void TalkToChief();
  void DialAgain();
  void OnStatus(const StatusReport& status);
  void TellNews(const StatusReport& status);
  bool IsForeign(const StatusReport& status);
  void FollowWorkerCount();
  void BringBackThoseWhoLeft();
  bool IsWanted(const std::string& task) const;
  void CountLooks();
  Duration PatienceWith(const Pulse& pulse) const;
  bool IsSpent(const Pulse& pulse) const { return pulse.looks * pace_.question_every >= PatienceWith(pulse); }
  void MissSignOfLife(const std::string& task);
  bool StoodStill(const Exited& exited) const;
  bool IsOver() const { return result_.stop_signal != 0 || HasGivenUp() || HasEnded(status_); }
  void StartDue();
  bool Start(const std::string& task, uint32_t attempt);  // false: it is tried again, or this has given up
  bool HasGivenUp() const { return !result_.cause.empty(); }
  void GiveUp(const std::string& cause);  // asks the chief to end the job for this reason
  void NameCause(const std::string& cause);
  void AskChiefToEnd(int signal);  // if it is there; once: a second signal would kill it
  bool StartsALastChief();
  // Of a success there is more to tell than its summary: the next chief lets the members go, and others have to be told
  // to resume. So its word alone counts only once there is no next chief.
  enum class Ending { kSuccess, kAnother };
  bool TakeWordOf(Ending ending);  // false: there is none
  void LetMembersLeave();
  void CountDropped();
  void ReadSummary();

  LocalCluster cluster_;  // its number of workers is the chief's word
  Supervisor& supervisor_;
  Talk& talk_;
  const bool show_progress_;
  const Journalled journalled_;
  const RunPace pace_;
  ChiefAnnouncement announcement_;
  bool chief_asked_to_end_ = false;  // that is running now
  int last_chiefs_ = 0;              // started since the signal to stop
  std::optional<FolderWatch> folder_;
  std::optional<ChiefClient> chief_;  // once it listens
  RestartBudget budget_;
  std::map<std::string, DueStart> due_;
  std::map<std::string, int> left_;      // members that ended with 0, and answers of the chief since
  StatusReport status_;                  // the last one
  bool answered_ = false;                // since the last question
  std::map<std::string, Pulse> pulses_;  // of tasks; of the chief, once it has answered
  pid_t leader_ = 0;                     // the last chief that led: it may answer before, while it reads its folder
  std::set<std::string> failures_told_;
  const int64_t began_unix_ms_ = UnixMs();
  Clock::time_point next_question_;
  Clock::time_point stopping_since_;  // where a signal said so
  Clock::time_point next_line_;
  RunResult result_;
};

}  // namespace downpour
