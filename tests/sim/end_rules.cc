#include "tests/sim/end_rules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "chief/shutdown.h"
#include "chief/status.h"
#include "job/job_file.h"
#include "ps/shard.h"

namespace downpour {
namespace {

// One that is due is offered with the answer to a request; a few may cross with other words.
constexpr int kRequests = 3;

// Whether one of the journal's copies says so, as a power failure would leave it.
bool Journalled(const Disk& disk, const std::function<bool(const JobRecord&)>& says) {
  for (const char* copy : {"journal.a", "journal.b"}) {
    const auto entry = DecodeEntry(Unsealed(disk.ReadDurable(copy).value_or("")).value_or(""));
    if (entry.ok() && says(entry->record)) return true;
  }
  return false;
}

}  // namespace

bool EndRules::AllCommitted(const Process& chief) const {
  return chief.chief->committed().CoversRange(0, chief.chief->goal());
}

void EndRules::Before(const Process& process, const Input& input) {
  if (process.chief == nullptr) return;
  if (life_ != process.life) {
    EndRules next(world_, oracle_);
    next.evaluated_ = std::move(evaluated_);
    next.success_ = std::move(success_);
    next.ever_diverged_ = ever_diverged_;
    next.trained_ = std::move(trained_);
    next.knows_the_last_ = knows_the_last_;
    next.finds_success_ = next.FindsSuccess(process);
    *this = std::move(next);
  }
  life_ = process.life;
  if (const auto* received = std::get_if<Received>(&input)) OnReceived(process, *received);
}

// As it stands before the chief's first Step.
bool EndRules::FindsSuccess(const Process& chief) const {
  if (world_->plan().disk.io_error > 0 || !success_ || success_->second != CanonicalJob(chief.job)) return false;
  const std::string text = chief.disk->ReadSeen(kSummaryFile).value_or("");
  const nlohmann::json said = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return said.is_object() && said.value("state", "") == NameOf(JobState::kSucceeded) &&
         said.value("term", 0u) == success_->first;
}

void EndRules::OnReceived(const Process& chief, const Received& received) {
  if (const auto* request = std::get_if<WorkRequest>(&received.message)) {
    const bool counts = request->wanted > 0 && request->number > asked_[request->from] &&
                        IsThere(chief, TaskRole::kWorker, request->from);
    asked_[request->from] = std::max(asked_[request->from], request->number);
    if (counts && asked_since_) ++*asked_since_;
  }
  if (const auto* ended = std::get_if<EpilogueDone>(&received.message)) {
    program_ended_ |= ended->attempt == attempt_ && ended->from == program_at_ && ended->error.empty();
  }
  const auto* done = std::get_if<EvalDone>(&received.message);
  if (done == nullptr || done->round != evaluation_) return;
  if (!std::isfinite(done->loss_sum)) {
    diverged_.insert(done->versions_digest);
    ever_diverged_ = true;
  }
  parts_ever_[done->versions_digest].insert({done->first_batch, done->batches});
  if (AllCommitted(chief)) parts_[done->versions_digest].insert({done->first_batch, done->batches});
  const auto is_good = [this](const auto& parts) { return CoverAll(parts.second) && !diverged_.contains(parts.first); };
  knows_the_last_ |= std::ranges::any_of(parts_, is_good);
  if (!CoverAll(parts_ever_[done->versions_digest])) return;
  evaluates_ = false;
  evaluated_.insert({chief.life, evaluation_});
}

void EndRules::OnEffect(const Process& process, const Effect& effect) {
  if (const auto* compute = std::get_if<Compute>(&effect)) {
    if (const auto* step = std::get_if<EpilogueStep>(&compute->request)) CheckValues(process, *step);
  }
  if (process.chief == nullptr) return;
  if (const auto* record = std::get_if<TraceRecord>(&effect);
      record != nullptr && record->kind == TraceRecord::Kind::kDurable) {
    durable_ = {static_cast<uint32_t>(record->count >> 32), static_cast<uint32_t>(record->count)};
    NoteValues(process);
  }
  const auto* send = std::get_if<Send>(&effect);
  if (send == nullptr) return;
  if (const auto* grant = std::get_if<EvalGrant>(&send->message); grant != nullptr && grant->round > evaluation_) {
    evaluation_ = grant->round;
    parts_.clear();
    parts_ever_.clear();
    evaluates_ = true;
    asked_since_.reset();
  }
  if (const auto* request = std::get_if<SnapshotRequest>(&send->message)) {
    begun_.emplace(request->round, world_->steps());
  }
  if (const auto* request = std::get_if<WriteShard>(&send->message)) begun_.emplace(request->round, world_->steps());
  if (const auto* grant = std::get_if<EpilogueGrant>(&send->message); grant != nullptr && grant->attempt != attempt_) {
    if (grant->attempt < attempt_) Add(process, "begins the rest of the program under an old number");
    if (program_ended_) Add(process, "begins the rest of the program again, which has ended");
    attempt_ = grant->attempt;
    program_at_ = grant->to;
    CheckTrained(process, "begins the rest of the program");
  }
  if (std::holds_alternative<Assign>(send->message)) CheckPlacing(process);
  if (const auto* end = std::get_if<JobEnd>(&send->message)) CheckEnd(process, *end);
}

void EndRules::CheckPlacing(const Process& chief) {
  if (placed_) return;
  placed_ = true;
  if (Journalled(*chief.disk, [](const JobRecord& record) { return record.data.has_value(); })) return;
  Add(chief, "places slices before its journal knows on which data they are trained");
}

void EndRules::CheckEnd(const Process& chief, const JobEnd& end) {
  if (chief.chief->term() == 0) return;  // of an end that it found
  const Duration waits = Shutdown::kGoodbye - world_->plan().timing.control_retry;
  const bool had_to_wait = ended_ && world_->now() >= *ended_ + waits;
  if (!had_to_wait && !Journalled(*chief.disk, [](const JobRecord& record) { return !record.ended.empty(); })) {
    Add(chief, "tells of an end that is not on its disk");
  }
  if (!end.succeeded) return;
  CheckTrained(chief, "ends the job");
  if (!chief.job.python.module.empty() && !program_ended_) {
    Add(chief, "ends the job before its newest attempt at the rest of the program has");
  }
}

void EndRules::CheckTrained(const Process& chief, const std::string& what) {
  if (!AllCommitted(chief) || durable_ == Round()) Add(chief, what + " before all is in a checkpoint");
  if (begun_[durable_] < reopened_) {
    Add(chief,
        absl::StrCat(what, " by checkpoint ", ToString(durable_), ", which began before leases were opened again"));
  }
  CheckEvaluated(chief, what);
}

// As they stand in the files when the checkpoint becomes durable: a disk may damage them later.
void EndRules::NoteValues(const Process& chief) {
  if (chief.job.python.module.empty() || !AllCommitted(chief)) return;
  const absl::StatusOr<Manifest> manifest = DecodeManifest(chief.disk->ReadSeen(ManifestPath(durable_)).value_or(""));
  if (!manifest.ok() || !manifest->committed.CoversRange(0, chief.chief->goal())) return;
  std::map<SliceId, uint32_t>& checksums = trained_.emplace_back();
  for (const Manifest::Record& record : manifest->records) {
    const std::string path = ShardPath(durable_, manifest->files[record.file].name);
    const std::string file = chief.disk->ReadSeen(path).value_or("");
    if (file.size() < record.offset + record.bytes) continue;
    const auto state = DecodeRecord({Payload::CopyOf(file.data() + record.offset, record.bytes)});
    if (state.ok()) checksums[record.slice] = Crc32c(state->values.bytes());
  }
}

// Those of the best checkpoint are another matter.
void EndRules::CheckValues(const Process& worker, const EpilogueStep& step) {
  if (oracle_->job().training.stop_early) return;
  const auto are_these = [&step](const std::map<SliceId, uint32_t>& checksums) {
    return std::ranges::all_of(step.values, [&checksums](const auto& slice) {
      const auto known = checksums.find(slice.first);
      return known == checksums.end() || known->second == Crc32c(slice.second.bytes());
    });
  };
  if (std::ranges::any_of(trained_, are_these)) return;
  Add(worker, "runs the rest of the program on values that no checkpoint of all leases has");
}

// The first evaluation is the best so far, unless its loss is not finite; each after it may be no better.
void EndRules::CheckStopsEarly(const Process& chief) {
  const auto epochs = static_cast<uint64_t>(chief.job.training.epochs);
  if (chief.chief->goal() >= oracle_->plan().EpochBegin(epochs)) return;
  const auto& spec = chief.job.training.stop_early;
  const uint64_t needed = spec ? static_cast<uint64_t>(spec->patience) + !ever_diverged_ : UINT64_MAX;
  if (evaluated_.size() >= needed) return;
  Add(chief, absl::StrCat("stops early after ", evaluated_.size(), " evaluations"));
}

bool EndRules::CoverAll(const std::set<std::pair<uint64_t, uint64_t>>& parts) const {
  uint64_t covered = 0;
  for (const auto& [first, batches] : parts) covered = first == covered ? first + batches : covered;
  return covered * static_cast<uint64_t>(oracle_->job().training.batch_size) >= world_->plan().eval_examples;
}

// By parts that cover the whole split and used the same parameters, all of them since the last lease was committed; and
// by a finite loss. Under a chief before, if nothing was lost since.
void EndRules::CheckEvaluated(const Process& chief, const std::string& what) {
  if (world_->plan().eval_examples == 0) return;
  if (knows_the_last_) return;
  Add(chief, what + " without a finite evaluation of its last parameters");
}

// Whoever asks for work first when epochs have become so many evaluates.
void EndRules::LookForEpochs(const Process& chief) {
  const auto every = static_cast<uint64_t>(chief.job.training.evaluate_every_epochs);
  const bool running = chief.chief->state() == JobState::kRunning && chief.chief->all_reported();
  if (!running || every == 0 || world_->plan().eval_examples == 0) return asked_since_.reset();
  const auto runs = chief.chief->committed().Intervals();
  const bool from_first = !runs.empty() && runs.front().begin == 0;
  const uint64_t epochs = from_first ? oracle_->plan().EpochOf(LeaseId{runs.front().end}) : 0;
  if (!seen_epochs_) seen_epochs_ = epochs;
  if (AllCommitted(chief)) return asked_since_.reset();
  if (epochs / every * every > *seen_epochs_) {
    seen_epochs_ = epochs;
    if (!evaluates_) asked_since_ = 0;
  }
  if (asked_since_ && *asked_since_ >= kRequests) {
    Add(chief, absl::StrCat("evaluates nothing, though ", epochs, " epochs are committed and workers ask for work"));
  }
}

void EndRules::After(const Process& process) {
  if (process.chief == nullptr) return;
  const JobState state = process.chief->state();
  const bool ended = state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kCancelled;
  if (ended && !ended_) ended_ = world_->now();
  if (process.chief->term() != 0) {
    success_.reset();
    if (state == JobState::kSucceeded) success_ = {process.chief->term(), CanonicalJob(process.job)};
    if (finds_success_) Add(process, "leads a job again that has succeeded, as its summary says");
  }
  LookForEpochs(process);
  if (process.chief->term() == 0 || !process.chief->all_reported()) return;
  // All slices may have reported before any worker came: its ledger is not open, and it knows of no lease yet.
  if (process.chief->goal() == UINT64_MAX) return;
  CheckStopsEarly(process);
  const IntervalSet& committed = process.chief->committed();
  knows_the_last_ &= AllCommitted(process);
  if (committed == committed_) return;
  if (!committed.Covers(committed_)) {
    reopened_ = world_->steps();
    parts_.clear();
    asked_since_.reset();
    evaluates_ = false;
  }
  committed_ = committed;
}

}  // namespace downpour
