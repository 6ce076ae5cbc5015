#include "chief/startup.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "chief/folder/sealed_copies.h"
#include "chief/known/data_plan.h"
#include "chief/status.h"
#include "job/job_file.h"
#include "job/plan_check.h"
#include "job/slice_grid.h"
#include "runtime/exit_code.h"
#include "schema/checkpoint_format.h"
#include "schema/codec.h"
#include "schema/sha256.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr char kTerm[] = "term";
constexpr char kChiefFile[] = "chief.json";
constexpr uint64_t kMaxTermFile = 256;
constexpr uint64_t kMaxSummary = uint64_t{1} << 20;
constexpr size_t kMaxWhy = 4096;  // of the words of an end

constexpr int64_t kTermsBegin = 1767225600000;  // 2026-01-01 00:00 UTC in milliseconds
constexpr int64_t kTermLasts = 250;             // milliseconds
// Reached in 2059. A clock beyond it is not believed, so that one that was wrong once leaves room for later starts.
constexpr int64_t kLastByClock = UINT32_MAX - (1 << 24);

// The term that a chief takes which starts now, if its folder knows of no later one; 0: the clock says nothing.
uint32_t TermByClock(int64_t unix_ms) {
  const int64_t quarters = unix_ms < kTermsBegin ? 0 : (unix_ms - kTermsBegin) / kTermLasts;
  return quarters > kLastByClock ? 0 : static_cast<uint32_t>(quarters);
}

// The text of an earlier release lacks what the job file learned since, and means its defaults.
bool IsSame(const std::string& before, JobSpec job) {
  const absl::StatusOr<JobSpec> read = ParseCanonicalJob(before);
  if (!read.ok()) return false;
  job.training.earlier = read->training.earlier;  // which no job file has
  return CanonicalJob(*read) == CanonicalJob(job);
}

}  // namespace

void Startup::Run(const Started& started, std::function<void(const Outcome&)> then) {
  started_ = started;
  then_ = std::move(then);
  const auto take = [this](const std::string& text) -> absl::Status {
    uint32_t term = 0;
    if (!absl::SimpleAtoi(text, &term) || term == 0) return absl::DataLossError("is not a term");
    highest_ = std::max(highest_, term);
    return absl::OkStatus();
  };
  ReadCopies(storage_, kTerm, kMaxTermFile, take, [this](const std::string& damage) {
    term_damage_ = damage;
    ReadJob();
  });
}

void Startup::ReadJob() {
  journal_.Load([this] { ReadEnd(); });
}

// Journalled as that chief would have done: members are told of an end that is on disk. Where that fails they are told
// at last (chief/shutdown.h).
void Startup::ReadEnd() {
  if (!journal_.record().ended.empty()) return ReadCheckpoints();
  storage_.Run({ReadFile(kSummaryFile, 0, kMaxSummary)}, [this](const StorageDone& done) {
    if (!done.status.ok() && !absl::IsNotFound(done.status)) outcome_.findings.push_back(MessageOf(done.status));
    has_summary_ = !absl::IsNotFound(done.status);
    if (!journal_.found()) return ReadCheckpoints();
    TakeEnd(nlohmann::json::parse(ToString(done.data), nullptr, /*allow_exceptions=*/false));
    if (journal_.record().ended.empty()) return ReadCheckpoints();
    journal_.Save([this](const absl::Status&) { ReadCheckpoints(); });
  });
}

void Startup::ReadCheckpoints() {
  checkpoints_.Load([this](const absl::Status& status) {
    if (!status.ok()) return Refuse(kExitFailed, absl::StrCat("the job folder cannot be used: ", MessageOf(status)));
    if (highest_ == 0 && !term_damage_.empty()) return JudgeLostTerm();
    for (const std::string& damage : {term_damage_, journal_.damage()}) {
      if (!damage.empty()) outcome_.findings.push_back(damage);
    }
    highest_ = std::max(highest_, checkpoints_.highest_term());
    ReadCode();
  });
}

// Only of the last chief that led this run: what an earlier one wrote stays when the job is resumed.
void Startup::TakeEnd(nlohmann::json summary) {
  JobRecord& record = journal_.record();
  const uint64_t restarts = record.chiefs - std::min<uint64_t>(1, record.chiefs);
  if (!summary.is_object() || summary["run"] != NameOfRun(record.run) || summary["chiefRestarts"] != restarts) return;
  for (const JobState end : {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled}) {
    if (summary["state"] == NameOf(end)) record.ended = NameOf(end);
  }
  const nlohmann::json& why = summary["errorMessage"];
  if (!record.ended.empty() && why.is_string()) record.why = CleanText(why.get<std::string>(), kMaxWhy);
}

