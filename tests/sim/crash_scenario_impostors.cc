// Whoever says what is not its own to say: another job's chief at the address of this one, and a ps of others' slices.
#include <string>
#include <utility>
#include <vector>

#include "job/job_file.h"
#include "ps/shard.h"
#include "tests/sim/crash_scenario.h"

namespace downpour {
namespace {

constexpr int kLooksForJoiners = 2000;
constexpr Duration kLookForJoinersEvery = 1ms;

Incarnation IncarnationOf(const Process& member) {
  return member.ps != nullptr ? member.ps->incarnation() : member.worker->incarnation();
}

}  // namespace

void CrashScenario::Impersonate() {
  switch (prng_.Below(4)) {
    case 0:
      return WelcomeOneThatJoins(kLooksForJoiners);
    case 1:
      return RefuseOneThatJoinsAgain(kLooksForJoiners);
    case 2:
      return TellOfAnotherEnd();
    default:
      return SpeakForOthers();
  }
}

// As the answer to another process.
void CrashScenario::WelcomeOneThatJoins(int looks) {
  if (calm_ || !findings_.ok() || looks == 0) return;
  std::vector<Life> members = world_.Alive(TaskRole::kPs);
  for (const Life worker : world_.Alive(TaskRole::kWorker)) members.push_back(worker);
  const Life life = OneOf(members);
  if (life == Life::kNone || IncarnationOf(world_.process(life)) != Incarnation::kNone) {
    return world_.events().After(kLookForJoinersEvery, [this, looks] { WelcomeOneThatJoins(looks - 1); });
  }
  ++faults_["another job's chief"];
  const uint64_t run = prng_.Next();
  world_.Tell(life,
              Welcome{.you = Incarnation{uint64_t{7} << 32 | 1},
                      .term = 7,
                      .name = world_.process(life).name,
                      .job = CanonicalJob(job_),
                      .run = run,
                      .nonce = prng_.Next(),
                      .number = UINT64_MAX},
              run);
}

// Its own job had a place for it, and may have one still.
void CrashScenario::RefuseOneThatJoinsAgain(int looks) {
  if (calm_ || !findings_.ok() || looks == 0) return;
  for (const Life life : world_.Alive(TaskRole::kWorker)) {
    const Process& process = world_.process(life);
    if (!process.joins_again || process.paused) continue;
    ++faults_["another job's refusal"];
    Refused refused{.code = RefusalCode::kNoSuchTask, .for_good = true, .why = "another job has no such task"};
    refused.run = prng_.Next();
    refused.number = UINT64_MAX;
    return world_.Tell(life, refused, refused.run);
  }
  world_.events().After(kLookForJoinersEvery, [this, looks] { RefuseOneThatJoinsAgain(looks - 1); });
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
