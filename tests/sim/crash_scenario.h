// One run: a cluster is started, disturbed, stopped, resumed, left in peace, and must succeed.
//
//   RunResult result = CrashScenario(FaultPlanOf(4711), {}).Run();
//   if (!result.ok()) std::cerr << result.finding;
//
// Order: faults come until the draw says calm; from then on the job has to end with success. A supervisor starts ended
//   workers again. In all generations but the last everything is stopped at once after a durable checkpoint, and the
//   job is resumed on another number of servers.
// A job may also fail during the faults, if ps died again and again, or if the chief's disk failed; then it is resumed,
//   as a person would. Any other failure is a finding, and so is what is due in a calm cluster and does not happen
//   (crash_scenario_due.cc): progress, rounds, evaluations, members.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/sim/fault_plan.h"
#include "tests/sim/invariant_checker.h"
#include "tests/sim/reference_state.h"
#include "tests/sim/viewer.h"
#include "tests/sim/world.h"

namespace downpour {

struct RunResult {
  std::string finding;  // empty: nothing was wrong
  uint64_t digest = 0;
  uint64_t steps = 0;    // of roles
  uint64_t effects = 0;  // that were carried out
  FaultCounts faults;
  uint64_t pushes = 0;      // counted by slices
  uint64_t duplicates = 0;  // refused by slices
  uint64_t restored = 0;    // pairs that slices took from a checkpoint, each bit for bit as it was snapshotted
  int stops = 0;            // of everything at once
  int failures = 0;         // of the job, each for a cause
  Duration took{};          // simulated
  uint64_t sets = 0;        // of all values, that readers showed
  uint64_t rows = 0;        // their questions for rows that were answered
  Duration calm_took{};     // since the faults ended
  double calm_share = 0;    // of the time that it may have taken
  Staleness staleness;      // over all ps
  bool ok() const { return finding.empty(); }
};

struct RunOptions {
  std::ostream* log = nullptr;                // every event
  std::string trace_dir = {};                 // an existing folder for the ledger checker; empty: none
  std::optional<uint64_t> crash_before = {};  // the effect before which its process is killed, beside what is drawn
};

class CrashScenario {
 public:
  CrashScenario(const FaultPlan& plan, RunOptions options);
  RunResult Run();

 private:
  struct Task {
    TaskStart start;
    Life life{};
    bool due = false;  // will be started
  };

  // Supervising.
  void Begin();  // starts every process
  void StartChiefSoon();
  void StageInitialValues();  // as the chief's main does
  void StageCode();           // as downpour run does
  void GrowJob();
  void Stage(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files);
  void StartTask(const std::string& name, int boot);
  void StartTaskSoon(const std::string& name);
  void StartAgain(Life ended);
  void OnExit(Life life, int code, const std::string& why);
  void OnChiefExit(int code, const std::string& why);
  bool FailureHasCause();
  bool SkipLimitReached();
  uint64_t MostSkipped() const { return static_cast<uint64_t>(job_.training.max_skipped_pushes); }
  bool GiveUpLost();
  bool Survives(const Task& task) const;
  void ChangeText();
  bool IsCause(const std::string& why);
  void KillAll();
  void StopEverything();
  void TellAll();
  void DamageOne();
  void LoseCheckpoints();
  void SetCheckpointsAside();
  bool HasLostItsPlace(Life life) const;
  void EndOfStragglers();

  // People's commands.
  const ChiefRole* Leader() const;
  void TellChief(ControlKind kind, uint32_t workers);
  void AskForCheckpoint();
  void ScaleJob();
  void StopByCommand();
  bool IsWanted(const Task& task) const;
  void FollowWorkerCount();
  void StartWorkerIfAway(int number);
  void LookForUnwanted();
  void CheckRetired(const Process& worker, int code, const std::string& why);

  // Disturbing.
  void Disturb();
  void Repeat(Duration mean, void (CrashScenario::*fault)());
  void CrashWorker() { Crash(TaskRole::kWorker); }
  void CrashPs() { Crash(TaskRole::kPs); }
  void CrashChief();
  void OnCrash(Life life);  // of a process that its supervisor starts again
  void Crash(TaskRole kind);
  void StopWorker() { StopOne(TaskRole::kWorker); }
  void StopPs() { StopOne(TaskRole::kPs); }
  void StopOne(TaskRole kind);
  void ExpectGone(Life life, Duration within);
  void PauseOne();
  void CutTwo();
  void ResetOne();
  void MoveOne();
  void StartRival();
  bool MayLoseFolder() const;
  void BeginFolder();
  void PutBackFolder();
  void Garble();
  void Intrude();
  void LookForStop();
  void StopAmidRestore(Time by);
  void StopTheNextChief();
  void Lie();
  void Impersonate();
  void WelcomeOneThatJoins(int looks);
  void RefuseOneThatJoinsAgain(int looks);
  void TellOfAnotherEnd();
  void SpeakForOthers();
  bool IsHeldByAnother(Life ps, SliceId slice, SliceEpoch epoch) const;
  void LookForTrouble();
  void TroubleAtTheEnd();
  void DamageRecordsOf(const std::string& ps, Round round);
  void Calm();

