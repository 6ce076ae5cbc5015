#include "tests/sim/watch.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "chief/journal.h"
#include "chief/sealed_copies.h"
#include "ps/initial_values.h"
#include "ps/quarantine.h"
#include "ps/shard.h"
#include "runtime/exit_code.h"

namespace downpour {
namespace {

std::string FolderOf(Round round) { return absl::StrCat("checkpoints/", ToString(round)); }

}  // namespace

void Watch::Add(const Process& process, const std::string& what) {
  world_->findings().Add(absl::StrCat(process.name, "#", static_cast<uint32_t>(process.life), ": ", what));
}

void Watch::OnReceived(const Process& process, const Received& received) {
  if (const auto* push = std::get_if<Push>(&received.message)) push_ = *push;
  hears_end_ = std::holds_alternative<JobEnd>(received.message);
  if (process.kind == TaskRole::kChief) {
    if (const auto* beat = std::get_if<Heartbeat>(&received.message)) {
      heard_[beat->from] = {process.life, world_->now(), process.away};
    }
    if (const auto* join = std::get_if<Join>(&received.message)) {
      joiners_[{process.life, received.from}] = join->nonce;
    } else if (const auto* request = std::get_if<WorkRequest>(&received.message)) {
      uint64_t& newest = asked_[request->from];
      if (request->number < newest) overtaken_ = request->from;
      newest = std::max(newest, request->number);
    }
  } else if (process.kind == TaskRole::kWorker) {
    if (const auto* reply = std::get_if<PushReply>(&received.message)) {
      Answered(process.life, received.from, *reply);
      Tell(process.life, *reply);
    }
    if (const auto* grant = std::get_if<Grant>(&received.message)) {
      const std::vector<LeaseId> held = process.worker->holding();
      if (std::count(held.begin(), held.end(), grant->lease) == 0) told_.erase({process.life, grant->lease});
    }
    if (const auto* reply = std::get_if<LeaseDoneReply>(&received.message); reply != nullptr && !reply->committed) {
      for (auto& [slice, told] : told_[{process.life, reply->lease}]) told.applied = 0;  // late answers may steer back
    }
    if (const auto* reply = std::get_if<PullReply>(&received.message)) {
      in_flight_[{process.life, received.from}].window = reply->window;
    }
    if (std::holds_alternative<Placement>(received.message)) {  // what moved is nobody's any more
      for (auto& [link, in_flight] : in_flight_) {
        if (link.first == process.life) in_flight.sent.clear();
      }
    }
  }
}

void Watch::OnToldToStop(const Process& process) {
  if (process.ps != nullptr) told_to_stop_.try_emplace(process.life, world_->now(), traces_[process.life].size());
}

// Who hears of the job's end, or has waited for as long as it may, goes whatever it has.
void Watch::OnExit(const Process& process, int code) {
  const auto told = told_to_stop_.find(process.life);
  const bool goes_by_itself = code > kExitSignalled && !hears_end_;
  if (told == told_to_stop_.end() || !goes_by_itself || world_->now() >= told->second.at + kPsLeavesWithin) return;
  // What a slice had before it was placed anew, from an older state, is no matter of leaving.
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

void Watch::CheckKept(const Process& ps, const TraceRecord& counted) {
  if (ps.ps->Find(counted.slice) == nullptr) return;  // another's by now
  const size_t index = ToNumber(counted.slice);
  const absl::StatusOr<SliceState> kept =
      durable_ ? ReadRecord(*durable_, index) : absl::NotFoundError("no checkpoint");
  const auto has = [&counted](const LeaseCounter& counter) {
    return counter.lease == counted.lease && counter.applied >= counted.step;
  };
  if (kept.ok() && (kept->finished.Contains(ToNumber(counted.lease)) || std::ranges::any_of(kept->counters, has)))
    return;
  Add(ps, absl::StrCat("leaves before a checkpoint holds step ", counted.step, " of lease ", ToNumber(counted.lease),
                       " on slice ", index, ", counted before it was told to stop"));
}

void Watch::OnTrace(const Process& process, const TraceRecord& record) {
  traces_[process.life].push_back(record);
  truth_->Record(record);
  if (process.kind == TaskRole::kPs) touched_.insert(record.slice);
  if (record.kind == TraceRecord::Kind::kApplied || record.kind == TraceRecord::Kind::kSkipped) {
    CheckCounted(process, record);
  }
  if (record.kind == TraceRecord::Kind::kDurable) {
    CheckManifest({static_cast<uint32_t>(record.count >> 32), static_cast<uint32_t>(record.count)});
  }
}

// A new holder asks every slice first, and computes only what one of them lacks.
void Watch::OnCompute(const Process& process, const Compute& compute) {
  const auto* step = std::get_if<TrainStep>(&compute.request);
  if (step == nullptr) return;
  const std::map<SliceId, Told>& told = told_[{process.life, step->lease}];
  const std::string name = absl::StrCat("computes lease ", ToNumber(step->lease), " step ", step->step, ", ");
  if (told.size() < oracle_->grid().size()) Add(process, name + "and has not heard of every slice how far that is");
  const bool lacked =
      std::any_of(told.begin(), told.end(), [step](const auto& item) { return item.second.applied < step->step; });
  if (!lacked) Add(process, name + "which every slice has told it to have counted");
}

// From the moment at which a manifest has its name, until its loss is synced, it may survive alone.
void Watch::OnStored(const StorageOp& op) {
  if (op.kind == StorageOp::Kind::kRename && absl::EndsWith(op.target, "/MANIFEST")) CheckNamed(op.target);
  if (op.kind == StorageOp::Kind::kRemove && world_->disk().MaySurvive(op.path + "/MANIFEST")) {
    world_->findings().Add(absl::StrCat("the manifest of ", op.path, " may outlive what it names, which is removed"));
  }
  if (op.kind == StorageOp::Kind::kRename && op.target == "journal.b") {  // after journal.a
    const auto entry = DecodeEntry(Unsealed(world_->disk().ReadSeen(op.target).value_or("")).value_or(""));
    if (entry.ok()) journalled_ = entry->record.newest;
  }
}

void Watch::OnPowerFailure() {
  if (world_->draw().damage || world_->draw().lose) return;  // an earlier stop may have
  for (const std::string& file : world_->disk().Files("checkpoints/")) {
    if (absl::EndsWith(file, "/MANIFEST")) CheckNamed(file);
  }
}

void Watch::CheckNamed(const std::string& manifest) {
  Findings& findings = world_->findings();
  const absl::StatusOr<Manifest> read = DecodeManifest(world_->disk().ReadSeen(manifest).value_or(""));
  if (!read.ok()) return findings.Add(absl::StrCat(manifest, " is none: ", std::string(read.status().message())));
  for (size_t i = 0; i < read->records.size(); ++i) {
    const absl::Status record = ReadRecord(*read, i).status();
    if (!record.ok()) {
      return findings.Add(absl::StrCat(manifest, " may outlive what it names: ", std::string(record.message())));
    }
  }
}

void Watch::AfterStep(const Process& process) {
  for (SliceId slice : touched_) CheckServed(process, slice);
  touched_.clear();
  for (const auto& [to, message] : sent_) {
    std::visit([&, peer = to](const auto& m) { Check(process, peer, m); }, message);
  }
  sent_.clear();
  push_.reset();
  hears_end_ = false;
  overtaken_ = Incarnation::kNone;
  if (process.chief != nullptr) {
    CheckChief(process);
    CheckLost(process);
  }
  if (process.worker != nullptr && process.worker->holding().size() > static_cast<size_t>(world_->draw().leases_held)) {
    Add(process, "holds more leases than it may");
  }
}

// The fence: a push counts only in the epoch that it names. And what kills its ps is applied twice, then left out.
void Watch::CheckCounted(const Process& process, const TraceRecord& record) {
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

void Watch::CheckServed(const Process& process, SliceId slice) {
  const ServedSlice* served = process.ps->Find(slice);
  if (served == nullptr) return Add(process, absl::StrCat("writes records of slice ", ToNumber(slice), ", not here"));
  truth_->CheckSlice(StateOf(slice, *served), process.name);
}

void Watch::CheckChief(const Process& process) {
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
  if (leads && chief.all_reported() && (epochs != settled_epochs_ || chief.committed() != committed_)) {
    settled_epochs_ = epochs;
    committed_ = chief.committed();
    for (size_t i = 0; i < epochs.size(); ++i) {
      if (!truth_->Finished(SliceId{static_cast<uint32_t>(i)}, epochs[i]).Covers(committed_)) {
        Add(process, absl::StrCat("committed a lease that slice ", i, " lacks in epoch ", ToString(epochs[i])));
      }
    }
  }
  epochs_ = std::move(epochs);

  std::map<Incarnation, int> held;
  for (const auto& [lease, holder] : chief.holders()) {
    if (chief.committed().Contains(ToNumber(lease))) Add(process, "a committed lease is held");
    if (++held[holder] > world_->draw().leases_held) Add(process, "one worker is granted more leases than it may hold");
  }
  for (const auto& [holder, count] : held) {
    if (std::none_of(names_.begin(), names_.end(), [h = holder](const auto& item) { return item.second == h; })) {
      Add(process, absl::StrCat(ToNumber(holder), " holds leases and has no name"));
    }
  }
}

// Silence counts while the chief listens: what came during its own absence it has yet to hear.
void Watch::CheckLost(const Process& process) {
  const std::vector<Incarnation> lost = process.chief->lost();
  for (const Incarnation task : lost) {
    const Heard& heard = heard_[task];
    if (std::count(lost_.begin(), lost_.end(), task) > 0 || heard.by != process.life) continue;
    const Duration silence = world_->now() - heard.at - (process.away - heard.away);
    if (silence < world_->draw().timing.dead_after) {
      Add(process, absl::StrCat("holds ", ToNumber(task), " dead, and has listened for ", Seconds(silence), " s"));
    }
  }
  lost_ = lost;
}

absl::StatusOr<SliceState> Watch::ReadRecord(const Manifest& manifest, size_t index) const {
  const Manifest::Record& record = manifest.records[index];
  if (ToNumber(record.slice) != index) return absl::DataLossError("records are not one per slice");
  if (record.file >= manifest.files.size()) return absl::DataLossError("a record in no file");
  const Manifest::File& file = manifest.files[record.file];
  absl::StatusOr<std::string> bytes =
      world_->disk().ReadDurable(absl::StrCat(FolderOf(manifest.round), "/", file.name));
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != file.bytes || record.offset > bytes->size() || record.bytes > bytes->size() - record.offset) {
    return absl::DataLossError(absl::StrCat(file.name, " has ", bytes->size(), " bytes"));
  }
  const Payload piece = Payload::CopyOf(bytes->data() + record.offset, record.bytes);
  if (Crc32c(piece.bytes()) != record.crc32c) return absl::DataLossError(absl::StrCat(file.name, ": checksum"));
  return DecodeRecord({&piece, 1});
}

void Watch::CheckManifest(Round round) {
  const std::string where = absl::StrCat("checkpoint ", ToString(round));
  Findings& findings = world_->findings();
  const absl::StatusOr<std::string> text = world_->disk().ReadDurable(absl::StrCat(FolderOf(round), "/MANIFEST"));
  if (!text.ok()) return findings.Add(absl::StrCat(where, " is not durable: ", std::string(text.status().ToString())));
  absl::StatusOr<Manifest> manifest = DecodeManifest(*text);
  if (!manifest.ok()) return findings.Add(absl::StrCat(where, ": ", std::string(manifest.status().ToString())));
  if (manifest->round != round || manifest->records.size() != oracle_->grid().size() ||
      manifest->train_examples != oracle_->plan().train_examples()) {
    return findings.Add(absl::StrCat(where, ": the manifest is of another round, grid or plan"));
  }
  for (size_t i = 0; i < manifest->records.size(); ++i) {
    const absl::StatusOr<SliceState> state = ReadRecord(*manifest, i);
    if (!state.ok()) return findings.Add(absl::StrCat(where, ": ", std::string(state.status().ToString())));
    truth_->CheckRecord(round, *state, where);
    if (!state->finished.Covers(manifest->committed) || !state->finished.Covers(committed_at_start_[round])) {
      findings.Add(absl::StrCat(where, ": the record of slice ", i, " lacks a committed lease"));
    }
  }
  durable_ = *std::move(manifest);
}

void Watch::CheckSummary() {
  const Disk::Faults& faults = world_->draw().disk;
  if (faults.no_space + faults.io_error > 0)
    return;  // a job whose summary cannot be written has succeeded all the same
  const std::string text = world_->disk().ReadDurable("summary.json").value_or("");
  const nlohmann::json said = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const uint64_t samples = oracle_->plan().train_examples() * static_cast<uint64_t>(oracle_->job().training.epochs);
  if (!said.is_object() || said.value("state", "") != "SUCCEEDED" || said.value("samplesCommitted", 0u) != samples) {
    world_->findings().Add(absl::StrCat("the summary does not tell of ", samples, " samples: ", text));
  }
}

void Watch::CheckEnd() {
  IntervalSet all;
  all.InsertRange(0, oracle_->plan().total_leases());
  Findings& findings = world_->findings();
  if (!durable_.has_value() || durable_->committed != all) return findings.Add("the last checkpoint lacks leases");
  CheckSummary();
  for (size_t i = 0; i < durable_->records.size(); ++i) {
    const SliceId slice{static_cast<uint32_t>(i)};
    const absl::StatusOr<SliceState> state = ReadRecord(*durable_, i);
    if (!state.ok()) return findings.Add(absl::StrCat("the last checkpoint: ", std::string(state.status().ToString())));
    if (state->finished != all || !state->counters.empty()) findings.Add("the last checkpoint has open leases");
    if (oracle_->job().training.optimizer.kind != OptimizerKind::kSgd) continue;
    std::vector<float> initial(state->values.floats().size());
    InitialValues(oracle_->job().seed, oracle_->grid(), slice, initial.data());
    std::vector<int64_t> sums;  // rounding is below a half: initial values are small and the sums far below 2^24
    for (size_t e = 0; e < initial.size(); ++e) {
      sums.push_back(std::llround(static_cast<double>(initial[e]) - static_cast<double>(state->values.floats()[e])));
    }
    if (Oracle::Checksum(sums) != Oracle::Checksum(oracle_->Sums(all, slice))) {
      findings.Add(absl::StrCat("slice ", i, " is not the sum of the plan's gradients"));
    }
  }
}

}  // namespace downpour
