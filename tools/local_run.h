// A cluster on this machine, from its start to its end: starts chief, ps and workers, starts the dead again, says
// how it goes, and knows in the end what it was that ended it.
//
//   LocalRun run(cluster, *supervisor, talk);
//   const RunResult result = run.UntilEnd();
//
// Order: the chief first; the others once it says where it listens, where a chief in its place listens too; the run is
//   over when the chief has ended by itself.
// Errors: a chief that is killed again and again ends the job; a ps that dies again and again, and workers that all do,
//   are a reason to ask the chief to end it. So is a program that cannot be started; one for which there is no room now
//   counts as one that died, and is tried again. The first cause is the one named, also in summary.json. SIGINT,
//   SIGTERM or SIGHUP ask the chief to end the job, a second one kills everything at once.
// Threads: one.
// Tests: tests/unit/tools/local_run_test.cc.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "runtime/world_time.h"
#include "tools/chief_client.h"
#include "tools/folder_watch.h"
#include "tools/job_folder.h"
#include "tools/restart_budget.h"
#include "tools/role_commands.h"
#include "tools/status_view.h"
#include "tools/supervisor.h"
#include "tools/terminal.h"

namespace downpour {

struct RunResult {
  std::optional<int> chief_exit;       // its exit code; nothing if it was killed
  int stop_signal = 0;                 // that asked this process to stop; 0: none
  std::string cause;                   // what ended the job, if that is known here: a process that died
  std::optional<SummaryView> summary;  // that the chief wrote
};

struct RunPace {
  RestartDelays restarts;
  Duration question_every = 500ms;  // fast enough for a line that people watch
  Duration members_leave_within = 3s;
};

class LocalRun {
 public:
  LocalRun(LocalCluster cluster, Supervisor& supervisor, Talk& talk, bool show_progress, RunPace pace = {});
  RunResult UntilEnd();

 private:
  using Clock = std::chrono::steady_clock;
  struct DueStart {
    Clock::time_point when;
    uint32_t attempt = 0;
    std::string after;  // what happened before
  };

  void Wait();
  void OnSignal(int signal);
  void OnExit(const Exited& exited);
  void OnChiefExit(const Exited& exited, const std::string& how);
  struct Setback {
    std::string what;  // "worker-0 (pid 7) ended: signal 9 (SIGKILL)"
    std::string how;   // "signal 9 (SIGKILL)"
    Duration lived{};
    Duration no_sooner{};
  };
  void StartAgain(const std::string& task, const Setback& after);  // soon, or gives up where nobody gets on any more
  bool IsBeyondHope(const std::string& task);
  bool NoWorkerGetsOn();
  std::string WhyNoMore(const std::string& task);
  void LookForChief();
  void TalkToChief();
  void OnStatus(const StatusView& status);
  void StartDue();
  bool Start(const std::string& task, uint32_t attempt);  // false: it is tried again, or this has given up
  bool HasGivenUp() const { return !result_.cause.empty(); }
  void GiveUp(const std::string& cause);  // asks the chief to end the job for this reason
  void AskChiefToEnd(int signal);         // once: a second signal would kill it
  void LetMembersLeave();
  void ReadSummary();

  const LocalCluster cluster_;
  Supervisor& supervisor_;
  Talk& talk_;
  const bool show_progress_;
  const RunPace pace_;
  ChiefAnnouncement announcement_;
  bool chief_asked_to_end_ = false;
  std::optional<FolderWatch> folder_;
  std::optional<ChiefClient> chief_;  // once it listens
  RestartBudget budget_;
  std::map<std::string, DueStart> due_;
  StatusView status_;  // the last one
  std::set<std::string> failures_told_;
  Clock::time_point next_question_;
  Clock::time_point next_line_;
  RunResult result_;
};

}  // namespace downpour
