#include "tests/unit/chief/chief_harness.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/metrics.h"

namespace downpour {

ChiefHarness::ChiefHarness(JobSpec job, bool resume, std::shared_ptr<MemoryDisk> on, Round give_up, Duration ran_before)
    : disk(std::move(on)),
      role(std::make_unique<ChiefRole>(ChiefOptions{.job = job,
                                                    .job_dir = "/jobs/small",
                                                    .host = "h0",
                                                    .pid = 4711,
                                                    .command = "downpour run j.yaml",
                                                    .descriptors = kDescriptors,
                                                    .resume = resume,
                                                    .give_up = give_up,
                                                    .nonce = kRun,
                                                    .ran_before = ran_before,
                                                    .timing = {}})),
      job_(std::move(job)) {
  uint64_t number = ToNumber(PeerId::kFirstAccepted);
  for (FakeMember* member : {&ps[0], &ps[1], &worker[0], &worker[1]}) {
    member->control = PeerId{number++};
    member->bulk = PeerId{number++};
    member->join.role = member < worker ? TaskRole::kPs : TaskRole::kWorker;
    member->join.nonce = number;
    member->join.host = "h1";
    member->join.pid = static_cast<uint32_t>(number & 0xffff);
  }
  for (FakeMember& member : ps) {
    member.join.role = TaskRole::kPs;
    member.join.endpoint = "h1:1";
  }
  for (FakeMember& member : worker) member.join.role = TaskRole::kWorker;
}

SliceGrid ChiefHarness::grid() const { return *GridOf(job_.model); }

void ChiefHarness::Start() { Feed(Started{unix_ms, "127.0.0.1:40123"}); }

void ChiefHarness::Feed(Input input) {
  Effects out;
  role->Step(now, std::move(input), out);
  Carry(out.Take());
  while (!answers_.empty()) {
    Received answer = std::move(answers_.front());
    answer.run = kRun;
    answers_.erase(answers_.begin());
    role->Step(now, std::move(answer), out);
    Carry(out.Take());
  }
}

void ChiefHarness::Carry(std::vector<Effect> out) {
  for (Effect& effect : out) {
    if (const auto* op = std::get_if<StorageOp>(&effect)) {
      if (disk_hangs) {
        hanging_.push_back(std::move(effect));
        continue;
      }
      Effects more;
      role->Step(now, disk->Carry(*op), more);
      Carry(more.Take());
      continue;
    }
    if (const auto* send = std::get_if<Send>(&effect)) Answer(send->to, send->message);
    effects.push_back(std::move(effect));
  }
}

void ChiefHarness::LetDiskGoOn() {
  disk_hangs = false;
  Carry(std::exchange(hanging_, {}));
}

int ChiefHarness::HangingOn(const std::string& path) const {
  return static_cast<int>(
      std::ranges::count_if(hanging_, [&](const Effect& effect) { return std::get<StorageOp>(effect).path == path; }));
}

FakeMember* ChiefHarness::FindByPeer(PeerId peer) {
  for (FakeMember* member : {&ps[0], &ps[1], &worker[0], &worker[1]}) {
    if (member->control == peer || member->bulk == peer) return member;
  }
  return nullptr;
}

void ChiefHarness::Answer(PeerId to, const Message& message) {
  FakeMember* member = FindByPeer(to);
  if (member == nullptr) return;
  if (const auto* welcome = std::get_if<Welcome>(&message)) member->id = welcome->you;
  if (const auto* placement = std::get_if<Placement>(&message)) member->placement = placement->number;
  if (member->join.role == TaskRole::kPs && member->alive) AnswerPs(*member, message);
}

SliceReport::Item ChiefHarness::GoOn(FakeMember& server, const Assign::Item& item) {
  const auto held = server.slices.find(item.slice);
  if (held == server.slices.end()) return {item.slice, item.epoch, "it is not held here", {}};
  held->second.epoch = item.epoch;
  return {item.slice, item.epoch, "", held->second.finished};
}

void ChiefHarness::AnswerPs(FakeMember& server, const Message& message) {
  const SliceGrid slices = grid();
  if (const auto* assign = std::get_if<Assign>(&message); assign != nullptr && server.answers_assign) {
    SliceReport report{.from = server.id, .slices = {}};
    for (const Assign::Item& item : assign->slices) {
      if (item.source == SliceSource::kCheckpoint) continue;
      if (item.source == SliceSource::kHeld) {
        report.slices.push_back(GoOn(server, item));
        continue;
      }
      const size_t bytes = static_cast<size_t>(slices.at(item.slice).bytes());
      SliceState state{.slice = item.slice,
                       .epoch = item.epoch,
                       .finished = {},
                       .counters = {},
                       .values = Payload::Zeros(bytes),
                       .slots = {Payload::Zeros(bytes)}};
      server.slices[item.slice] = state;
      report.slices.push_back({item.slice, item.epoch, "", {}});
    }
    if (!report.slices.empty()) answers_.push_back({server.control, report});
  }
  if (const auto* restore = std::get_if<RestoreSlice>(&message); restore != nullptr && server.answers_assign) {
    const absl::StatusOr<SliceState> state = DecodeRecord(restore->blocks);
    ASSERT_TRUE(state.ok()) << state.status();
    server.slices[restore->slice] = *state;
    server.slices[restore->slice].epoch = restore->epoch;
    SliceReport report{.from = server.id, .slices = {}};
    report.slices.push_back({restore->slice, restore->epoch, "", state->finished});
    answers_.push_back({server.control, report});
  }
  if (const auto* request = std::get_if<SnapshotRequest>(&message); request != nullptr && server.answers_snapshots) {
    for (const SnapshotRequest::Item& item : request->slices) {
      const SliceState& state = server.slices.at(item.slice);
      answers_.push_back({server.bulk, SliceRecord{.from = server.id,
                                                   .round = request->round,
                                                   .slice = item.slice,
                                                   .epoch = item.epoch,
                                                   .finished = state.finished,
                                                   .blocks = EncodeRecord(state),
                                                   .skipped = state.skipped,
                                                   .version = state.version}});
    }
  }
}

void ChiefHarness::Wait(Duration duration) {
  const Timing timing;
  for (const Time end = now + duration; now < end;) {
    now += timing.tick;
    if (now >= next_beat_) {
      next_beat_ = now + timing.heartbeat;
      for (FakeMember* member : {&ps[0], &ps[1], &worker[0], &worker[1]}) {
        if (member->alive && member->id != Incarnation::kNone) Beat(*member);
      }
    }
    Feed(Tick{});
  }
}

FakeMember& ChiefHarness::JoinPs(int index) {
  ps[index].join.index = index;
  Say(ps[index].control, ps[index].join);
  Beat(ps[index]);
  return ps[index];
}

FakeMember& ChiefHarness::JoinWorker(int index) {
  worker[index].join.index = index;
  Say(worker[index].control, worker[index].join);
  return worker[index];
}

void ChiefHarness::Beat(FakeMember& member, std::vector<std::string> lines) {
  Say(member.control, Heartbeat{.from = member.id,
                                .placement = member.placement,
                                .stats = member.stats,
                                .log_from = 0,
                                .log_lines = std::move(lines),
                                .leaving = member.leaving});
  if (member.join.role == TaskRole::kPs) Say(member.bulk, OpenBulk{member.id});
}

void ChiefHarness::ReportData(FakeMember& member, uint64_t fingerprint) {
  Say(member.control, DataReport{member.id, kTrainExamples, kEvalExamples, fingerprint, "", guesses});
}

void ChiefHarness::RunToRunning() {
  for (int i = 0; i < 2; ++i) JoinPs(i);
  for (int i = 0; i < 2; ++i) ReportData(JoinWorker(i));
  Wait(1s);
  ASSERT_EQ(role->state(), JobState::kRunning);
}

std::vector<LeaseId> ChiefHarness::Ask(FakeMember& member, uint32_t wanted, std::vector<LeaseId> holding) {
  const size_t before = Sent<Grant>(member).size();
  Say(member.control, WorkRequest{member.id, std::move(holding), wanted, ++member.work_requests});
  std::vector<LeaseId> leases;
  const std::vector<Grant> grants = Sent<Grant>(member);
  for (size_t i = before; i < grants.size(); ++i) leases.push_back(grants[i].lease);
  return leases;
}

void ChiefHarness::Apply(LeaseId lease) {
  for (FakeMember& server : ps) {
    for (auto& [slice, state] : server.slices) state.finished.Insert(ToNumber(lease));
  }
}

LeaseDone ChiefHarness::Evidence(const FakeMember& member, LeaseId lease) const {
  LeaseDone done{.from = member.id, .lease = lease, .evidence = {}, .loss_sum = 4 * trained_loss, .examples = 4};
  const std::vector<SliceEpoch> epochs = role->epochs();
  for (uint32_t slice = 0; slice < epochs.size(); ++slice) done.evidence.push_back({SliceId{slice}, epochs[slice]});
  return done;
}

void ChiefHarness::Finish(FakeMember& member, LeaseId lease) {
  Apply(lease);
  Say(member.control, Evidence(member, lease));
}

void ChiefHarness::FinishAll(FakeMember& member) {
  for (std::vector<LeaseId> leases = Ask(member, 2); !leases.empty(); leases = Ask(member, 2)) {
    for (const LeaseId lease : leases) Finish(member, lease);
  }
}

void ChiefHarness::Evaluate(FakeMember& member) {
  for (size_t i = 0; i < Sent<EvalGrant>(member).size(); ++i) {
    const EvalGrant grant = Sent<EvalGrant>(member)[i];
    const uint64_t end = std::min(kEvalExamples, (grant.first_batch + grant.batches) * 2);
    const uint64_t examples = end - grant.first_batch * 2;
    Say(member.control, EvalDone{.from = member.id,
                                 .round = grant.round,
                                 .first_batch = grant.first_batch,
                                 .batches = grant.batches,
                                 .loss_sum = evaluated_loss * static_cast<double>(examples),
                                 .correct = examples / 2,
                                 .examples = examples,
                                 .versions_digest = 5,
                                 .oldest_version = 3,
                                 .newest_version = 4,
                                 .metric_sums = std::vector<double>(CountMetricSums(job_.training.metrics), 1)});
  }
}

nlohmann::json ChiefHarness::TaskStatus(const std::string& name) const {
  const nlohmann::json status = Status();
  for (const auto& task : status["tasks"]) {
    if (task["name"] == name) return task;
  }
  return {};
}

std::optional<Exit> ChiefHarness::exit() const {
  for (const Effect& effect : effects) {
    if (const auto* end = std::get_if<Exit>(&effect)) return *end;
  }
  return std::nullopt;
}

}  // namespace downpour
