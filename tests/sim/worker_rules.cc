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
// Under a chief; only then are both of its last pulls known here.
constexpr uint64_t kTakenBefore = 3;
constexpr uint64_t kAmpleWindow = 1 << 20;

}  // namespace

void WorkerRules::Before(const Process& process, const Input& input) {
  if (process.worker == nullptr) return;
  Worker& worker = workers_[process.life];
  beats_as_.reset();
  goes_on_ = wakes_ = pulls_ = false;
  if (const auto* received = std::get_if<Received>(&input)) OnReceived(process, worker, received->message);
  if (std::holds_alternative<StopRequested>(input) && !worker.told_to_stop) worker.told_to_stop = world_->now();
  const auto* done = std::get_if<ComputeDone>(&input);
  const auto* gradients = done == nullptr ? nullptr : std::get_if<Gradients>(&done->result);
  const bool settles = oracle_->job().training.has_worker_state();
  if (gradients != nullptr && done->ticket == worker.training && settles) {
    for (const auto& [slice, values] : gradients->slices) {
      ++worker.computed[{worker.step.first, worker.step.second, slice}];
    }
  }
  if (done == nullptr || done->ticket != worker.ticket) return;
  worker.waits = std::holds_alternative<KeysFound>(done->result) && worker.at != At::kRest;
  if (worker.waits) return;
  if (gradients != nullptr && gradients->last) worker.steps.Add(world_->now() - worker.began);
  if (worker.at == At::kEvaluation) worker.began = world_->now();  // no pull began during it
  if (gradients == nullptr || gradients->last) worker.at = At::kRest;
}