// Its first chief may have died while it wrote its term, before it said anything that rests on it.
void Startup::JudgeLostTerm() {
  storage_.Run({ReadFile(kChiefFile, 0, 1)}, [this](const StorageDone& done) {
    const bool journalled = journal_.found() || !journal_.damage().empty();
    if (absl::IsNotFound(done.status) && !journalled && checkpoints_.highest_term() == 0) {
      return ReadCode();
    }
    Refuse(kExitFailed, absl::StrCat(term_damage_,
                                     ", and no other copy is whole: how often this job was started is lost. "
                                     "Begin in another job folder, or copy its checkpoints there"));
  });
}

// Whoever started this chief has put it there, block for block as workers ask for it.
void Startup::ReadCode() {
  const auto bytes = static_cast<uint64_t>(options_.job.python.bytes);
  const uint64_t offset = code_.size() * kCodeBlockBytes;
  if (offset >= bytes) return CheckCode(absl::OkStatus());
  storage_.Run({ReadFile(kCodeFile, offset, std::min<uint64_t>(kCodeBlockBytes, bytes - offset))},
               [this](const StorageDone& done) {
                 if (!done.status.ok() || done.data.empty()) return CheckCode(done.status);
                 code_.push_back(done.data);
                 ReadCode();
               });
}

void Startup::CheckCode(const absl::Status& read) {
  if (!read.ok()) {
    code_damage_ = MessageOf(read);
  } else if (!options_.job.python.sha256.empty() && Sha256Of(code_) != options_.job.python.sha256) {
    code_damage_ = absl::StrCat(kCodeFile, " is not what the job file names");
  }
  ReadInitialValues();
}

// Whoever started this chief has put them there. Without them slices would begin with other values, in silence.
void Startup::ReadInitialValues() {
  if (options_.job.model.initialize_from.empty()) return Decide();
  storage_.Run({ReadFile(ManifestPath(Round()), 0, kMaxManifestBytes)}, [this](const StorageDone& done) {
    absl::StatusOr<Manifest> manifest = done.status.ok() ? DecodeManifest(ToString(done.data)) : done.status;
    if (manifest.ok()) {
      outcome_.initial = *std::move(manifest);
    } else {  // of a file that cannot be read the storage names the path
      const std::string path = done.status.ok() ? ManifestPath(Round()) + ": " : "";
      initial_damage_ = path + MessageOf(manifest.status());
    }
    Decide();
  });
}

void Startup::Decide() {
  JobRecord& record = journal_.record();
  record.newest = std::max(record.newest, checkpoints_.newest());
  // Not of what can be used: the word may be one of yesterday, left in some script.
  if (options_.give_up == record.newest && checkpoints_.valid().empty()) record.abandoned = options_.give_up;
  if (options_.give_up != record.abandoned && options_.give_up != Round()) {
    outcome_.findings.push_back(absl::StrCat("--give_up=", ToString(options_.give_up),
                                             " is ignored: it is not the newest checkpoint that was here, or one "
                                             "that is here is whole"));
  }
  const bool is_whole = !checkpoints_.valid().empty() && checkpoints_.valid().front().round > record.abandoned;
  const bool is_same = IsSame(record.job, options_.job);
  outcome_.goes_on = journal_.found() && record.ended.empty();
  if (const std::string why = WhyNothingIsKnown(is_whole); !why.empty()) return Refuse(kExitFailed, why);
  if (is_same && record.ended == NameOf(JobState::kSucceeded)) {
    return Refuse(kExitDone,
                  "the job of this folder has succeeded: to train it further, raise training.epochs and add --resume",
                  /*over=*/true);
  }
  if (!is_whole && record.newest > record.abandoned) {
    outcome_.lost = absl::StrCat(
        "checkpoint ", ToString(record.newest),
        ", the newest that was here, cannot be used, nor can an older one: ", checkpoints_.WhyNot(record.newest));
    if (!outcome_.goes_on) {
      return Refuse(kExitFailed, absl::StrCat(outcome_.lost, ". ", RemedyOfLoss(record.newest)));
    }
  }
  if (!options_.resume && !outcome_.goes_on && is_whole) {
    return Refuse(kExitFailed,
                  "the job folder already holds checkpoints: add --resume to go on from them, or name another "
                  "job folder to begin again");
  }
  if (outcome_.goes_on && !AcceptPlan(record.job, "the job of this folder, which is not over,")) return;
  if (is_whole) {
    const Manifest& newest = checkpoints_.valid().front();
    if (!AcceptPlan(newest.job, absl::StrCat("checkpoint ", ToString(newest.round)))) return;
    if (!AcceptSlices(newest)) return;
  }
  TakeData(is_whole ? &checkpoints_.valid().front() : nullptr);
  if (is_whole) outcome_.sources = OfPlan(checkpoints_.valid(), job_, *data_, record.abandoned);
  // Behind those: a folder of another job lacks them because it is the wrong one.
  if (!initial_damage_.empty()) {
    return Refuse(kExitFailed,
                  absl::StrCat("the copy of model.initializeFrom's values cannot be used: ", initial_damage_,
                               ". Bring its files back, or name another job folder to begin again"));
  }
  if (outcome_.initial && !AcceptPlan(outcome_.initial->job, absl::StrCat(kInitialDir, "/"))) return;
  if (!code_damage_.empty()) {
    return Refuse(kExitFailed, absl::StrCat("the job's Python code cannot be used: ", code_damage_,
                                            ". Bring the file back, or start the job by downpour run --module-name"));
  }
  if (highest_ == UINT32_MAX) {
    return Refuse(kExitFailed, absl::StrCat("the job folder's term cannot rise any more: ", kTerm, ".a, ", kTerm,
                                            ".b or the name of a folder in ", kCheckpointsDir, "/ has ", highest_,
                                            ", which no chief wrote. Set that aside"));
  }
  BeginTerm();
}

