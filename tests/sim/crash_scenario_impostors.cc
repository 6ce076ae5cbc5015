// Whoever says what is not its own to say: another job's chief at the address of this one, and a ps of others' slices.
#include <string>
#include <utility>
#include <vector>

#include "job/job_file.h"
#include "tests/sim/crash_scenario.h"

namespace downpour {
namespace {

constexpr int kLooks = 1000;
constexpr Duration kLookEvery = 1ms;

Incarnation IncarnationOf(const Process& member) {
  return member.ps != nullptr ? member.ps->incarnation() : member.worker->incarnation();
}

}  // namespace

void CrashScenario::Impersonate() {
  switch (prng_.Below(3)) {
    case 0:
      return TellOneThatJoins(kLooks);
    case 1:
      return TellOfAnotherEnd();
    default:
      return SpeakForOthers();
  }
}

// Another job's chief welcomes another process, or says that its own job has no place for a worker that had one here.
void CrashScenario::TellOneThatJoins(int looks) {
  if (calm_ || !running_ || !findings_.ok()) return;
  for (const TaskRole role : {TaskRole::kWorker, TaskRole::kPs}) {
    for (const Life life : world_.Alive(role)) {
      const Process& process = world_.process(life);
      if (IncarnationOf(process) != Incarnation::kNone || process.paused) continue;
      const bool refuses = role == TaskRole::kWorker && RunOf(process) != 0;
      if (!refuses && prng_.Chance(0.8)) continue;  // those that never joined are many
      ++faults_["another job's chief"];
      if (refuses) {
        world_.Tell(life,
                    Refused{.code = RefusalCode::kNoSuchTask,
                            .for_good = true,
                            .why = "another job has no such task",
                            .run = prng_.Next(),
                            .number = UINT64_MAX},
                    prng_.Next());
      } else {
        const uint64_t run = prng_.Next();
        world_.Tell(life,
                    Welcome{.you = Incarnation{uint64_t{7} << 32 | 1},
                            .term = 7,
                            .name = process.name,
                            .job = CanonicalJob(job_),
                            .run = run,
                            .nonce = prng_.Next(),
                            .number = UINT64_MAX},
                    run);
      }
      return;
    }
  }
  if (looks == 0) return;
  world_.events().After(kLookEvery, [this, looks] { TellOneThatJoins(looks - 1); });
}

void CrashScenario::TellOfAnotherEnd() {
  std::vector<Life> members = world_.Alive(TaskRole::kWorker);
  for (const Life ps : world_.Alive(TaskRole::kPs)) members.push_back(ps);
  const Life life = OneOf(members);
  if (life == Life::kNone || RunOf(world_.process(life)) == 0) return;  // else it may be the end that it joins
  ++faults_["another job's end"];
  world_.Tell(life, JobEnd{.succeeded = true, .why = "another job has succeeded"}, prng_.Next());
}

bool CrashScenario::IsHeldByAnother(Life ps, SliceId slice, SliceEpoch epoch) const {
  for (const Life life : world_.Alive(TaskRole::kPs)) {
    const Process& other = world_.process(life);
    const ServedSlice* served = life == ps ? nullptr : other.ps->Find(slice);
    if (served != nullptr && served->epoch == epoch && RunOf(other) == RunOf(world_.process(ps))) return true;
  }
  return false;
}

// As if the slices of others had all of a lease that the worker holds.
void CrashScenario::SpeakForOthers() {
  const Life ps = OneOf(world_.Alive(TaskRole::kPs)), worker = OneOf(world_.Alive(TaskRole::kWorker));
  const ChiefRole* chief = Leader();
  if (ps == Life::kNone || worker == Life::kNone || chief == nullptr) return;
  const std::vector<LeaseId> held = world_.process(worker).worker->holding();
  const std::vector<SliceEpoch> epochs = chief->epochs();
  if (held.empty() || RunOf(world_.process(worker)) != RunOf(world_.process(ps))) return;
  const LeaseId lease = held[prng_.Below(held.size())];
  const Step last = oracle_.plan().StepsOf(lease);
  PushReply reply{
      .from = world_.process(ps).ps->incarnation(), .lease = lease, .slices = {}, .window = plan_.window.bytes};
  for (size_t i = 0; i < epochs.size(); ++i) {
    const SliceId slice{static_cast<uint32_t>(i)};
    if (!IsHeldByAnother(ps, slice, epochs[i])) continue;
    reply.slices.push_back({.slice = slice, .epoch = epochs[i], .consumed = last, .acked = last, .counted = true});
  }
  if (reply.slices.empty()) return;
  ++faults_["a ps speaks for others"];
  Network& network = world_.network();
  network.Send(ps, network.PeerOf(ps, worker), std::move(reply), RunOf(world_.process(ps)));
}

}  // namespace downpour
