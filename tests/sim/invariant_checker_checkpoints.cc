// Checkpoints on the disk, held against what was promised of them, and the end of a job.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "ps/shard.h"
#include "tests/sim/invariant_checker.h"

namespace downpour {
namespace {

// Of checkpoints/TERM-N/FILE.
Round RoundOfPath(const std::string& path) {
  const size_t begin = path.find('/') + 1;
  return ParseRound(path.substr(begin, path.find('/', begin) - begin)).value_or(Round());
}

std::string FolderOf(Round round) { return absl::StrCat("checkpoints/", ToString(round)); }

}  // namespace

// From the moment at which a manifest has its name, until its loss is synced, it may survive alone.
void InvariantChecker::OnStored(const StorageOp& op) {
  if (op.kind == StorageOp::Kind::kRename && absl::EndsWith(op.target, "/MANIFEST")) CheckNamed(op.target);
  if (op.kind == StorageOp::Kind::kRemove && folder_->MaySurvive(op.path + "/MANIFEST")) {
    world_->findings().Add(absl::StrCat("the manifest of ", op.path, " may outlive what it names, which is removed"));
  }
  if (op.kind == StorageOp::Kind::kRemove && absl::EndsWith(op.path, "/MANIFEST")) {
    CheckKeeps(op.path);
    if (RoundOfPath(op.path) == best_.round && !damaged_.contains(best_.round)) {
      world_->findings().Add(absl::StrCat(op.path, " is removed, and the journal names it as the best"));
    }
  }
  if (op.kind == StorageOp::Kind::kRename && op.target == "journal.b") {  // after journal.a
    const auto entry = DecodeEntry(Unsealed(folder_->ReadSeen(op.target).value_or("")).value_or(""));
    if (entry.ok()) journalled_ = entry->record.newest;
    if (entry.ok()) OnJournalled(entry->record);
    if (entry.ok()) OnBest(entry->record.best);
    if (entry.ok()) CheckNewest(entry->record.newest);
  }
  if (op.kind == StorageOp::Kind::kRename && op.target == "summary.json") {
    const nlohmann::json said = nlohmann::json::parse(folder_->ReadSeen(op.target).value_or(""), nullptr, false);
    if (!said.is_object() || !said.contains("bestCheckpoint")) return;
    CheckBestIsThere(ParseRound(said["bestCheckpoint"].value("round", "")).value_or(Round()), "the summary");
  }
}

// Unless it is gone. A chief may have died between a manifest's rename and the sync of that.
void InvariantChecker::CheckNewest(Round newest) {
  const std::string manifest = FolderOf(newest) + "/MANIFEST";
  if (newest == Round() || !folder_->ReadSeen(manifest).ok() || folder_->ReadDurable(manifest).ok()) return;
  world_->findings().Add(absl::StrCat("the journal names ", ToString(newest), ", which a power failure may take"));
}

// Its newest checkpoints and the journal of them are gone with the rest.
void InvariantChecker::OnPutBack() {
  durable_ = before_ = std::nullopt;
  const auto entry = DecodeEntry(Unsealed(folder_->ReadSeen("journal.b").value_or("")).value_or(""));
  journalled_ = entry.ok() ? entry->record.newest : Round();
  best_ = entry.ok() ? entry->record.best : BestRecord();
}

// Of a checkpoint that counted until now: as many newer ones stay as the job keeps.
void InvariantChecker::CheckKeeps(const std::string& removed) {
  const FaultPlan& plan = world_->plan();
  const bool may_lack = plan.damage || plan.lose || plan.rot || plan.power_failure ||
                        plan.faults.put_back > Duration::zero() || !oracle_->job().checkpoint.every.has_value();
  if (!durable_ || plan.other_text || may_lack) return;
  int64_t newer = 0;
  for (const std::string& file : folder_->Files("checkpoints/")) {
    newer += absl::EndsWith(file, "/MANIFEST") && RoundOfPath(file) > RoundOfPath(removed);
  }
  const bool counted = RoundOfPath(removed) <= durable_->round && kept_.contains(RoundOfPath(removed));
  if (counted && newer < oracle_->job().checkpoint.keep) {
    world_->findings().Add(absl::StrCat(removed, " is removed, and only ", newer, " newer ones stay"));
  }
}

void InvariantChecker::OnPowerFailure() {
  if (MayBeDamaged()) return;  // by an earlier stop
  if (best_.round != Round()) CheckBestIsThere(best_.round, "after a power failure the journal");
  for (const std::string& file : folder_->Files("checkpoints/")) {
    if (absl::EndsWith(file, "/MANIFEST")) CheckNamed(file);
  }
}

bool InvariantChecker::MayBeDamaged() const {
  const FaultPlan& plan = world_->plan();
  return plan.damage || plan.lose || plan.rot;
}

// The better one is named in the place of the one before, or none where that was lost.
void InvariantChecker::OnBest(const BestRecord& best) {
  const BestRecord before = std::exchange(best_, best);
  if (best == before || best.round == Round()) return;
  CheckBestIsThere(best.round, "the journal");
  const bool may_follow = before.round == Round() || best.value < before.value || MayBeDamaged();
  if (!may_follow) {
    world_->findings().Add(
        absl::StrCat("the best checkpoint is one of loss ", best.value, ", after one of ", before.value));
  }
}

void InvariantChecker::CheckBestIsThere(Round round, const std::string& where) {
  if (MayBeDamaged()) return;
  const std::string manifest = FolderOf(round) + "/MANIFEST";
  if (!folder_->ReadSeen(manifest).ok()) {
    return world_->findings().Add(absl::StrCat(where, " names ", ToString(round), " as the best, and it is not there"));
  }
  CheckNamed(manifest);
}

void InvariantChecker::CheckNamed(const std::string& manifest) {
  Findings& findings = world_->findings();
  const absl::StatusOr<Manifest> read = DecodeManifest(folder_->ReadSeen(manifest).value_or(""));
  if (!read.ok()) return findings.Add(absl::StrCat(manifest, " is none: ", std::string(read.status().message())));
  for (size_t i = 0; i < read->records.size(); ++i) {
    const absl::Status record = ReadRecord(*read, i).status();
    if (!record.ok()) {
      return findings.Add(absl::StrCat(manifest, " may outlive what it names: ", std::string(record.message())));
    }
  }
}

absl::StatusOr<SliceState> InvariantChecker::ReadRecord(const Manifest& manifest, size_t index) const {
  const Manifest::Record& record = manifest.records[index];
  if (ToNumber(record.slice) != index) return absl::DataLossError("records are not one per slice");
  if (record.file >= manifest.files.size()) return absl::DataLossError("a record in no file");
  const Manifest::File& file = manifest.files[record.file];
  absl::StatusOr<std::string> bytes = folder_->ReadDurable(absl::StrCat(FolderOf(manifest.round), "/", file.name));
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != file.bytes || record.offset > bytes->size() || record.bytes > bytes->size() - record.offset) {
    return absl::DataLossError(absl::StrCat(file.name, " has ", bytes->size(), " bytes"));
  }
  const Payload piece = Payload::CopyOf(bytes->data() + record.offset, record.bytes);
  if (Crc32c(piece.bytes()) != record.crc32c) return absl::DataLossError(absl::StrCat(file.name, ": checksum"));
  return oracle_->grid().IsBucket(record.slice) ? ReadBucket(record.slice, piece) : DecodeRecord({&piece, 1});
}

