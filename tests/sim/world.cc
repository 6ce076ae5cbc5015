#include "tests/sim/world.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/member_session.h"
#include "schema/checkpoint_format.h"
#include "tests/sim/describe.h"
#include "tests/sim/invariant_checker.h"
#include "tests/sim/viewer.h"

namespace downpour {
namespace {

constexpr int kSigterm = 15;
constexpr int64_t kRightTime = 1800000000000;  // in 2027; what is drawn lies before 2026, which tells no term
constexpr int64_t kLastTerm = 1767225600000 + int64_t{UINT32_MAX} * 250;  // in 2060; no chief is to believe it
constexpr int kLongPause = 4;  // from dead_after divided by this on, silence may be one's own

PushName NameOf(const Process& ps, const TraceRecord& push) {
  return {ps.ps->run(), push.lease, push.step, push.slice};
}

}  // namespace

uint64_t RunOf(const Process& process) {
  if (process.chief != nullptr) return process.chief->run();
  if (process.viewer != nullptr) return process.viewer->run();
  return process.ps != nullptr ? process.ps->run() : process.worker->run();
}

World::World(const FaultPlan& plan, const Oracle* oracle, Findings* findings)
    : plan_(plan),
      oracle_(oracle),
      findings_(findings),
      prng_(MixAll(plan.seed, 2)),
      network_(plan.network, MixAll(plan.seed, 3), &events_, findings,
               [this](Life to, Input input) { Give(to, std::move(input)); }) {
  disks_.emplace_back(MixAll(plan.seed, 4));
  processes_.push_back(nullptr);
}

World::~World() = default;

void World::BeginFolder() {
  const Disk::Faults faults = disk().faults();
  disks_.emplace_back(MixAll(plan_.seed, 4, disks_.size()));
  disk().set_faults(faults);
}

FaultCounts World::disk_faults_dealt() const {
  FaultCounts dealt;
  for (const Disk& disk : disks_) downpour::Add(disk.faults_dealt(), dealt);
  return dealt;
}

void World::Say(const std::string& line) {
  if (log_ != nullptr) *log_ << absl::StrFormat("%11.6f %s\n", Seconds(now().time_since_epoch()), line);
}

void World::Digest(const Process& process, const std::string& what) {
  const std::string line = absl::StrCat(process.name, "#", static_cast<uint32_t>(process.life), " ", what);
  digest_ = MixAll(digest_, now().time_since_epoch().count(),
                   Crc32c({reinterpret_cast<const std::byte*>(line.data()), line.size()}));
  Say(line);
}

Life World::Add(TaskRole kind, const std::string& name, const std::string& endpoint,
                const std::function<void(Process&)>& make) {
  const Life life{static_cast<uint32_t>(processes_.size())};
  Process& process = *processes_.emplace_back(std::make_unique<Process>());
  process.life = life;
  process.kind = kind;
  process.name = name;
  process.nonce = prng_.Next();
  process.endpoint = endpoint;
  process.disk = &disk();
  process.clock = prng_.Chance(0.5) ? Duration::zero() : 1s * prng_.Below(1000000);
  make(process);
  if (!endpoint.empty()) network_.Listen(life, endpoint);
  int64_t unix_ms = 1700000000000 + static_cast<int64_t>(prng_.Below(200000000)) - 100000000;
  if (plan_.clock_is_right) unix_ms = kRightTime + now().time_since_epoch() / 1ms;
  if (IsFarAhead(kind, life)) unix_ms = kLastTerm;
  events_.After(Duration::zero(), [this, life, unix_ms, endpoint] { Give(life, Started{unix_ms, endpoint}); });
  events_.After(Duration(prng_.Below(plan_.timing.tick.count())), [this, life] { ScheduleTick(life); });
  return life;
}

// A chief's calendar, now and then. A folder that is put back needs one that is right.
bool World::IsFarAhead(TaskRole kind, Life life) const {
  const bool is_free = plan_.faults.put_back == Duration::zero();
  return kind == TaskRole::kChief && is_free && MixAll(plan_.seed, 6, static_cast<uint64_t>(life)) % 16 == 0;
}

Life World::StartChief(const JobSpec& job, bool resume, Round give_up) {
  return Add(TaskRole::kChief, "chief", kChiefEndpoint, [&](Process& process) {
    if (plan_.readers.count > 0) network_.Listen(process.life, EndpointForReaders(process.life));
    auto role = std::make_unique<ChiefRole>(ChiefOptions{.job = job,
                                                         .job_dir = "/jobs/simulated",
                                                         .host = "chief-host",
                                                         .pid = static_cast<uint32_t>(process.life),
                                                         .secret = kSecret,
                                                         .resume = resume,
                                                         .give_up = give_up,
                                                         .nonce = process.nonce,
                                                         .timing = plan_.timing,
                                                         .piece_bytes = plan_.piece_bytes});
    process.chief = role.get();
    process.role = std::move(role);
    process.job = job;
  });
}

Life World::StartStranger(const std::vector<std::string>& endpoints) {
  const Life life{static_cast<uint32_t>(processes_.size())};
  Process& process = *processes_.emplace_back(std::make_unique<Process>());
  process.life = life;
  process.name = "stranger";
  process.alive = false;  // to all who count the living
  for (size_t i = 0; i < endpoints.size(); ++i) network_.Dial(life, PeerId{1 + i}, endpoints[i]);
  return life;
}

std::string World::EndpointForReaders(Life chief) const {
  const auto life = static_cast<uint32_t>(chief);
  return absl::StrCat("chief-host:", MixAll(plan_.seed, 8, life) % 2 == 0 ? 7001 : 7002 + life);
}

Life World::StartReader(const std::string& name, std::unique_ptr<Viewer> viewer, Duration clock) {
  const Life life{static_cast<uint32_t>(processes_.size())};
  Process& process = *processes_.emplace_back(std::make_unique<Process>());
  process.life = life;
  process.name = name;
  process.viewer = viewer.get();
  process.role = std::move(viewer);
  process.clock = clock;
  events_.After(Duration::zero(), [this, life] { Give(life, Started{}); });
  events_.After(plan_.timing.tick, [this, life] { ScheduleTick(life); });
  return life;
}

MemberOptions World::Member(const TaskStart& start, const Process& process) {
  MemberOptions options;
  options.chief = kChiefEndpoint;
  options.join.index = start.index;
  options.join.host = absl::StrCat(start.name, "-host");
  options.join.pid = static_cast<uint32_t>(process.life);
  options.join.launcher = start.launcher;
  options.join.attempt = start.attempt;
  options.join.nonce = process.nonce;
  options.join.device = process.kind == TaskRole::kWorker ? "simulated" : "";
  options.forward_logs = prng_.Chance(0.5);
  options.timing = plan_.timing;
  return options;
}

Life World::StartPs(const TaskStart& start) {
  return Add(TaskRole::kPs, start.name, start.endpoint, [&](Process& process) {
    auto role = std::make_unique<PsRole>(PsOptions{.member = Member(start, process),
                                                   .has_job_dir = true,
                                                   .window = plan_.window,
                                                   .crashes = crashes_[start.name],
                                                   .report_part_bytes = prng_.Chance(0.5) ? kReportPartBytes : 1,
                                                   .record_part_bytes = plan_.record_part_bytes});
    process.ps = role.get();
    process.role = std::move(role);
  });
}

Life World::StartWorker(const TaskStart& start) {
  return Add(TaskRole::kWorker, start.name, "", [&](Process& process) {
    auto role = std::make_unique<WorkerRole>(WorkerOptions{
        .member = Member(start, process), .steps_in_flight = plan_.steps_in_flight, .leases_held = plan_.leases_held});
    process.worker = role.get();
    process.role = std::move(role);
    const Life life = process.life;
    process.device = std::make_unique<Device>(oracle_, &plan_, start.number, prng_.Next(), &events_, findings_,
                                              [this, life](ComputeDone done) { Give(life, std::move(done)); });
  });
}

void World::ForEach(const std::function<void(const Process&)>& visit) const {
  for (size_t i = 1; i < processes_.size(); ++i) visit(*processes_[i]);
}

std::vector<Life> World::Alive(TaskRole kind) const {
  std::vector<Life> alive;
  for (size_t i = 1; i < processes_.size(); ++i) {
    const bool is_member = processes_[i]->viewer == nullptr;
    if (is_member && processes_[i]->alive && processes_[i]->kind == kind) alive.push_back(processes_[i]->life);
  }
  return alive;
}

std::vector<Life> World::Alive() const {
  std::vector<Life> alive;
  for (TaskRole kind : {TaskRole::kChief, TaskRole::kPs, TaskRole::kWorker}) {
    for (Life life : Alive(kind)) alive.push_back(life);
  }
  return alive;
}

void World::ScheduleTick(Life life) {
  Process& process = *processes_[static_cast<size_t>(life)];
  if (!process.alive) return;
  const uint64_t second = static_cast<uint64_t>(now().time_since_epoch() / 1s);
  const uint64_t last = static_cast<uint64_t>((now().time_since_epoch() - plan_.timing.tick) / 1s);
  if (!process.paused) {  // a stopped process finds one Tick due when it wakes, see Pause
    if (second != last) Give(life, ResourceSample{static_cast<double>(second), 1 << 20, 0, 0});
    Give(life, Tick{});
  }
  events_.After(plan_.timing.tick, [this, life] { ScheduleTick(life); });
}

void World::Give(Life life, Input input) {
  Process& process = *processes_[static_cast<size_t>(life)];
  if (!process.alive || !findings_->ok()) return;
  const auto* received = std::get_if<Received>(&input);
  if (received != nullptr && std::holds_alternative<Welcome>(received->message)) process.joins_again = false;
  if (process.paused) {
    process.held.push_back(std::move(input));
  } else {
    Step(process, std::move(input));
  }
}

void World::Step(Process& process, Input input) {
  ++steps_;
  if (!std::holds_alternative<Tick>(input)) Digest(process, Describe(input));
  InvariantChecker& checker = checker_of_(process);
  observer_ = process.viewer != nullptr ? checker.of_readers() : &checker;
  observer_->Before(process, input);
  Effects out;
  process.role->Step(now() + process.clock, std::move(input), out);
  std::vector<Effect> effects = out.Take();
  if (process.ps != nullptr && DiesOf(process, effects)) DieSoon(process);
  for (Effect& effect : effects) {
    if (process.crash_after.has_value() && (*process.crash_after)-- == 0) break;
    if (effects_++ == crash_before_) {
      DieSoon(process);
      break;
    }
    Digest(process, Describe(effect));
    Carry(process, effect);
    if (!process.alive) break;
  }
  observer_->After(process);
  if (process.crash_after.has_value() && process.alive) Kill(process.life);
}

void World::DieSoon(Process& process) {
  process.crash_after = 0;
  events_.After(Duration::zero(), [this, life = process.life] { on_crash_(life); });
}

int64_t World::DeathsOf(const Process& process, const TraceRecord& push) const {
  const auto found = crashes_.find(process.name);
  return found == crashes_.end() ? 0 : std::ranges::count(found->second, NameOf(process, push));
}

// Of what it applied in this step; the next process of that name finds a note.
bool World::DiesOf(const Process& process, const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    const auto* record = std::get_if<TraceRecord>(&effect);
    if (record == nullptr || record->kind != TraceRecord::Kind::kApplied) continue;
    if (oracle_->KindOf(record->lease, record->step, record->slice) != Oracle::Kind::kPoison) continue;
    crashes_[process.name].push_back(NameOf(process, *record));
    Say(absl::StrCat(process.name, " dies of what it applies"));
    return true;
  }
  return false;
}

