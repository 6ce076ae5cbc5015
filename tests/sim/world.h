// The simulated world: processes with their roles, and everything a role's effects reach.
//
//   World world(plan, &oracle, &findings);
//   Life chief = world.StartChief(job, /*resume=*/false);
//   Life ps = world.StartPs({.index = 0}); ...
//   while (world.ok()) world.events().RunNext();
//
// Order: one Step at a time; its effects are carried out in their order, then the watch looks at the roles. A crash may
//   fall between any two effects.
// Two runs of one draw give the same digest().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "chief/chief_role.h"
#include "ps/ps_role.h"
#include "runtime/role.h"
#include "tests/sim/device.h"
#include "tests/sim/disk.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/findings.h"
#include "tests/sim/network.h"
#include "worker/worker_role.h"

namespace downpour {

class InvariantChecker;
class Observer;
class Viewer;

inline constexpr char kChiefEndpoint[] = "chief-host:7000";
inline constexpr char kSecret[] = "of the chief";  // which people's tools know

struct Process {
  Life life{};
  TaskRole kind{};   // of a member
  std::string name;  // as its supervisor calls it
  std::unique_ptr<Role> role;
  const ChiefRole* chief = nullptr;  // the role, by its kind
  const PsRole* ps = nullptr;
  const WorkerRole* worker = nullptr;
  const Viewer* viewer = nullptr;  // of one that only reads, and is no member
  JobSpec job;                     // a chief's
  std::unique_ptr<Device> device;
  uint64_t nonce = 0;
  std::string endpoint;  // where it listens, as its driver finds it with each Join
  Duration clock{};      // its steady clock, ahead of the world's
  Disk* disk = nullptr;  // its job folder, as it was when it started
  Time disk_free;
  bool alive = true;
  Time ended = Time::max();
  bool paused = false;
  Time paused_at;
  Duration away{};                 // in pauses so long that it must notice them
  std::deque<Input> held;          // what arrived during the pause
  std::optional<int> crash_after;  // effects that are still carried out
  bool joins_again = false;        // it was a member, and nobody has welcomed it since it said its last Join
};

// In which it is; 0: in none yet.
uint64_t RunOf(const Process& process);

// How a supervisor starts a task.
struct TaskStart {
  std::string name;
  int number = 0;      // of its supervisor's tasks of this kind
  int32_t index = -1;  // that it asks for
  std::string launcher;
  uint32_t attempt = 0;
  std::string endpoint;  // ps only
};

class World {
 public:
  World(const FaultPlan& plan, const Oracle* oracle, Findings* findings);
  ~World();
  using CheckerOf =
      std::function<InvariantChecker&(const Process&)>;  // who watches over that process, in the run that it is in
  void set_checker(CheckerOf checker_of) { checker_of_ = std::move(checker_of); }
  void set_log(std::ostream* log) { log_ = log; }  // every event, for people
  // Called when a process ends by itself.
  using OnExit = std::function<void(Life, int code, const std::string& why)>;
  void set_on_exit(OnExit on_exit) { on_exit_ = std::move(on_exit); }
  // Called when a process dies of CrashBefore or of what it applied.
  using OnCrash = std::function<void(Life)>;
  void set_on_crash(OnCrash on_crash) { on_crash_ = std::move(on_crash); }

  Life StartChief(const JobSpec& job, bool resume, Round give_up = {});
  Life StartPs(const TaskStart& start);
  Life StartWorker(const TaskStart& start);
  // No member, nor any of those whom Alive names. `clock` as in Process.
  Life StartReader(const std::string& name, std::unique_ptr<Viewer> viewer, Duration clock);
  // Where that chief listens beside kChiefEndpoint, for readers: often elsewhere than the one before it.
  std::string EndpointForReaders(Life chief) const;
  // Somebody who speaks to these and is no part of the job; the first endpoint is its PeerId 1, and so on.
  Life StartStranger(const std::vector<std::string>& endpoints);