void WorkerRules::OnReceived(const Process& process, Worker& worker, const Message& message) {
  const auto* grant = std::get_if<EvalGrant>(&message);
  if (grant != nullptr && grant->to == process.worker->incarnation() && grant->round > worker.evaluation) {
    worker.evaluation = grant->round;
    worker.evaluation_granted = world_->steps();
  }
  if (std::holds_alternative<Grant>(message)) worker.has_last = false;
  if (const auto* reply = std::get_if<HeartbeatReply>(&message)) worker.retires |= reply->retired;
  if (const auto* reply = std::get_if<PullReply>(&message); reply != nullptr && reply->request >= worker.first_pull) {
    worker.pull_ended = world_->now();
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
  if (const auto* placement = std::get_if<Placement>(&message)) {
    worker.placed = world_->steps();
    worker.owed.clear();
    worker.epochs.resize(oracle_->grid().size());
    for (const Placement::Item& item : placement->slices) {  // what moved is named again in the same pull
      if (item.epoch > worker.epochs[ToNumber(item.slice)]) worker.pulling.erase(item.slice);
    }
  }
  const auto* welcome = std::get_if<Welcome>(&message);
  if (welcome == nullptr || welcome->term < worker.term) return;
  const absl::StatusOr<JobSpec> job = ParseCanonicalJob(welcome->job);
  if (job.ok()) jobs_.try_emplace(welcome->run, *job);
  worker.term = welcome->term;
  worker.welcomed_in = welcome->run;
  worker.pulls_ahead = job.ok() && job->training.pull_ahead;
  worker.ever_ahead |= worker.pulls_ahead;
  worker.steps_to_pull_in = worker.pulled_ahead = worker.taken = 0;
  worker.newest_pull = 0;  // it may begin to count again
  worker.pulling.clear();
  worker.owed.clear();
  worker.placed = world_->steps();
}

void WorkerRules::OnEffect(const Process& process, const Effect& effect) {
  const auto* record = process.ps == nullptr ? nullptr : std::get_if<TraceRecord>(&effect);
  if (record != nullptr && record->kind == TraceRecord::Kind::kApplied) {
    counted_.insert({record->peer, record->lease, record->step, record->slice});
  }
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
  wakes_ |= std::holds_alternative<Wake>(effect);
  const auto* send = std::get_if<Send>(&effect);
  if (send == nullptr) return;
  if (worker.told_to_stop && std::holds_alternative<WorkRequest>(send->message)) {
    Add(process, "is told to stop, and asks for work");
  }
  if (const auto* request = std::get_if<WorkRequest>(&send->message)) worker.asked_as = request->from;
  const auto* report = std::get_if<DataReport>(&send->message);
  const auto job = jobs_.find(RunOf(process));
  if (report != nullptr && report->error.empty() && job != jobs_.end() &&
      !process.device->HasReadFor(job->second, report->fingerprint)) {
    Add(process, "reports the data of another job");
  }
  if (report != nullptr && report->error.empty() && report->guesses != Device::kGuesses) {
    Add(process, "reports guesses that its device did not find");
  }
  const auto* beat = std::get_if<Heartbeat>(&send->message);
  if (beat != nullptr && beat->placement != 0) beats_as_ = beat->from;
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
  worker.waits = false;
  // The device is at nothing else: a step that it was at when it was prepared again has no end.
  if (std::holds_alternative<FindKeys>(compute.request)) worker.at = At::kRest;
  if (std::holds_alternative<MoreRows>(compute.request) && worker.at == At::kStep) worker.training = compute.ticket;
  if (std::holds_alternative<Prepare>(compute.request) && std::exchange(worker.run, RunOf(process)) != RunOf(process)) {
    worker.forgotten.merge(worker.computed);
    worker.computed.clear();
    worker.training = {};
    worker.steps = worker.pulls = {};
  }
  if (const auto* step = std::get_if<TrainStep>(&compute.request)) {
    Settle(process, worker, step->settled);
    worker.training = compute.ticket;
    return BeginStep(process, worker, *step);
  }
  if (const auto* evaluation = std::get_if<EvalStep>(&compute.request)) {
    worker.at = At::kEvaluation;
    TakePulled(worker);
    worker.evaluated = world_->steps();
    worker.owed_when_it_evaluated = !worker.owed.empty();
    const bool is_first = std::exchange(worker.evaluating, worker.evaluation) != worker.evaluation;
    // Rows are pulled for each batch; variables for the first, and those that move meanwhile.
    std::erase_if(worker.pulling, [&](SliceId slice) { return is_first || oracle_->grid().IsBucket(slice); });
    CheckAnnounced(process, worker, evaluation->updates);
    if (worker.pull_began < worker.evaluation_granted) Add(process, "evaluates what it pulled before it was asked to");
  }
}

void WorkerRules::BeginStep(const Process& process, Worker& worker, const TrainStep& step) {
  worker.at = At::kStep;
  goes_on_ = step.next.has_value();
  worker.began = world_->now();
  TakePulled(worker);
  worker.pulls_from = worker.began + worker.steps.longer() - worker.pulls.longer() * 5 / 4;
  const bool is_last = step.step == oracle_->plan().StepsOf(step.lease);
  worker.has_last = is_last && process.worker->holding() == std::vector<LeaseId>{step.lease};
  worker.pulling.clear();
  if (worker.told_to_stop) Add(process, "is told to stop, and begins a step");
  if (worker.pull_began < worker.evaluated) Add(process, "trains on what it pulled before an evaluation");
  if (worker.pull_began < worker.without_work) Add(process, "trains on what it pulled before it was without work");
  CheckAnnounced(process, worker, step.updates);
  worker.epochs.resize(oracle_->grid().size());
  worker.known_at.try_emplace({step.lease, step.step}, worker.epochs);  // what is kept of it may be older
  const bool is_ahead = worker.pulls_ahead && worker.welcomed_in == RunOf(process);
  if (is_ahead && worker.step == std::pair(step.lease, step.step - 1)) ++worker.steps_to_pull_in;
  worker.step = {step.lease, step.step};
  if (worker.steps_to_pull_in >= kStepsWithoutPull && worker.pulled_ahead == 0) {
    Add(process, absl::StrCat("pulls ahead in none of ", kStepsWithoutPull, " steps"));
  }
}

// What a worker alone has, as the rest of its roundings and its optimizer's memory, moves on only with what counted.
void WorkerRules::Settle(const Process& process, Worker& worker, const std::vector<Settled>& settled) {
  for (const Settled& one : settled) {
    const std::string name =
        absl::StrCat("of lease ", ToNumber(one.lease), " step ", one.step, " slice ", ToNumber(one.slice));
    const auto take_from = [&one](auto& gradients) {
      const auto found = gradients.find({one.lease, one.step, one.slice});
      if (found == gradients.end()) return false;
      if (--found->second == 0) gradients.erase(found);
      return true;
    };
    // The device passes over what it computed before it began again.
    if (!take_from(worker.computed) && !take_from(worker.forgotten)) {
      Add(process, absl::StrCat("settles a gradient twice, or one that it did not compute: ", name));
    }
    const bool has_counted = std::ranges::any_of(worker.names, [&](Incarnation as) {
      return counted_.contains({as, one.lease, one.step, one.slice});
    });
    if (one.counted && !has_counted) Add(process, absl::StrCat("says that a gradient counted, and it did not: ", name));
  }
  const std::vector<LeaseId> held = process.worker->holding();
  std::set<std::pair<LeaseId, Step>> in_flight;
  for (const auto& [computed, times] : worker.computed) {
    const auto& [lease, step, slice] = computed;
    in_flight.insert({lease, step});
    if (std::ranges::find(held, lease) != held.end()) continue;
    Add(process, absl::StrCat("holds lease ", ToNumber(lease), " no more, and does not settle step ", step));
  }
  const FaultPlan& plan = world_->plan();
  if (in_flight.size() > static_cast<size_t>(plan.steps_in_flight * plan.leases_held)) {
    Add(process, absl::StrCat(in_flight.size(), " steps are not settled, more than can be in flight"));
  }
}

void WorkerRules::CheckAnnounced(const Process& process, const Worker& worker, const SliceValues& values) {
  for (const auto& [slice, payload] : values) {
    // Rows of buckets come for one step, and are laid out by it.
    if (worker.announced.contains({slice, payload.data()}) || oracle_->grid().IsBucket(slice)) continue;
    return Add(process, absl::StrCat("its device was not told ahead of the values of slice ", ToNumber(slice)));
  }
}

// It took so long at most: what is sent may have waited for room since the newest step began.
void WorkerRules::TakePulled(Worker& worker) {
  ++worker.taken;
  if (worker.pull_since && worker.pull_ended) worker.pulls.Add(*worker.pull_ended - *worker.pull_since);
  worker.pull_since.reset();
  worker.pull_ended.reset();
}

// The first one since what was pulled was taken is of the next pull; so is one that names a slice a second time, under
// a new number.
void WorkerRules::OnPull(const Process& process, Worker& worker, const Pull& pull) {
  for (const Pull::Item& item : pull.slices) Learn(worker, item.slice, item.epoch);
  if (pull.request <= worker.newest_pull) return;  // sent again
  worker.newest_pull = pull.request;
  if (worker.waits) {
    const auto is_bucket = [&](const Pull::Item& item) { return oracle_->grid().IsBucket(item.slice); };
    if (!std::ranges::all_of(pull.slices, is_bucket)) Add(process, "pulls variables amid a step");
    return;
  }
  const bool begins = worker.pulling.empty() || std::ranges::any_of(pull.slices, [&](const Pull::Item& item) {
                        return worker.pulling.contains(item.slice);
                      });
  if (begins) worker.pulling.clear();
  for (const Pull::Item& item : pull.slices) worker.pulling.insert(item.slice);
  if (!begins) return;
  pulls_ = true;
  if (!worker.pull_since) {
    worker.first_pull = pull.request;
    worker.pull_since = worker.began;
  }
  const bool moved = worker.placed > worker.pull_began;  // what moved is pulled again, whenever that is
  worker.pull_began = world_->steps();
  // Its first message may have waited for room in the window, which pushes enter first.
  const bool may_have_begun = moved || worker.owed_when_it_evaluated;
  if (worker.at == At::kEvaluation && !may_have_begun) Add(process, "begins to pull while it evaluates");
  if (worker.at != At::kStep || moved) return;
  ++worker.pulled_ahead;
  if (worker.has_last) Add(process, "begins to pull for the next step, and has none");
  const bool too_soon = worker.taken > kTakenBefore && world_->now() < worker.pulls_from;
  if (too_soon) Add(process, "begins to pull for the next step sooner than it need");
  if (worker.welcomed_in != RunOf(process) || worker.ever_ahead) return;  // what another run's says is not known here
  Add(process, "begins to pull for the next step before this one is computed");
}

void WorkerRules::OnPush(const Process& process, Worker& worker, const Push& push) {
  worker.names.insert(push.from);
  for (const Push::Item& item : push.slices) {
    Learn(worker, item.slice, item.epoch);
    worker.owed.insert({push.lease, push.step, item.slice});
  }
  const auto known = worker.known_at.find({push.lease, push.step});
  if (known == worker.known_at.end()) return;
  for (const Push::Item& item : push.slices) {
    // Where a step has no keys nothing was pulled.
    if (item.gradient.empty() && oracle_->grid().IsBucket(item.slice)) continue;
    if (item.computed_from.epoch >= known->second[ToNumber(item.slice)]) continue;
    Add(process, absl::StrCat("computed on slice ", ToNumber(item.slice), " as it was in epoch ",
                              ToString(item.computed_from.epoch), ", which it knew to be over"));
  }
}

// Where each job's text has it pull ahead, and nothing waits for room in a window.
void WorkerRules::CheckWakes(const Process& process) {
  const FaultPlan& plan = world_->plan();
  const bool is_sure = plan.job.training.pull_ahead && !plan.other_text && plan.window.bytes > kAmpleWindow;
  const bool is_whole = process.alive && !process.crash_after.has_value();  // the Step
  if (is_sure && is_whole && goes_on_ && !wakes_ && !pulls_)
    Add(process, "neither pulls for the next step nor will be woken to");
}

void WorkerRules::After(const Process& process) {
  if (process.worker == nullptr) return;
  Worker& worker = workers_[process.life];
  if (worker.at == At::kRest && process.worker->holding().empty()) worker.without_work = world_->steps();
  CheckWakes(process);
  const bool leaves = worker.told_to_stop || worker.retires || !process.alive || process.crash_after.has_value();
  if (beats_as_.value_or(worker.asked_as) != worker.asked_as && !leaves) {
    Add(process, "is placed by a later chief, and has not told it what it holds");
  }
}

}  // namespace downpour