void World::Carry(Process& process, Effect& effect) {
  observer_->OnEffect(process, effect);
  if (auto* send = std::get_if<Send>(&effect)) {
    if (auto* join = std::get_if<Join>(&send->message)) {
      join->endpoint = process.endpoint;
      process.joins_again = join->run != 0;
    }
    network_.Send(process.life, send->to, std::move(send->message), send->run);
  } else if (auto* op = std::get_if<StorageOp>(&effect)) {
    CarryStorage(process, std::move(*op));
  } else if (auto* compute = std::get_if<Compute>(&effect)) {
    if (process.device == nullptr) return findings_->Add(absl::StrCat(process.name, " has no device to compute on"));
    process.device->Run(std::move(*compute));
  } else if (const auto* wake = std::get_if<Wake>(&effect)) {
    events_.After(wake->in, [this, life = process.life] {
      const Process& woken = *processes_[static_cast<size_t>(life)];
      if (woken.alive && !woken.paused) Give(life, Tick{});
    });
  } else if (const auto* dial = std::get_if<Dial>(&effect)) {
    network_.Dial(process.life, dial->peer, dial->endpoint);
  } else if (const auto* hang_up = std::get_if<HangUp>(&effect)) {
    network_.HangUp(process.life, hang_up->peer);
  } else if (const auto* exit = std::get_if<Exit>(&effect)) {
    End(process);
    on_exit_(process.life, exit->code, exit->why);
  }
}