  void Crash(Life life);  // kill -9, perhaps in the middle of its next Step
  // Once: whoever is about to have that effect carried out, counted from 0 over all processes.
  void CrashBefore(uint64_t effect) { crash_before_ = effect; }
  void Kill(Life life);  // at once
  void Pause(Life life, Duration length);
  void Continue(Life life);                           // a paused one, at once
  void Stop(Life life);                               // SIGTERM
  void Move(Life life, const std::string& endpoint);  // a ps, to another address
  void GiveMalformed(Life life);
  void Tell(Life member, Message message, uint64_t run);  // over its connection to the chief, whoever says it
  void TellBy(PeerId peer, Life dialler, Message message, uint64_t run);  // likewise over any that it dialled

  Process& process(Life life) { return *processes_[static_cast<size_t>(life)]; }
  const Process& process(Life life) const { return *processes_[static_cast<size_t>(life)]; }
  void ForEach(const std::function<void(const Process&)>& visit) const;  // dead ones too, in the order of their starts
  std::vector<Life> Alive(TaskRole kind) const;
  std::vector<Life> Alive() const;

  EventQueue& events() { return events_; }
  Network& network() { return network_; }
  const Network& network() const { return network_; }
  // How often processes of that name died of that push.
  int64_t DeathsOf(const Process& process, const TraceRecord& push) const;
  // The job folder of whoever starts from now on.
  const Disk& disk() const { return disks_.back(); }
  Disk& disk() { return disks_.back(); }
  void BeginFolder();                     // an empty one, as reliable as the one before
  FaultCounts disk_faults_dealt() const;  // of all of them
  void set_stalls(double stalls) { plan_.stalls = stalls; }
  void EndDivergence() { plan_.diverges = false; }
  // From now on devices find more data, and the job has more epochs.
  void GrowData() {
    plan_.job = plan_.LastJob();
    plan_.first_examples = plan_.train_examples;
    plan_.train_examples += plan_.more_examples;
  }
  bool has_grown() const { return plan_.first_examples > 0; }
  const FaultPlan& plan() const { return plan_; }
  Findings& findings() { return *findings_; }
  Time now() const { return events_.now(); }
  uint64_t digest() const { return digest_; }
  uint64_t steps() const { return steps_; }
  uint64_t effects() const { return effects_; }
  void Say(const std::string& line);

 private:
  Life Add(TaskRole kind, const std::string& name, const std::string& endpoint,
           const std::function<void(Process&)>& make);
  bool IsFarAhead(TaskRole kind, Life life) const;
  MemberOptions Member(const TaskStart& start, const Process& process);
  void Give(Life life, Input input);
  void Step(Process& process, Input input);
  void DieSoon(Process& process);
  bool DiesOf(const Process& process, const std::vector<Effect>& effects);
  void Carry(Process& process, Effect& effect);
  void CarryStorage(Process& process, StorageOp op);
  void End(Process& process);
  void ScheduleTick(Life life);
  bool DiskFails(const Process& process) const;
  void Digest(const Process& process, const std::string& what);

  FaultPlan plan_;
  const Oracle* oracle_;
  Findings* findings_;
  Prng prng_;
  EventQueue events_;
  Network network_;
  std::deque<Disk> disks_;  // the newest is last
  CheckerOf checker_of_;
  Observer* observer_ = nullptr;  // of the step at hand
  std::ostream* log_ = nullptr;
  OnExit on_exit_;
  std::vector<std::unique_ptr<Process>> processes_;  // by Life; the first is none
  uint64_t digest_ = 0;
  uint64_t steps_ = 0;
  uint64_t effects_ = 0;
  std::optional<uint64_t> crash_before_;
  OnCrash on_crash_;
  std::map<std::string, std::vector<PushName>> crashes_;  // at which processes of that name died of what they applied
};

}  // namespace downpour
