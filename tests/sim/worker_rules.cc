#include "tests/sim/worker_rules.h"

#include <algorithm>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "job/job_file.h"

namespace downpour {
namespace {

// A pull leaves late, by what the last steps took: one third of all steps are over before. All of so many, never.
constexpr uint64_t kStepsWithoutPull = 80;

}  // namespace

void WorkerRules::Add(const Process& process, const std::string& what) {
  world_->findings().Add(absl::StrCat(process.name, "#", static_cast<uint32_t>(process.life), ": ", what));
}

void WorkerRules::Before(const Process& process, const Input& input) {
  if (process.worker == nullptr) return;
  Worker& worker = workers_[process.life];
  if (const auto* received = std::get_if<Received>(&input)) OnReceived(process, worker, received->message);
  if (std::holds_alternative<StopRequested>(input) && !worker.told_to_stop) worker.told_to_stop = world_->now();
  const auto* done = std::get_if<ComputeDone>(&input);
  if (done == nullptr || done->ticket != worker.ticket) return;
  const auto* gradients = std::get_if<Gradients>(&done->result);
  if (gradients == nullptr || gradients->last) worker.at = At::kRest;
}

void WorkerRules::OnReceived(const Process& process, Worker& worker, const Message& message) {
  const auto* grant = std::get_if<EvalGrant>(&message);
  if (grant != nullptr && grant->to == process.worker->incarnation() && grant->round > worker.evaluation) {
    worker.evaluation = grant->round;
    worker.evaluation_granted = world_->steps();
  }
  if (const auto* reply = std::get_if<PushReply>(&message)) {
    for (const PushReply::Item& item : reply->slices) {
      std::erase_if(worker.owed, [&](const auto& push) {
        const auto& [lease, step, slice] = push;
        const bool is_answered = item.refusal != SliceRefusal::kNone || item.consumed >= step;
        return lease == reply->lease && slice == item.slice && is_answered;
      });
    }
  }
  if (std::holds_alternative<Placement>(message)) {
    worker.placed = world_->steps();
    worker.owed.clear();
  }
  const auto* welcome = std::get_if<Welcome>(&message);
  if (welcome == nullptr || welcome->term < worker.term) return;
  const absl::StatusOr<JobSpec> job = ParseCanonicalJob(welcome->job);
  worker.term = welcome->term;
  worker.pulls_ahead = job.ok() && job->training.pull_ahead;
  worker.ever_ahead |= worker.pulls_ahead;
  worker.steps_to_pull_in = worker.pulled_ahead = 0;
  worker.newest_pull = 0;  // it may begin to count anew
  worker.pulling.clear();
  worker.owed.clear();
  worker.placed = world_->steps();
}

void WorkerRules::OnEffect(const Process& process, const Effect& effect) {
  if (const auto* record = std::get_if<TraceRecord>(&effect)) OnCounted(*record);
  if (process.worker == nullptr) return;
  Worker& worker = workers_[process.life];
  if (const auto* compute = std::get_if<Compute>(&effect)) Begin(process, *compute);
  if (const auto* ahead = std::get_if<PrefetchParameters>(&effect)) {
    for (const auto& [slice, values] : ahead->values) worker.announced.insert({slice, values.data()});
  }
  const auto* exit = std::get_if<Exit>(&effect);
  if (exit != nullptr && worker.told_to_stop && world_->now() < *worker.told_to_stop + kWorkerLeavesWithin &&
      absl::StrContains(exit->why, "stayed unacknowledged")) {
    Add(process, "is told to stop, and leaves before what it computed is acknowledged");
  }
  const auto* send = std::get_if<Send>(&effect);
  if (send == nullptr) return;
  if (worker.told_to_stop && std::holds_alternative<WorkRequest>(send->message)) {
    Add(process, "is told to stop, and asks for work");
  }
  if (const auto* pull = std::get_if<Pull>(&send->message)) OnPull(process, worker, *pull);
  if (const auto* push = std::get_if<Push>(&send->message)) OnPush(process, worker, *push);
  if (const auto* probe = std::get_if<Probe>(&send->message)) {
    for (const Probe::Item& item : probe->slices) Learn(worker, item.slice, item.epoch);
  }
}

void WorkerRules::Learn(Worker& worker, SliceId slice, SliceEpoch epoch) {
  worker.epochs.resize(oracle_->grid().size());
  SliceEpoch& known = worker.epochs[ToNumber(slice)];
  known = std::max(known, epoch);
}

void WorkerRules::Begin(const Process& process, const Compute& compute) {
  Worker& worker = workers_[process.life];
  worker.ticket = compute.ticket;
  if (std::holds_alternative<Prepare>(compute.request)) worker.untold.clear();  // it forgets all that it computed
  if (const auto* step = std::get_if<TrainStep>(&compute.request)) return BeginStep(process, worker, *step);
  if (const auto* evaluation = std::get_if<EvalStep>(&compute.request)) {
    worker.at = At::kEvaluation;
    worker.evaluated = world_->steps();
    worker.owed_when_it_evaluated = !worker.owed.empty();
    CheckAnnounced(process, worker, evaluation->updates);
    if (worker.pull_began < worker.evaluation_granted) Add(process, "evaluates what it pulled before it was asked to");
  }
}

void WorkerRules::BeginStep(const Process& process, Worker& worker, const TrainStep& step) {
  worker.at = At::kStep;
  if (worker.told_to_stop) Add(process, "is told to stop, and begins a step");
  if (worker.pull_began < worker.evaluated) Add(process, "trains on what it pulled before an evaluation");
  if (worker.pull_began < worker.without_work) Add(process, "trains on what it pulled before it was without work");
  CheckAnnounced(process, worker, step.updates);
  CheckOutcomes(process, worker, step.outcomes);
  worker.untold.insert({step.lease, step.step});
  worker.epochs.resize(oracle_->grid().size());
  worker.known_at.try_emplace({step.lease, step.step}, worker.epochs);  // what is kept of it may be older
  if (worker.pulls_ahead && worker.step == std::pair(step.lease, step.step - 1)) ++worker.steps_to_pull_in;
  worker.step = {step.lease, step.step};
  if (worker.steps_to_pull_in >= kStepsWithoutPull && worker.pulled_ahead == 0) {
    Add(process, absl::StrCat("pulls ahead in none of ", kStepsWithoutPull, " steps"));
  }
}

void WorkerRules::OnCounted(const TraceRecord& record) {
  const bool is_empty = record.kind == TraceRecord::Kind::kSkipped &&
                        oracle_->KindOf(record.lease, record.step, record.slice) == Oracle::Kind::kEmpty;
  if (record.kind != TraceRecord::Kind::kApplied && !is_empty) return;
  ++counted_of_[{life_of_[record.peer], record.lease, record.step, record.slice}];
}

void WorkerRules::CheckOutcomes(const Process& process, Worker& worker, const std::vector<StepOutcome>& outcomes) {
  for (const StepOutcome& outcome : outcomes) {
    worker.untold.erase({outcome.lease, outcome.step});
    if (!outcome.counted) continue;
    for (const Slice& slice : oracle_->grid().slices) {
      uint64_t& counted = counted_of_[{process.life, outcome.lease, outcome.step, slice.id}];
      if (counted == 0) {
        Add(process, absl::StrCat("tells its device that step ", outcome.step, " of lease ", ToNumber(outcome.lease),
                                  " counted, which slice ", ToNumber(slice.id), " did not take from it"));
      } else {
        --counted;
      }
    }
  }
  const std::vector<LeaseId> held = process.worker->holding();
  for (const auto& [lease, step] : worker.untold) {
    if (std::find(held.begin(), held.end(), lease) != held.end()) continue;
    Add(process, absl::StrCat("does not tell its device what became of step ", step, " of lease ", ToNumber(lease)));
  }
}

void WorkerRules::CheckAnnounced(const Process& process, const Worker& worker, const SliceValues& values) {
  for (const auto& [slice, payload] : values) {
    if (worker.announced.contains({slice, payload.data()})) continue;
    return Add(process, absl::StrCat("its device was not told ahead of the values of slice ", ToNumber(slice)));
  }
}

// One that names a slice a second time, under a new number, is of the next pull.
void WorkerRules::OnPull(const Process& process, Worker& worker, const Pull& pull) {
  for (const Pull::Item& item : pull.slices) Learn(worker, item.slice, item.epoch);
  if (pull.request <= worker.newest_pull) return;  // sent again
  worker.newest_pull = pull.request;
  const bool begins = worker.pulling.empty() || std::ranges::any_of(pull.slices, [&](const Pull::Item& item) {
                        return worker.pulling.contains(item.slice);
                      });
  if (begins) worker.pulling.clear();
  for (const Pull::Item& item : pull.slices) worker.pulling.insert(item.slice);
  if (!begins) return;
  const bool moved = worker.placed > worker.pull_began;  // what moved is pulled anew, whenever that is
  worker.pull_began = world_->steps();
  // Its first message may have waited for room in the window, which pushes enter first.
  const bool may_have_begun = moved || worker.owed_when_it_evaluated;
  if (worker.at == At::kEvaluation && !may_have_begun) Add(process, "begins to pull while it evaluates");
  if (worker.at != At::kStep || moved) return;
  ++worker.pulled_ahead;
  if (worker.term == 0 || worker.ever_ahead) return;  // or another run's chief welcomed it
  Add(process, "begins to pull for the next step before this one is computed");
}

void WorkerRules::OnPush(const Process& process, Worker& worker, const Push& push) {
  life_of_[push.from] = process.life;
  for (const Push::Item& item : push.slices) {
    Learn(worker, item.slice, item.epoch);
    worker.owed.insert({push.lease, push.step, item.slice});
  }
  const auto known = worker.known_at.find({push.lease, push.step});
  if (known == worker.known_at.end()) return;
  for (const Push::Item& item : push.slices) {
    if (item.computed_from.epoch >= known->second[ToNumber(item.slice)]) continue;
    Add(process, absl::StrCat("computed on slice ", ToNumber(item.slice), " as it was in epoch ",
                              ToString(item.computed_from.epoch), ", which it knew to be over"));
  }
}

void WorkerRules::After(const Process& process) {
  if (process.worker == nullptr) return;
  Worker& worker = workers_[process.life];
  if (worker.at == At::kRest && process.worker->holding().empty()) worker.without_work = world_->steps();
}

}  // namespace downpour