// Of the journal, which was there and cannot be read, or is gone.
std::string Startup::WhyNothingIsKnown(bool has_checkpoint) const {
  if (!journal_.found() && journal_.damage().empty() && has_summary_ && !has_checkpoint) {
    return absl::StrCat(kSummaryFile, " tells of a job that was trained here, and neither its journal nor ",
                        "a checkpoint is left. Bring its files back, or begin again: in another job folder, or in ",
                        "this one with ", kSummaryFile, " set aside");
  }
  if (journal_.found() || journal_.damage().empty()) return "";
  const std::string damage = absl::StrCat(journal_.damage(), ", and no other copy is whole: ");
  if (!has_checkpoint) {
    return absl::StrCat(damage, "how far this folder's job came is lost, and no checkpoint here tells. ",
                        "Bring its files back, or name another job folder to begin again");
  }
  if (options_.resume) return "";
  return absl::StrCat(damage, "whether this folder's job is over is lost. ",
                      "Add --resume to go on from its checkpoints, or name another job folder");
}

bool Startup::AcceptPlan(const std::string& before, const std::string& whose) {
  const absl::Status status = CheckSamePlan(options_.job, before, whose);
  if (!status.ok()) Refuse(kExitBadJobFile, MessageOf(status));
  return status.ok();
}

// Another release may cut the same variables elsewhere, or keep fewer slots beside the values. Its checkpoint would be
// passed over, and what was learnt with it.
bool Startup::AcceptSlices(const Manifest& newest) {
  const absl::StatusOr<SliceGrid> grid = GridOf(options_.job.model);
  const auto slots = static_cast<uint64_t>(SlotCount(options_.job.training));
  const auto lacks_slots = [&](const Slice& slice) {
    return newest.records[ToNumber(slice.id)].bytes < LeastRecordBytes(static_cast<uint64_t>(slice.bytes()), slots);
  };
  std::string what;
  if (!grid.ok() || grid->size() != newest.records.size()) {
    what = absl::StrCat(newest.records.size(), " slices, and this job has ", grid.ok() ? grid->size() : 0);
  } else if (std::any_of(grid->slices.begin(), grid->slices.end(), lacks_slots)) {
    what = absl::StrCat("less than ", Counted(slots, "slot"), " of the optimizer for each value, as this job has them");
  }
  if (what.empty()) return true;
  Refuse(kExitFailed, absl::StrCat("checkpoint ", ToString(newest.round), " holds ", what,
                                   ": another release wrote it. Go on with that release, or write its ",
                                   "values with that release's downpour export and begin in another job folder with ",
                                   "model.initializeFrom"));
  return false;
}

