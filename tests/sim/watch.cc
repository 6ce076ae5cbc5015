#include "tests/sim/watch.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ps/initial_values.h"
#include "ps/shard.h"

namespace downpour {
namespace {

std::string FolderOf(Round round) { return absl::StrCat("checkpoints/", ToString(round)); }

}  // namespace

void Watch::Add(const Process& process, const std::string& what) {
  world_->findings().Add(absl::StrCat(process.name, "#", static_cast<uint32_t>(process.life), ": ", what));
}

Time Watch::LastHeartbeat(Incarnation from) const {
  const auto found = heartbeats_.find(from);
  return found == heartbeats_.end() ? Time{} : found->second;
}

void Watch::OnReceived(const Process& process, const Received& received) {
  if (process.kind != TaskRole::kChief) return;
  if (const auto* join = std::get_if<Join>(&received.message)) {
    joiners_[{process.life, received.from}] = join->nonce;
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&received.message)) {
    heartbeats_[heartbeat->from] = world_->now();
  }
}

void Watch::OnTrace(const Process& process, const TraceRecord& record) {
  traces_[process.life].push_back(record);
  truth_->Record(record);
  if (process.kind == TaskRole::kPs) touched_.insert(record.slice);
  if (record.kind == TraceRecord::Kind::kDurable) {
    CheckManifest({static_cast<uint32_t>(record.count >> 32), static_cast<uint32_t>(record.count)});
  }
}

void Watch::AfterStep(const Process& process) {
  for (SliceId slice : touched_) CheckServed(process, slice);
  touched_.clear();
  for (const auto& [to, message] : sent_) {
    std::visit([&, peer = to](const auto& m) { Check(process, peer, m); }, message);
  }
  sent_.clear();
  if (process.chief != nullptr) CheckChief(process);
  if (process.worker != nullptr && process.worker->holding().size() > static_cast<size_t>(world_->draw().leases_held)) {
    Add(process, "holds more leases than it may");
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
  const bool placed_anew = epochs != epochs_;
  for (size_t i = 0; placed_anew && i < std::min(epochs.size(), epochs_.size()); ++i) {
    if (epochs[i] == SliceEpoch{}) {
      epochs[i] = epochs_[i];  // a chief that has just begun
    } else if (epochs[i] < epochs_[i]) {
      Add(process,
          absl::StrCat("slice ", i, " goes back from epoch ", ToString(epochs_[i]), " to ", ToString(epochs[i])));
    }
  }
  if (placed_anew || chief.committed() != committed_) {
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

void Watch::Check(const Process& process, PeerId to, const Welcome& welcome) {
  const uint64_t nonce = joiners_[{process.life, to}];
  const auto [given, fresh] = given_.emplace(welcome.you, nonce);
  if (!fresh && given->second != nonce) Add(process, "one incarnation for two processes");
  if (!fresh && names_[welcome.name] != welcome.you)
    Add(process, absl::StrCat(welcome.name, ": welcomed after its successor"));
  names_[welcome.name] = welcome.you;
  if (welcome.term != process.chief->term() || welcome.term == 0)
    Add(process, "welcomes in a term that is not durable");
}

void Watch::Check(const Process& process, PeerId, const JobEnd& end) {
  if (!end.succeeded) return;
  const uint64_t leases = oracle_->plan().total_leases();
  if (!durable_.has_value() || !durable_->committed.CoversRange(0, leases)) {
    Add(process, "ends the job before a durable checkpoint holds every lease");
  }
}

void Watch::Check(const Process& process, PeerId, const SnapshotRequest& request) {
  committed_at_start_.try_emplace(request.round, process.chief->committed());
}

void Watch::Check(const Process& process, PeerId, const WriteShard& request) {
  committed_at_start_.try_emplace(request.round, process.chief->committed());
}

void Watch::Check(const Process& process, PeerId, const Push& push) {
  for (const Push::Item& item : push.slices) {
    const std::string name =
        absl::StrCat("pushes lease ", ToNumber(push.lease), " step ", push.step, " slice ", ToNumber(item.slice), " ");
    if (item.gradient.bytes() != oracle_->Gradient(push.lease, push.step, item.slice).bytes()) {
      Add(process, absl::StrCat(name, "with another gradient"));
    }
    const std::optional<uint32_t> checksum = truth_->ChecksumAt(item.slice, item.computed_from);
    if (!checksum.has_value() || !process.device->ComputedOn(push.lease, push.step, item.slice, *checksum)) {
      Add(process, absl::StrCat(name, "computed from other values than ", ToString(item.computed_from.epoch), " v",
                                item.computed_from.n));
    }
  }
}

void Watch::Check(const Process& process, PeerId, const PushReply& reply) {
  for (const PushReply::Item& item : reply.slices) {
    if (item.refusal != SliceRefusal::kNone) continue;
    const Step applied = truth_->Applied(item.slice, item.epoch, reply.lease);
    if (item.applied != applied || item.acked > applied) {
      Add(process,
          absl::StrCat("answers applied=", item.applied, " acked=", item.acked, " of lease ", ToNumber(reply.lease),
                       " slice ", ToNumber(item.slice), " where ", applied, " is true"));
    }
  }
}

void Watch::Check(const Process& process, PeerId, const PullReply& reply) {
  for (const PullReply::Item& item : reply.slices) {
    if (item.refusal != SliceRefusal::kNone || item.values.empty()) continue;
    if (truth_->ChecksumAt(item.slice, item.version) != Crc32c(item.values.bytes())) {
      Add(process, absl::StrCat("slice ", ToNumber(item.slice), " never had these values at ",
                                ToString(item.version.epoch), " v", item.version.n));
    }
  }
}

void Watch::Check(const Process& process, PeerId, const SliceRecord& record) {
  const absl::StatusOr<SliceState> state = DecodeRecord(record.blocks);
  if (!state.ok()) return Add(process, std::string(state.status().ToString()));
  if (state->slice != record.slice || state->epoch != record.epoch || state->finished != record.finished) {
    Add(process, "a record that is not what its message says");
  }
  truth_->CheckRecord(record.round, *state, process.name);
}

void Watch::Check(const Process& process, PeerId, const EvalDone& done) {
  const uint32_t values = process.device->EvaluatedOn(done.first_batch);
  const auto [known, fresh] = evaluated_.emplace(done.versions_digest, values);
  if (!fresh && known->second != values) Add(process, "one versions digest for two sets of values");
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

void Watch::CheckEnd() {
  IntervalSet all;
  all.InsertRange(0, oracle_->plan().total_leases());
  Findings& findings = world_->findings();
  if (!durable_.has_value() || durable_->committed != all) return findings.Add("the last checkpoint lacks leases");
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