bool World::DiskFails(const Process& process) const {
  if (plan_.failing == DiskOf::kAll) return true;
  return (plan_.failing == DiskOf::kChief) == (process.kind == TaskRole::kChief);
}

void World::CarryStorage(Process& process, StorageOp op) {
  Duration took = Duration(prng_.Below(static_cast<uint64_t>(plan_.disk_delay.count()) + 1));
  if (plan_.stalls > 0 && DiskFails(process) && prng_.Chance(plan_.stalls)) {
    process.disk->NoteStall();
    took += Duration(prng_.Below(static_cast<uint64_t>(3 * plan_.timing.dead_after.count())));
  }
  process.disk_free = std::max(process.disk_free, now()) + took;
  events_.At(process.disk_free, [this, life = process.life, op = std::move(op)] {
    const Process& owner = *processes_[static_cast<size_t>(life)];
    if (!owner.alive) return;
    StorageDone done = owner.disk->Carry(op, DiskFails(owner));
    if (done.status.ok()) checker_of_(owner).OnStored(op);
    if (absl::IsInvalidArgument(done.status)) findings_->Add(std::string(done.status.message()));
    Give(life, std::move(done));
  });
}

void World::End(Process& process) {
  process.alive = false;
  process.ended = now();
  process.held.clear();
  network_.Vanish(process.life);
}