// From the journal, which may be ahead of all checkpoints while the job goes on, since a ps may hold what it says. From
// the newest checkpoint after an end, since all slices come from there: data that were found later were trained on in
// vain. Likewise where the journal is not of its plan.
void Startup::TakeData(const Manifest* newest) {
  const JobRecord& record = journal_.record();
  data_ = record.data;
  data_grow_ = record.data_grow;
  absl::StatusOr<JobSpec> before = ParseCanonicalJob(record.job);
  const bool is_known = journal_.found() && data_.has_value() && before.ok();
  if (newest == nullptr) {
    if (!is_known || !outcome_.goes_on) data_.reset();
  } else if (!is_known || !outcome_.goes_on || OfPlan({*newest}, *before, *data_, record.abandoned).empty()) {
    data_ = DataOf(*newest);
    data_grow_ = false;
    before = ParseCanonicalJob(newest->job);
  }
  data_grow_ &= data_.has_value();
  job_.training.earlier.clear();
  if (!data_ || !before.ok()) return;
  DataToResume next = ResumeData(options_.job, *before, *data_, data_grow_);
  data_grow_ = next.grows;
  outcome_.earlier = job_.training.earlier = std::move(next.earlier);
}

void Startup::BeginTerm() {
  outcome_.term = std::max(highest_ + 1, TermByClock(started_.unix_ms));
  std::vector<StorageOp> ops = WriteCopies(kTerm, absl::StrCat(outcome_.term));
  ops.push_back(MakeDir("logs"));
  // The journal will say that it was durable: its chief may have died between its rename and the sync of that.
  if (!outcome_.sources.empty()) {
    ops.push_back(SyncDir(CheckpointDir(outcome_.sources.front().round)));
    ops.push_back(SyncDir("checkpoints"));
  }
  storage_.Run(std::move(ops), [this](const StorageDone& done) {
    if (!done.status.ok()) return RefuseToWrite(done.status);
    Announce();
  });
}

void Startup::Announce() {
  nlohmann::json chief = {{"endpoint", started_.endpoint},
                          {"host", options_.host},
                          {"pid", options_.pid},
                          {"term", outcome_.term},
                          {"command", options_.command}};
  const bool has_secret = !options_.secret.empty();
  if (has_secret) chief["secret"] = options_.secret;
  const std::string text = chief.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  storage_.Run(ReplaceFile(kChiefFile, text, /*is_private=*/has_secret), [this](const StorageDone& done) {
    if (!done.status.ok()) return RefuseToWrite(done.status);
    BeginJournal();
  });
}

void Startup::BeginJournal() {
  JobRecord& record = journal_.record();
  const bool is_known = outcome_.goes_on || (journal_.found() && !outcome_.sources.empty());
  if (!is_known) {  // another run, to which nothing belongs that a process still holds
    JobRecord fresh;
    fresh.run = options_.nonce;
    fresh.began_unix_ms = started_.unix_ms;
    fresh.newest = record.newest;
    fresh.abandoned = record.abandoned;
    journal_.BeginRun(std::move(fresh));
  }
  CompareSettings(is_known);
  // A job that has succeeded is trained further because somebody wants more of it.
  if (!options_.job.training.stop_early || record.ended == NameOf(JobState::kSucceeded)) record.early = {};
  ++record.chiefs;
  if (!record.ended.empty()) record.master.clear();  // whose process went with that end
  record.data = data_;
  record.data_grow = data_grow_;
  const std::string before = std::exchange(record.job, CanonicalJob(job_));
  if (record.master.empty() || record.job != before) record.evaluated.clear();  // by other settings, maybe
  record.ended.clear();
  record.why.clear();
  journal_.Save([this](const absl::Status& status) {
    if (!status.ok()) return RefuseToWrite(status);
    then_(outcome_);
  });
}

// With what the job was led by before. Who changes its number of workers there means that, not what it was scaled to.
void Startup::CompareSettings(bool is_known) {
  const std::string& text = is_known || outcome_.sources.empty() ? journal_.record().job : outcome_.sources.front().job;
  absl::StatusOr<JobSpec> before = ParseCanonicalJob(text);
  if (!before.ok()) return;
  before->training.earlier.clear();  // which no job file has
  outcome_.changes = JobChanges(*before, options_.job);
  outcome_.servers_before = before->cluster.parameter_server_count;
  if (before->cluster.worker_count != options_.job.cluster.worker_count) journal_.record().workers = 0;
}

void Startup::RefuseToWrite(const absl::Status& status) {
  Refuse(kExitFailed, absl::StrCat("the job folder cannot be written: ", MessageOf(status)));
}

// `over`: this very job has succeeded. All others may be led further, and their members are to wait for that.
void Startup::Refuse(int exit_code, std::string why, bool over) {
  then_({.exit_code = exit_code, .why = std::move(why), .over = over});
}

std::string RemedyOfLoss(Round newest) {
  return absl::StrCat("Bring its files back, or begin again: in another job folder, or in this one with ",
                      kCheckpointsDir, "/ set aside and --give_up=", ToString(newest));
}

}  // namespace downpour