  // Readers (crash_scenario_readers.cc), whose draws are from a generator of their own.
  void BeginReaders();
  void StartReaderSoon(int number, uint64_t run);
  void StartReader(int number, uint64_t run);
  Viewer::Place WhereChiefIs() const;
  void OnReaderExit(const Process& reader, const std::string& why);
  void RepeatForReaders(Duration mean, void (CrashScenario::*fault)());
  Life OneReader();
  Duration AroundForReaders(Duration mean);
  void KillReader();
  void PauseReader();
  void CutReader();
  void LieToReader();
  std::optional<PullReply> FalseAnswer(const Viewer& viewer, const Pull& asked, uint64_t what);
  Payload Junk(const Pull::Item& asked);
  Duration PatienceOfReaders() const;
  bool CanBeRead(const Process& chief) const;
  void LookForReaders(const Process& chief);
  void EndOfReaders();
  bool ReadersAreGone() const;
  void CountReaders(RunResult& result) const;

  // What is due.
  void LookForProgress();
  void LookForIdlers(const Process& chief);
  void LookForStrangers(const Process& chief);
  void LookForRounds(const Process& chief);
  void LookForSkips(const Process& chief);
  // A finding once it has been so for as long as that, in a calm cluster.
  void Due(const std::string& what, bool is_due, Duration patience);
  Duration Patience() const;
  Duration LongestCalm() const;

  // Of the newest folder.
  ReferenceState& reference() { return books_.back()->reference; }
  InvariantChecker& checker() { return books_.back()->checker; }
  const InvariantChecker& checker() const { return books_.back()->checker; }
  InvariantChecker& CheckerOf(const Process& process);
  void OpenBook();

  Life OneOf(const std::vector<Life>& lives);
  Duration Around(Duration mean);
  RunResult Result() const;

  const FaultPlan plan_;
  RunOptions options_;
  JobSpec job_;  // as the chief is given it: the number of servers changes
  Findings findings_;
  Oracle oracle_;
  World world_;
  // What is known of one run: runs that meet give out the same numbers.
  struct Book {
    Book(World* world, const Oracle* oracle, Findings* findings)
        : reference(oracle, findings), checker(world, oracle, &reference) {}
    ReferenceState reference;
    InvariantChecker checker;
  };
  std::vector<std::unique_ptr<Book>> books_;  // one for each folder, the newest last
  std::map<const Disk*, Book*> by_folder_;
  std::map<uint64_t, Book*> by_run_;
  Prng prng_;

  std::map<std::string, Task> tasks_;
  Life chief_{};
  int boot_ = 0;        // how often everything was started
  int generation_ = 1;  // of the draw's
  int failures_ = 0;
  Round give_up_;                       // as the person's command says since
  std::optional<Disk::Backup> backup_;  // of the newest folder
  Time chief_began_;
  bool running_ = false;
  bool succeeded_ = false;
  bool stop_planned_ = false;
  bool stopping_ = false;
  bool copy_damaged_ = false;
  bool forgets_resume_ = false;  // with the next chief
  uint64_t disk_faults_at_boot_ = 0;
  FaultCounts faults_;                          // beside those of network and disk
  std::map<std::string, int> servers_started_;  // since then
  Time booted_;

  bool calm_ = false;
  Time calm_since_;
  Time ended_;
  Time progress_at_;
  uint64_t progress_ = 0;
  int64_t workers_ = 0;  // how many the job wants, as its supervisor last saw
  std::map<Life, Time> unwanted_since_;
  std::map<std::string, Time> due_since_;
  Round newest_round_;         // that is durable, when it was last looked for
  int troubles_ = 0;           // at the end
  int moves_ = 0;              // so that no address comes again
  std::vector<Life> cut_off_;  // by StartRival

  struct Reader {
    Life life{};
    uint64_t sets = 0;      // that it had shown when it was last looked at
    uint64_t question = 0;  // its oldest one then
  };
  Prng readers_prng_;
  std::vector<Reader> readers_;  // by number; one of each at a time
  Life last_chief_{};            // that was started, dead or alive: of whom the folder speaks
};

}  // namespace downpour