absl::StatusOr<SliceState> InvariantChecker::ReadBucket(SliceId bucket, const Payload& record) const {
  const std::unique_ptr<IncomingRecord> whole = AwaitedRecord(oracle_->job(), oracle_->grid(), bucket, /*copy=*/1);
  if (absl::Status status = whole->Add(record); !status.ok()) return status;
  absl::StatusOr<SliceState> state = whole->Head();
  if (!state.ok()) return state;
  const absl::StatusOr<LeaseCounters> counters =
      LeaseCounters::Restore(state->finished, state->counters, oracle_->plan());
  if (!counters.ok()) return counters.status();
  const absl::StatusOr<std::unique_ptr<GuardedState>> rows = whole->Finish(counters->Sum(oracle_->plan()));
  if (!rows.ok()) return rows.status();
  state->values = reference_->Show(bucket, **rows);
  return state;
}

void InvariantChecker::CheckManifest(Round round) {
  const std::string where = absl::StrCat("checkpoint ", ToString(round));
  Findings& findings = world_->findings();
  const absl::StatusOr<std::string> text = folder_->ReadDurable(absl::StrCat(FolderOf(round), "/MANIFEST"));
  if (!text.ok()) return findings.Add(absl::StrCat(where, " is not durable: ", std::string(text.status().ToString())));
  absl::StatusOr<Manifest> manifest = DecodeManifest(*text);
  if (!manifest.ok()) return findings.Add(absl::StrCat(where, ": ", std::string(manifest.status().ToString())));
  if (manifest->round != round || manifest->records.size() != oracle_->grid().size() ||
      (manifest->train_examples != world_->plan().train_examples &&
       manifest->train_examples != world_->plan().first_examples)) {
    return findings.Add(absl::StrCat(where, ": the manifest is of another round, grid or plan"));
  }
  for (size_t i = 0; i < manifest->records.size(); ++i) {
    const absl::StatusOr<SliceState> state = ReadRecord(*manifest, i);
    if (!state.ok()) return findings.Add(absl::StrCat(where, ": ", std::string(state.status().ToString())));
    reference_->CheckRecord(round, *state, where);
    const bool lied_to = world_->plan().faults.lie != Duration::zero();  // between the round's start and its words
    if (!state->finished.Covers(manifest->committed) ||
        (!lied_to && !state->finished.Covers(committed_at_start_[round]))) {
      findings.Add(absl::StrCat(where, ": the record of slice ", i, " lacks a committed lease"));
    }
  }
  durable_ = *std::move(manifest);
  kept_.insert(round);
  if (owed_ && round > owed_->after) owed_.reset();
}

