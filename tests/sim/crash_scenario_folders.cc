// Job folders that come and go while the tasks live: another run at the same address, and one put back to what it was.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "chief/folder/storage.h"
#include "job/job_file.h"
#include "schema/checkpoint_format.h"
#include "tests/sim/crash_scenario.h"

namespace downpour {
namespace {

// A chief that began so long ago took a term that is older than what the clock reads by now.
constexpr Duration kLongerThanATick = 3s;

}  // namespace

void CrashScenario::OpenBook() {
  books_.push_back(std::make_unique<Book>(&world_, &oracle_, &findings_));
  by_folder_[&world_.disk()] = books_.back().get();
}

// A member is of the run that it has joined, a chief of its folder's.
InvariantChecker& CrashScenario::CheckerOf(const Process& process) {
  if (process.chief != nullptr) {
    Book* book = by_folder_.at(process.disk);
    if (RunOf(process) != 0) by_run_[RunOf(process)] = book;
    return book->checker;
  }
  return RunOf(process) == 0 ? checker() : by_run_.at(RunOf(process))->checker;
}

bool CrashScenario::MayLoseFolder() const {
  if (chief_ == Life::kNone || stopping_ || checker().told_success()) return false;
  const Process& process = world_.process(chief_);
  return process.alive && process.chief->term() != 0 && process.chief->state() <= JobState::kRunning;
}

// The members of the run before wait for its chief, and meet this one.
void CrashScenario::BeginFolder() {
  if (!MayLoseFolder()) return;
  ++faults_["another folder"];
  world_.Kill(chief_);
  chief_ = Life::kNone;
  world_.BeginFolder();
  job_.name = absl::StrCat("simulated-", books_.size());  // another job, hence other data
  OpenBook();
  // Whoever starts a server names the folder of the run that it is for. One that has joined none yet would take the new
  // chief for its own, and write into the folder of the old one.
  for (const Life life : world_.Alive(TaskRole::kPs)) {
    if (RunOf(world_.process(life)) != 0) continue;
    world_.Kill(life);
    StartAgain(life);
  }
  give_up_ = {};
  copy_damaged_ = false;
  backup_.reset();  // of the folder before, whose run has a book of its own
  StartChiefSoon();
}

// Every other time it is copied instead. There is at least one chief in between, of whom the copy does not know.
void CrashScenario::PutBackFolder() {
  if (!MayLoseFolder() || world_.now() < chief_began_ + kLongerThanATick) return;
  world_.Kill(chief_);
  chief_ = Life::kNone;
  if (!backup_) {
    backup_ = world_.disk().MakeBackup();
  } else {
    ++faults_["folder put back"];
    world_.disk().PutBack(*std::exchange(backup_, std::nullopt));
    checker().OnPutBack();
  }
  StartChiefSoon();
}

// Whole and durable before the chief begins; no disk fails meanwhile.
void CrashScenario::StageInitialValues() {
  const bool is_there = world_.disk().ReadSeen(ManifestPath(Round())).ok();
  if (plan_.job.model.initialize_from.empty() || is_there) return;
  ++faults_["initial values from a file"];
  Manifest manifest;
  manifest.job = CanonicalJob(job_);
  std::string shard;
  for (const Slice& slice : oracle_.grid().slices) {
    if (oracle_.grid().IsBucket(slice.id) && !oracle_.begins_with_rows()) break;  // a file has those of variables
    std::string record;
    if (oracle_.grid().IsBucket(slice.id)) {
      record = oracle_.InitialRecord(slice.id);
    } else {
      for (const Payload& block : EncodeRecord(reference().Born(slice.id))) record += downpour::ToString(block);
    }
    const Payload bytes = Payload::CopyOf(record.data(), record.size());
    manifest.records.push_back({slice.id, 0, shard.size(), record.size(), Crc32c(bytes.bytes())});
    shard += record;
  }
  manifest.files = {{"initial.shard", shard.size()}};
  Stage(CheckpointDir(Round()),
        {{ShardPath(Round(), "initial.shard"), shard}, {ManifestPath(Round()), EncodeManifest(manifest)}});
}

// Likewise. What was damaged is brought back.
void CrashScenario::StageCode() {
  if (plan_.code.empty() || world_.disk().ReadSeen(kCodeFile).value_or("") == plan_.code) return;
  ++faults_["code of the user's own"];
  Stage("python", {{kCodeFile, plan_.code}});
}

void CrashScenario::Stage(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<StorageOp> ops = {MakeDir(folder), SyncDir("")};
  for (const auto& [path, text] : files) {
    for (StorageOp& op : ReplaceFile(path, text)) ops.push_back(std::move(op));
  }
  for (const StorageOp& op : ops) {
    if (const absl::Status status = world_.disk().Carry(op, /*may_fail=*/false).status; !status.ok()) {
      findings_.Add("a file cannot be staged: " + std::string(status.message()));
    }
  }
}

}  // namespace downpour
