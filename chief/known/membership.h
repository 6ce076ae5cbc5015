// Who belongs to the job: one row per task of the job file, and the process that fills it now.
//
//   Membership::Verdict verdict = members.Admit(now, peer, join);
//   if (verdict.task == nullptr) effects.SendTo(peer, verdict.refusal);
//
// Order: an incarnation is term << 32 | counter, never used twice. A name is held by at most one living process. Of two
//   that had it under earlier chiefs the one that got it later has it, whoever joins first.
// Cost: linear in tasks.
// Errors: whom it does not admit it tells why; for good, where asking again cannot help.
// Tests: tests/unit/chief/membership_test.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "chief/known/rate_window.h"
#include "job/job.h"
#include "runtime/options.h"
#include "runtime/role.h"

namespace downpour {

enum class TaskState : uint8_t { kPending, kPreparing, kRunning, kLost, kLeft, kRefused };
const char* NameOf(TaskState state);  // PENDING, PREPARING and so on

struct Task {
  TaskRole role{};
  int64_t index = 0;  // among those of its role
  std::string name;   // ps-0, worker-3
  TaskState state = TaskState::kPending;
  Incarnation incarnation = Incarnation::kNone;  // of the newest process under this name
  Join process;                                  // as it introduced itself
  Refused refusal;                               // what it was told; kRefused only
  PeerId control = PeerId::kNone;
  PeerId bulk = PeerId::kNone;    // ps only
  Time heard{};                   // last heartbeat; before the first, when the chief began
  bool data_good = false;         // worker only
  bool holds = false;             // it kept what it had under an earlier chief of this run
  uint64_t placement_number = 0;  // of the newest placement that it has
  uint64_t work_request = 0;      // number of the newest one heard; worker only
  TaskStats stats;
  std::string leaving;                // why it was told to stop, as it says; empty: it was not
  Time leaving_since{};               // as the chief heard
  std::optional<Round> leaves_after;  // the newest round then; ps only, as is the next
  std::optional<Time> let_go;         // it may leave since then
  Time waiting_since{};               // it has said what it waits for, and made no step
  Time got_on{};                      // it last made a step, was at one, or got parameters
  std::string warning;                // the newest that it logged
  Time warned_at{};                   // when it did
  RateWindow steps;
  RateWindow examples;
  RateWindow cpu_seconds;
  uint64_t rejected = 0;  // messages of this process that broke a rule

  bool alive() const { return state == TaskState::kPreparing || state == TaskState::kRunning; }
  bool may_leave() const { return let_go.has_value(); }
};

const char* NameOf(TaskRole role);  // chief, ps, worker

class Membership {
 public:
  Membership(const ClusterSpec& cluster, const Timing& timing);

  // Before the first Admit. Who is not there yet counts as heard now.
  void Begin(Time now, uint32_t term, uint64_t run);

  struct Verdict {
    Task* task = nullptr;  // admitted, or admitted before; else refused
    Refused refusal{};
    bool is_new = false;
    bool is_back = false;            // it was held for dead
    std::optional<Task> replaced{};  // a living process that had to make room
  };
  Verdict Admit(Time now, PeerId from, const Join& join);

  // The task whose newest process this is, living or not; null if there is none.
  Task* Find(Incarnation incarnation);
  const Task* Find(Incarnation incarnation) const;
  Task* FindAlive(Incarnation incarnation);
  const Task* FindNamed(const std::string& name) const;
  Task* FindByPeer(PeerId peer);
  // Whether a chief of this run gave it out, to whomever and however long ago; of an earlier one's nothing more is
  // known.
  bool Issued(Incarnation incarnation) const;
  // Whether its process had from a chief of this run what none has given out, as far as this one knows: the job folder
  // was put back to an earlier state, and the clock did not make up for it (startup.h). Such a one is refused for good.
  bool IsAhead(const Join& join) const;

  // A ps that was held for dead and whose place nobody took since is back: what it holds is nobody else's.
  bool Revive(Task& task);
  // INVALID_ARGUMENT: numbers that cannot be; the heartbeat still counts as a sign of life.
  absl::Status Receive(Time now, PeerId from, const Heartbeat& heartbeat, Task& task);
  // Before each input: time in which the chief itself stood still counts as nobody's silence, nor as a stay of one that
  // it had let go, whose Leave may be the first thing that it hears.
  // Returns that time.
  Duration DiscountOwnPause(Time now);
  // At each Tick. Tasks that fell silent for dead_after; they are kLost now.
  std::vector<Task*> TakeSilent(Time now);

  // How many workers the job wants. Each one beyond them is retired: told with every heartbeat to leave in good order.
  int64_t worker_count() const { return worker_count_; }
  void SetWorkerCount(int64_t count);
  bool IsRetired(const Task& task) const { return task.role == TaskRole::kWorker && task.index >= worker_count_; }
  // The rows of those that have left, or died. No Task that was found before outlives it.
  void DropRetired();

  bool AllAlive(TaskRole role) const;
  std::vector<Task*> Alive(TaskRole role);
  const std::vector<Task>& tasks() const { return tasks_; }  // ps before workers, by index

  // Of all processes that ever were, as far as they reported.
  TaskStats Totals(TaskRole role) const;

 private:
  void AddTask(TaskRole role, int64_t index);
  Task* FindProcess(const Join& join);
  Task* ChooseTask(const Join& join, Refused* refusal);
  bool Holds(const Join& join) const;  // it kept what it had under an earlier chief of this run
  void TakeOver(Time now, PeerId from, const Join& join, Task& task);

  const Timing timing_;
  uint32_t term_ = 0;
  uint64_t run_ = 0;
  uint32_t issued_ = 0;
  int64_t worker_count_ = 0;
  Time last_look_{};
  std::vector<Task> tasks_;            // those beyond worker_count_ live, or have one behind them that does
  std::array<TaskStats, 3> departed_;  // by role: stats of processes whose rows were given to others
};

// Adds counts; keeps the larger of what cannot be added.
void AddStats(const TaskStats& from, TaskStats& to);

}  // namespace downpour
