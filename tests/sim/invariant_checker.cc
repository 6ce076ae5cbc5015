#include "tests/sim/invariant_checker.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ps/quarantine.h"
#include "ps/shard.h"
#include "runtime/exit_code.h"
#include "tests/sim/chief_rules.h"
#include "tests/sim/end_rules.h"
#include "tests/sim/goodbye_rules.h"
#include "tests/sim/history_rules.h"
#include "tests/sim/join_rules.h"
#include "tests/sim/member_rules.h"
#include "tests/sim/read_rules.h"
#include "tests/sim/round_rules.h"
#include "tests/sim/worker_rules.h"

namespace downpour {
namespace {

// A Join is said to whatever run there is, and its answers name the joiner; the end is said to whoever is of none, too.
bool IsForeign(const Process& process, const Received& received) {
  const Message& said = received.message;
  const bool is_free = std::holds_alternative<Join>(said) || std::holds_alternative<StatusRequest>(said) ||
                       std::holds_alternative<Control>(said) || std::holds_alternative<Welcome>(said) ||
                       std::holds_alternative<Refused>(said) ||
                       (std::holds_alternative<PlacementRequest>(said) && process.chief != nullptr) ||
                       (std::holds_alternative<JobEnd>(said) && RunOf(process) == 0);
  return !is_free && received.run != RunOf(process);
}

}  // namespace

InvariantChecker::InvariantChecker(World* world, const Oracle* oracle, ReferenceState* reference)
    : Rules(world), oracle_(oracle), reference_(reference), folder_(&world->disk()) {
  parts_.push_back(std::make_unique<ChiefRules>(world, oracle));
  parts_.push_back(std::make_unique<EndRules>(world, oracle));
  parts_.push_back(std::make_unique<HistoryRules>(world));
  parts_.push_back(std::make_unique<WorkerRules>(world, oracle));
  parts_.push_back(std::make_unique<MemberRules>(world));
  parts_.push_back(std::make_unique<JoinRules>(world));
  parts_.push_back(std::make_unique<RoundRules>(world));
  parts_.push_back(std::make_unique<GoodbyeRules>(world));
  of_readers_ = parts_.emplace_back(std::make_unique<ReadRules>(world, oracle, reference)).get();
}

void InvariantChecker::Before(const Process& process, const Input& input) {
  const auto* received = std::get_if<Received>(&input);
  const bool is_lie = received != nullptr && IsOfAnothersSlice(process, *received);
  if (received != nullptr && !is_lie) OnReceived(process, *received);
  if (std::holds_alternative<StopRequested>(input)) OnToldToStop(process);
  if (const auto* link = std::get_if<Reconnected>(&input); link != nullptr && process.worker != nullptr) {
    owed_again_ = {link->peer, in_flight_[{process.life, link->peer}].sent};
  }
  static const Input kNothing = Malformed{};  // as what is said in another run, or by a liar
  for (const auto& part : parts_) part->Before(process, foreign_ || is_lie ? kNothing : input);
}

// What a ps says of a slice in an epoch that it was never given: it is to change nothing.
bool InvariantChecker::IsOfAnothersSlice(const Process& worker, const Received& received) const {
  const auto* reply = std::get_if<PushReply>(&received.message);
  if (reply == nullptr || worker.worker == nullptr || received.run != RunOf(worker)) return false;
  return std::ranges::any_of(reply->slices, [&](const PushReply::Item& item) {
    return item.refusal == SliceRefusal::kNone && reference_->GivenTo(item.slice, item.epoch) != reply->from;
  });
}

void InvariantChecker::OnEffect(const Process& process, const Effect& effect) {
  if (const auto* send = std::get_if<Send>(&effect)) OnSend(process, *send);
  if (const auto* compute = std::get_if<Compute>(&effect)) OnCompute(process, *compute);
  if (const auto* record = std::get_if<TraceRecord>(&effect)) OnTrace(process, *record);
  if (const auto* exit = std::get_if<Exit>(&effect)) OnExit(process, exit->code);
  if (const auto* dial = std::get_if<Dial>(&effect); dial != nullptr && process.worker != nullptr) {
    const Incarnation ps = addresses_[{process.life, dial->endpoint}];
    in_flight_[{process.life, dial->peer}].window = windows_[{process.life, ps}];
  }
  for (const auto& part : parts_) part->OnEffect(process, effect);
}

void InvariantChecker::OnReceived(const Process& process, const Received& received) {
  if (IsForeign(process, received)) {
    foreign_ = received;
    if (process.chief == nullptr) rejected_before_ = RejectedBy(process);
    if (process.worker != nullptr) held_before_ = process.worker->holding().size();
    return;
  }
  if (const auto* push = std::get_if<Push>(&received.message)) push_ = *push;
  if (const auto* pull = std::get_if<Pull>(&received.message)) pull_ = *pull;
  hears_end_ = std::holds_alternative<JobEnd>(received.message);
  if (process.kind == TaskRole::kWorker) return OnReceivedByWorker(process, received);
  if (process.kind != TaskRole::kChief) return;
  if (const auto* beat = std::get_if<Heartbeat>(&received.message)) {
    heard_[beat->from] = {process.life, world_->now(), process.away};
  }
  if (const auto* command = std::get_if<Control>(&received.message)) {
    command_ = *command;
    asked_for_[command->nonce] = command->kind;
  }
  if (const auto* join = std::get_if<Join>(&received.message)) {
    joiners_[{process.life, received.from}] = join->nonce;
  } else if (const auto* request = std::get_if<WorkRequest>(&received.message)) {
    uint64_t& newest = asked_[request->from];
    if (request->number < newest) overtaken_ = request->from;
    newest = std::max(newest, request->number);
  }
}

void InvariantChecker::OnReceivedByWorker(const Process& worker, const Received& received) {
  if (const auto* reply = std::get_if<PushReply>(&received.message)) {
    Answered(worker.life, received.from, *reply);
    GivenBack(worker.life, *reply);
    Tell(worker.life, *reply);
  }
  if (const auto* grant = std::get_if<Grant>(&received.message)) {
    const std::vector<LeaseId> held = worker.worker->holding();
    if (std::count(held.begin(), held.end(), grant->lease) == 0) told_.erase({worker.life, grant->lease});
  }
  if (const auto* reply = std::get_if<LeaseDoneReply>(&received.message); reply != nullptr && !reply->committed) {
    for (auto& [slice, told] : told_[{worker.life, reply->lease}]) told.consumed = 0;  // late answers may steer back
  }
  if (const auto* reply = std::get_if<HeartbeatReply>(&received.message);
      reply != nullptr && reply->retired && reply->to == worker.worker->incarnation()) {
    if (retired_.insert(worker.life).second) newly_retired_.push_back(worker.life);
  }
  // It goes at once, if the answer is to its newest Join: nobody waits for that.
  const auto* refused = std::get_if<Refused>(&received.message);
  const bool had_place = worker.worker->incarnation() != Incarnation::kNone;
  if (refused != nullptr && refused->code == RefusalCode::kNoSuchTask && had_place && refused->run == RunOf(worker)) {
    retired_.insert(worker.life);
  }
  if (const auto* reply = std::get_if<PullReply>(&received.message)) {
    windows_[{worker.life, reply->from}] = in_flight_[{worker.life, received.from}].window = reply->window;
  }
  if (const auto* placement = std::get_if<Placement>(&received.message)) {
    for (const auto& server : placement->servers) addresses_[{worker.life, server.endpoint}] = server.incarnation;
    // What moved is nobody's any more.
    for (auto& [link, in_flight] : in_flight_) {
      if (link.first == worker.life) in_flight.sent.clear();
    }
  }
}

// Whoever says something says it in its run, or every other one would hear it.
void InvariantChecker::OnSend(const Process& process, const Send& send) {
  sent_.emplace_back(send.to, send.message);
  if (send.run != RunOf(process)) {
    Add(process, absl::StrCat("says ", NameOf(send.message), " in run ", send.run, ", but is of run ", RunOf(process)));
  }
}

// What was said in another run changes nothing, and nobody answers it but to a heartbeat, that it is in vain. Members
// count that they rejected it, also in the Step in which they die or end.
void InvariantChecker::CheckForeign(const Process& process) {
  if (!foreign_) return;
  const std::string what = absl::StrCat(NameOf(foreign_->message), " of run ", foreign_->run, ", which is another one");
  for (const auto& [to, message] : sent_) {
    const bool answers = std::holds_alternative<HeartbeatReply>(message) ||
                         std::holds_alternative<LeaseDoneReply>(message) ||
                         std::holds_alternative<EvalDoneReply>(message) || std::holds_alternative<PushReply>(message) ||
                         std::holds_alternative<PullReply>(message);
    if (to == foreign_->from && answers && process.worker == nullptr) Add(process, absl::StrCat("answers a ", what));
  }
  if (process.worker != nullptr && process.worker->holding().size() > held_before_) {
    Add(process, absl::StrCat("takes a ", what));
  }
  if (process.chief == nullptr && RejectedBy(process) <= rejected_before_) {
    Add(process, absl::StrCat("does not reject a ", what));
  }
}

void InvariantChecker::OnToldToStop(const Process& process) {
  if (process.ps != nullptr) told_to_stop_.try_emplace(process.life, world_->now(), traces_[process.life].size());
}

// Who hears of the job's end, or has waited for as long as it may, goes whatever it has.
void InvariantChecker::OnExit(const Process& process, int code) {
  const auto told = told_to_stop_.find(process.life);
  const bool goes_by_itself = code > kExitSignalled && !hears_end_;
  if (told == told_to_stop_.end() || !goes_by_itself || world_->now() >= told->second.at + kPsLeavesWithin) return;
  // What a slice had before it was placed again, from an older state, is no matter of leaving.
  const std::vector<TraceRecord>& traces = traces_[process.life];
  std::map<SliceId, size_t> installed;
  for (size_t i = 0; i < traces.size(); ++i) {
    if (traces[i].kind == TraceRecord::Kind::kInstalled) installed[traces[i].slice] = i;
  }
  for (size_t i = 0; i < told->second.records; ++i) {
    const bool counted = traces[i].kind == TraceRecord::Kind::kApplied || traces[i].kind == TraceRecord::Kind::kSkipped;
    if (counted && i > installed[traces[i].slice]) CheckKept(process, traces[i]);
  }
}

void InvariantChecker::CheckKept(const Process& ps, const TraceRecord& counted) {
  if (ps.ps->Find(counted.slice) == nullptr) return;  // another's by now
  const size_t index = ToNumber(counted.slice);
  if (durable_ && damaged_.contains(durable_->round)) return;
  const absl::StatusOr<SliceState> kept =
      durable_ ? ReadRecord(*durable_, index) : absl::NotFoundError("no checkpoint");
  const auto has = [&counted](const LeaseCounter& counter) {
    return counter.lease == counted.lease && counter.consumed >= counted.step;
  };
  if (kept.ok() && (kept->finished.Contains(ToNumber(counted.lease)) || std::ranges::any_of(kept->counters, has)))
    return;
  Add(ps, absl::StrCat("leaves before a checkpoint holds step ", counted.step, " of lease ", ToNumber(counted.lease),
                       " on slice ", index, ", counted before it was told to stop"));
}

void InvariantChecker::OnTrace(const Process& process, const TraceRecord& record) {
  traces_[process.life].push_back(record);
  reference_->Record(record, ComputedFrom(record));
  if (process.kind == TaskRole::kPs) touched_.insert(record.slice);
  if (record.kind == TraceRecord::Kind::kApplied || record.kind == TraceRecord::Kind::kSkipped) {
    CheckCounted(process, record);
    if (foreign_) Add(process, "counts a push of another run");
  }
  if (record.kind == TraceRecord::Kind::kDurable) {
    CheckManifest({static_cast<uint32_t>(record.count >> 32), static_cast<uint32_t>(record.count)});
  }
}

// A new holder asks every slice first, and computes only what one of them lacks.
void InvariantChecker::OnCompute(const Process& process, const Compute& compute) {
  const auto* step = std::get_if<TrainStep>(&compute.request);
  if (step == nullptr) return;
  const std::map<SliceId, Told>& told = told_[{process.life, step->lease}];
  const std::string name = absl::StrCat("computes lease ", ToNumber(step->lease), " step ", step->step, ", ");
  if (told.size() < oracle_->grid().size()) Add(process, name + "and has not heard of every slice how far that is");
  const bool lacked =
      std::any_of(told.begin(), told.end(), [step](const auto& item) { return item.second.consumed < step->step; });
  if (!lacked) Add(process, name + "which every slice has told it to have counted");
}

void InvariantChecker::After(const Process& process) {
  CheckSentAgain(process);
  for (SliceId slice : touched_) CheckServed(process, slice);
  touched_.clear();
  for (const auto& [to, message] : sent_) {
    std::visit([&, peer = to](const auto& m) { Check(process, peer, m); }, message);
  }
  CheckForeign(process);
  foreign_.reset();
  sent_.clear();
  push_.reset();
  pull_.reset();
  hears_end_ = false;
  overtaken_ = Incarnation::kNone;
  for (const auto& part : parts_) part->After(process);
  if (process.chief != nullptr) {
    CheckChief(process);
    CheckLost(process);
    CheckWorkers(process);
  }
  if (process.worker != nullptr && process.worker->holding().size() > static_cast<size_t>(world_->plan().leases_held)) {
    Add(process, "holds more leases than it may");
  }
}

// Of the push at hand, if it is what the record tells of.
Version InvariantChecker::ComputedFrom(const TraceRecord& record) const {
  if (!push_) return {};
  const auto item = std::ranges::find(push_->slices, record.slice, &Push::Item::slice);
  return item == push_->slices.end() ? Version() : item->computed_from;
}

// The fence: a push counts only in the epoch that it names. And what kills its ps is applied twice, then left out.
void InvariantChecker::CheckCounted(const Process& process, const TraceRecord& record) {
  const bool named =
      push_.has_value() && push_->lease == record.lease && push_->step == record.step && push_->from == record.peer &&
      std::any_of(push_->slices.begin(), push_->slices.end(),
                  [&](const Push::Item& item) { return item.slice == record.slice && item.epoch == record.epoch; });
  if (!named) Add(process, absl::StrCat("counts a push that nobody sent it for epoch ", ToString(record.epoch)));
  const bool is_poison = oracle_->KindOf(record.lease, record.step, record.slice) == Oracle::Kind::kPoison;
  if (is_poison && world_->DeathsOf(process, record) < Quarantine::kCrashes) {
    Add(process, "leaves out a push of which it did not die twice");
  }
}

void InvariantChecker::CheckServed(const Process& process, SliceId slice) {
  const ServedSlice* served = process.ps->Find(slice);
  if (served == nullptr) return Add(process, absl::StrCat("writes records of slice ", ToNumber(slice), ", not here"));
  SliceState shown = StateOf(slice, *served);
  if (oracle_->grid().IsBucket(slice)) shown.values = reference_->Show(slice, *served->state);
  reference_->CheckSlice(shown, process.name);
}

void InvariantChecker::CheckChief(const Process& process) {
  const ChiefRole& chief = *process.chief;
  std::vector<SliceEpoch> epochs = chief.epochs();
  for (size_t i = 0; epochs != epochs_ && i < std::min(epochs.size(), epochs_.size()); ++i) {
    if (epochs[i] == SliceEpoch{}) {
      epochs[i] = epochs_[i];  // a chief that has just begun
    } else if (epochs[i] < epochs_[i]) {
      Add(process,
          absl::StrCat("slice ", i, " goes back from epoch ", ToString(epochs_[i]), " to ", ToString(epochs[i])));
    }
  }
  const bool leads = chief.state() <= JobState::kRunning || chief.state() == JobState::kCancelling;
  const bool lied_to = world_->plan().faults.lie != Duration::zero();  // believed until a round finds out
  if (leads && !lied_to && chief.all_reported() && (epochs != settled_epochs_ || chief.committed() != committed_)) {
    settled_epochs_ = epochs;
    committed_ = chief.committed();
    for (size_t i = 0; i < epochs.size(); ++i) {
      if (!reference_->Finished(SliceId{static_cast<uint32_t>(i)}, epochs[i]).Covers(committed_)) {
        Add(process, absl::StrCat("committed a lease that slice ", i, " lacks in epoch ", ToString(epochs[i])));
      }
    }
  }
  epochs_ = std::move(epochs);
  const auto runs = chief.committed().Intervals();
  if (!runs.empty() && runs.back().end > chief.goal()) Add(process, "commits a lease that the job ends without");

  std::map<Incarnation, int> held;
  for (const auto& [lease, holder] : chief.holders()) {
    if (chief.committed().Contains(ToNumber(lease))) Add(process, "a committed lease is held");
    if (++held[holder] > world_->plan().leases_held) Add(process, "one worker is granted more leases than it may hold");
  }
  for (const auto& [holder, count] : held) {
    if (std::none_of(names_.begin(), names_.end(), [h = holder](const auto& item) { return item.second == h; })) {
      Add(process, absl::StrCat(ToNumber(holder), " holds leases and has no name"));
    }
  }
}

// Silence counts while the chief listens: what came during its own absence it has yet to hear.
void InvariantChecker::CheckLost(const Process& process) {
  const std::vector<Incarnation> lost = process.chief->lost();
  for (const Incarnation task : lost) {
    const Heard& heard = heard_[task];
    if (std::count(lost_.begin(), lost_.end(), task) > 0 || heard.by != process.life) continue;
    const Duration silence = world_->now() - heard.at - (process.away - heard.away);
    if (silence < world_->plan().timing.dead_after) {
      Add(process, absl::StrCat("holds ", ToNumber(task), " dead, and has listened for ", Seconds(silence), " s"));
    }
  }
  lost_ = lost;
}

}  // namespace downpour
