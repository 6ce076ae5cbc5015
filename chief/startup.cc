#include "chief/startup.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "chief/chief_role.h"
#include "chief/data_plan.h"
#include "runtime/exit_code.h"
#include "schema/job_file.h"

namespace downpour {
namespace {

constexpr char kTermFiles[][7] = {"term.a", "term.b"};
constexpr uint64_t kMaxTermFile = 256;

std::string Checksum(const std::string& text) {
  return absl::StrFormat("%08x", Crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
}

}  // namespace

std::string EncodeTerm(uint32_t term) {
  const std::string said = absl::StrCat("term ", term);
  return absl::StrCat(said, " crc32c ", Checksum(said), "\n");
}

absl::StatusOr<uint32_t> DecodeTerm(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  uint32_t term = 0;
  if (words.size() != 4 || !absl::SimpleAtoi(words[1], &term) || EncodeTerm(term) != text) {
    return absl::DataLossError("is not a term and its checksum");
  }
  return term;
}

void Startup::Run(Chief chief, std::function<void(const Outcome&)> then) {
  chief_ = std::move(chief);
  then_ = std::move(then);
  ReadTerm(kTermFiles[0], [this] { ReadTerm(kTermFiles[1], [this] { ReadTerms(); }); });
}

void Startup::ReadTerm(const std::string& file, std::function<void()> then) {
  storage_.Run({ReadFile(file, 0, kMaxTermFile)}, [this, file, then = std::move(then)](const StorageDone& done) {
    if (!absl::IsNotFound(done.status)) {
      const absl::StatusOr<uint32_t> term =
          done.status.ok() ? DecodeTerm(ToString(done.data)) : absl::StatusOr<uint32_t>(done.status);
      if (term.ok()) {
        highest_ = std::max(highest_, *term);
        ++valid_files_;
      } else {
        damage_ = absl::StrCat(file, ": ", Words(term.status()));
      }
    }
    then();
  });
}

void Startup::ReadTerms() {
  if (valid_files_ == 0 && !damage_.empty()) {
    return Refuse(kExitFailed, absl::StrCat(damage_,
                                            ", and no other copy is whole: how often this job was started is lost. "
                                            "Begin in another job folder, or copy its checkpoints there"));
  }
  journal_.Load([this] {
    checkpoints_.Load([this](const absl::Status& status) {
      if (!status.ok()) return Refuse(kExitFailed, absl::StrCat("the job folder cannot be used: ", Words(status)));
      highest_ = std::max(highest_, checkpoints_.highest_term());
      Judge();
    });
  });
}

void Startup::Judge() {
  outcome_.goes_on = journal_.found() && journal_.record().ended.empty();
  if (!resume_ && !journal_.found() && !journal_.damage().empty()) {
    return Refuse(kExitFailed, absl::StrCat(journal_.damage(),
                                            ", and no other copy is whole: whether this folder's job is over is lost. "
                                            "Add --resume to go on from its checkpoints, or name another job folder"));
  }
  const bool is_same = journal_.record().job == CanonicalJob(job_);
  if (is_same && journal_.record().ended == NameOf(JobState::kSucceeded)) {
    return Refuse(kExitDone,
                  "the job of this folder has succeeded: to train it further, raise training.epochs and add --resume");
  }
  if (!resume_ && !outcome_.goes_on && !checkpoints_.empty()) {
    return Refuse(kExitFailed,
                  "the job folder already holds checkpoints: add --resume to go on from them, or name another "
                  "job folder to begin anew");
  }
  if (checkpoints_.valid().empty() && !checkpoints_.empty()) {
    return Refuse(kExitFailed,
                  absl::StrCat("none of the checkpoints here is whole: ", checkpoints_.damaged().front().why,
                               ". Mend their manifests, or name another job folder to begin anew"));
  }
  if (outcome_.goes_on && !AcceptPlan(journal_.record().job, "the job of this folder, which is not over,")) return;
  if (!checkpoints_.valid().empty()) {
    const Manifest& newest = checkpoints_.valid().front();
    if (!AcceptPlan(newest.job, absl::StrCat("checkpoint ", ToString(newest.round)))) return;
    outcome_.sources = OfPlan(checkpoints_.valid(), job_, DataOf(newest));
  }
  if (highest_ == UINT32_MAX) return Refuse(kExitFailed, "the job folder's term cannot rise any more");
  TakeTerm();
}

bool Startup::AcceptPlan(const std::string& before, const std::string& whose) {
  const absl::StatusOr<JobSpec> job = ParseCanonicalJob(before);
  if (!job.ok()) {
    Refuse(kExitBadJobFile,
           absl::StrCat(whose, " is one that this release does not understand: ", Words(job.status())));
    return false;
  }
  const std::vector<std::string> differences = PlanDifferences(job_, *job);
  if (!differences.empty()) {
    Refuse(kExitBadJobFile,
           absl::StrCat(whose, " belongs to another plan; it differs in ", absl::StrJoin(differences, ", "),
                        ": set these back, or name another job folder to begin anew"));
    return false;
  }
  return true;
}

void Startup::TakeTerm() {
  outcome_.term = highest_ + 1;
  std::vector<StorageOp> ops = {MakeDir("logs")};
  for (const char* file : kTermFiles) {
    for (StorageOp& op : ReplaceFile(file, EncodeTerm(outcome_.term))) ops.push_back(std::move(op));
  }
  storage_.Run(std::move(ops), [this](const StorageDone& done) {
    if (!done.status.ok()) return RefuseToWrite(done.status);
    BeginJournal();
  });
}

void Startup::BeginJournal() {
  JobRecord& record = journal_.record();
  const bool is_known = outcome_.goes_on || (resume_ && journal_.found());
  if (!is_known) {
    record = JobRecord();
    record.run = chief_.nonce;
    record.began_unix_ms = chief_.unix_ms;
  }
  ++record.chiefs;
  record.job = CanonicalJob(job_);
  record.ended.clear();
  journal_.Save([this](const absl::Status& status) {
    if (!status.ok()) return RefuseToWrite(status);
    const nlohmann::json chief = {
        {"endpoint", chief_.endpoint}, {"host", chief_.host}, {"pid", chief_.pid}, {"term", outcome_.term}};
    const std::string text = chief.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    storage_.Run(ReplaceFile("chief.json", text), [this](const StorageDone& done) {
      if (!done.status.ok()) return RefuseToWrite(done.status);
      then_(outcome_);
    });
  });
}

void Startup::RefuseToWrite(const absl::Status& status) {
  Refuse(kExitFailed, absl::StrCat("the job folder cannot be written: ", Words(status)));
}

void Startup::Refuse(int exit_code, std::string why) { then_({.exit_code = exit_code, .why = std::move(why)}); }

}  // namespace downpour