void World::Crash(Life life) {
  Process& target = process(life);
  if (target.alive) target.crash_after = static_cast<int>(prng_.Below(6));
}

void World::Kill(Life life) {
  Process& target = process(life);
  if (!target.alive) return;
  Digest(target, "killed");
  End(target);
}

void World::Move(Life life, const std::string& endpoint) {
  Process& target = process(life);
  Digest(target, "moved");
  target.endpoint = endpoint;
  network_.Move(life, endpoint);
}

void World::Pause(Life life, Duration length) {
  Process& target = process(life);
  if (!target.alive || target.paused) return;
  Digest(target, "stopped");
  target.paused = true;
  target.paused_at = events_.now();
  events_.After(length, [this, life, since = target.paused_at] {
    if (process(life).paused_at == since) Continue(life);
  });
}

void World::Continue(Life life) {
  Process& woken = process(life);
  if (!woken.alive || !woken.paused) return;
  Digest(woken, "continued");
  woken.paused = false;
  const Duration length = events_.now() - woken.paused_at;
  if (length > plan_.timing.dead_after / kLongPause) woken.away += length;
  std::deque<Input> held = std::move(woken.held);
  woken.held.clear();
  // What was due during the pause: the timer or the messages first, as it comes.
  held.insert(prng_.Chance(0.5) ? held.begin() : held.end(), Tick{});
  for (Input& input : held) Give(life, std::move(input));
}

void World::Stop(Life life) { Give(life, StopRequested{kSigterm}); }

void World::Tell(Life member, Message message, uint64_t run) {
  Give(member, Received{MemberSession::kChief, std::move(message), run});
}

void World::TellBy(PeerId peer, Life dialler, Message message, uint64_t run) {
  Give(dialler, Received{peer, std::move(message), run});
}

void World::GiveMalformed(Life life) {
  Give(life,
       Malformed{PeerId{static_cast<uint64_t>(PeerId::kFirstAccepted) + prng_.Below(4)}, "drawn to be malformed"});
}

}  // namespace downpour