void InvariantChecker::CheckSummary() {
  const Disk::Faults& faults = world_->plan().disk;
  if (faults.no_space + faults.io_error > 0)
    return;  // a job whose summary cannot be written has succeeded all the same
  const std::string text = folder_->ReadDurable("summary.json").value_or("");
  const nlohmann::json said = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const uint64_t samples = oracle_->plan().ExamplesBefore(goal());
  if (!said.is_object() || said.value("state", "") != "SUCCEEDED" || said.value("samplesCommitted", 0u) != samples) {
    world_->findings().Add(absl::StrCat("the summary does not tell of ", samples, " samples: ", text));
  }
}

void InvariantChecker::CheckEnd() {
  IntervalSet all;
  all.InsertRange(0, goal());
  Findings& findings = world_->findings();
  if (!durable_.has_value() || durable_->committed != all) return findings.Add("the last checkpoint lacks leases");
  CheckSummary();
  if (damaged_.contains(durable_->round)) return;
  for (size_t i = 0; i < durable_->records.size(); ++i) {
    const SliceId slice{static_cast<uint32_t>(i)};
    const absl::StatusOr<SliceState> state = ReadRecord(*durable_, i);
    if (!state.ok()) return findings.Add(absl::StrCat("the last checkpoint: ", std::string(state.status().ToString())));
    // An early end may find a worker at a lease beyond it that nobody had told the chief of.
    const bool has_more = state->finished != all || !state->counters.empty();
    if (!state->finished.Covers(all) || (has_more && goal() == LeasesOfJob())) {
      findings.Add("the last checkpoint has open leases");
    }
    const TrainingSpec& training = oracle_->job().training;
    // Else what a push does depends on those before it, or on its staleness.
    const bool only_adds =
        training.servers_optimizer() == OptimizerSpec{.kind = OptimizerKind::kSgd, .learning_rate = 1} &&
        training.staleness_method == StalenessMethod::kNone && training.consistency != Consistency::kSync;
    if (!only_adds || !state->counters.empty() || oracle_->grid().IsBucket(slice)) continue;
    const Payload begun = oracle_->Initial(slice);
    const absl::Span<const float> initial = begun.floats();
    std::vector<int64_t> sums;  // rounding is below a half: initial values are small and the sums far below 2^24
    for (size_t e = 0; e < initial.size(); ++e) {
      sums.push_back(std::llround(static_cast<double>(initial[e]) - static_cast<double>(state->values.floats()[e])));
    }
    if (Oracle::Checksum(sums) != Oracle::Checksum(oracle_->Sums(state->finished, slice))) {
      findings.Add(absl::StrCat("slice ", i, " is not the sum of the plan's gradients"));
    }
  }
}

}  // namespace downpour
