#include "chief/known/data_plan.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "chief/known/step_context.h"
#include "job/job_file.h"
#include "runtime/prng.h"
#include "schema/text.h"

namespace downpour {
namespace {

// Over all epochs: counts stay exact in JSON, and no sum over the plan overflows.
constexpr uint64_t kMaxExamples = uint64_t{1} << 53;

constexpr size_t kMaxErrorWords = 512;  // of what a worker says is wrong

// data.train (a, b): as the job file names it.
std::string NameOf(const char* key, const SetFiles& files) {
  if (files.empty()) return absl::StrCat(key, " of downpour.fit");
  if (!files.files.empty()) return absl::StrCat("data.", key, " (", absl::StrJoin(files.files, ", "), ")");
  return absl::StrCat("data.", key, " (", files.images, ", ", files.labels, ")");
}

constexpr size_t kMostNamed = 5;

// a.csv, b.csv and 3 more
std::string FileNames(absl::Span<const DataFile> files) {
  std::vector<std::string> names;
  for (const DataFile& file : files.first(std::min(files.size(), kMostNamed))) {
    names.push_back(CleanText(file.name, kMaxFileName));
  }
  return absl::StrCat(absl::StrJoin(names, ", "),
                      files.size() > kMostNamed ? absl::StrCat(" and ", files.size() - kMostNamed, " more") : "");
}

std::string_view BaseName(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

// Of the files that the job was begun with, the first one that is not what it was, and what to do; empty: all are, or
// not all are known. Hosts may have them in other folders.
std::string FirstOtherFile(const std::vector<DataFile>& found, const std::vector<DataFile>& begun) {
  if (found.size() >= kMostFilesTold || begun.size() >= kMostFilesTold) return "";
  for (size_t i = 0; i < begun.size(); ++i) {
    if (i < found.size() && found[i].examples == begun[i].examples && found[i].fingerprint == begun[i].fingerprint) {
      continue;
    }
    const std::string name = CleanText(begun[i].name, kMaxFileName);
    if (i < found.size() && BaseName(found[i].name) == BaseName(begun[i].name)) {
      return absl::StrCat(name, " has changed (further examples belong into files of their own)");
    }
    const auto now = std::find_if(found.begin(), found.end(),
                                  [&](const DataFile& file) { return BaseName(file.name) == BaseName(begun[i].name); });
    if (now == found.end()) return absl::StrCat(name, " is missing");
    return absl::StrCat(name, " was file ", i + 1, " of them, and is file ", now - found.begin() + 1,
                        " (further files belong behind all that there were)");
  }
  return "";
}

// In words: the last files of `found`, so many, stand behind data of `begun`, and no epoch has them. What to do.
std::string FurtherData(const JobSpec& job, const DataShape& found, const DataShape& begun, size_t further) {
  const std::string names = FileNames(absl::MakeConstSpan(found.files).last(further));
  const std::string what =
      found.train_examples == begun.train_examples
          ? absl::StrCat("further files without records, ", names)
          : absl::StrCat(found.train_examples, " examples instead of ", begun.train_examples, ", by ", names);
  return absl::StrCat(NameOf("train", job.data.train), " has ", what, ". The job's ",
                      Counted(static_cast<uint64_t>(job.training.epochs), "epoch"),
                      job.training.epochs == 1 ? " keeps" : " keep",
                      " the data that it was begun with. To train on all in further epochs, raise training.epochs and ",
                      "add --resume");
}

bool IsPossible(const Guess& guess) {
  return guess.loss >= 0 && guess.loss <= std::numeric_limits<float>::max() && guess.accuracy >= 0 &&
         guess.accuracy <= 1;
}

// How many of the last files of a report stand behind data of `begun`, with or without records; 0: none do, or the
// files before them are not those of `begun`.
size_t FurtherFiles(const DataReport& report, const DataShape& begun) {
  if (report.eval_examples != begun.eval_examples || report.train_examples < begun.train_examples) return 0;
  const auto is_end = [&](const DataFile& file) {
    return file.examples == begun.train_examples &&
           MixAll(file.fingerprint, report.eval_fingerprint) == begun.fingerprint;
  };
  const auto end = std::find_if(report.files.rbegin(), report.files.rend(), is_end);
  return end == report.files.rend() ? 0 : static_cast<size_t>(end - report.files.rbegin());
}

// Whether a checkpoint of `before`, on data of `begun`, holds leases of this job alone.
bool HasData(const JobSpec& job, const DataShape& data, const JobSpec& before, const DataShape& begun) {
  if (begun == data) return true;
  return std::any_of(job.training.earlier.begin(), job.training.earlier.end(), [&](const EarlierEpochs& earlier) {
    return before.training.epochs <= earlier.epochs && earlier.examples == begun.train_examples &&
           earlier.fingerprint == begun.fingerprint;
  });
}

DataShape ShapeOf(const DataReport& report) {
  return {report.train_examples, report.eval_examples, report.fingerprint, report.files};
}

}  // namespace

DataShape DataOf(const Manifest& manifest) {
  return {manifest.train_examples, manifest.eval_examples, manifest.data_fingerprint, manifest.train_files};
}

std::string DataDifference(const DataSpec& data, const DataShape& found, const DataShape& begun) {
  const std::string train = NameOf("train", data.train), eval = NameOf("eval", data.eval);
  std::vector<std::string> parts;
  const auto count = [&parts](const std::string& name, uint64_t here, uint64_t there) {
    if (here != there) parts.push_back(absl::StrCat(name, " has ", here, " examples instead of ", there));
  };
  count(train, found.train_examples, begun.train_examples);
  count(eval, found.eval_examples, begun.eval_examples);
  if (std::string file = FirstOtherFile(found.files, begun.files); !file.empty()) parts.push_back(std::move(file));
  if (!parts.empty()) return absl::StrJoin(parts, ", ");
  // The fingerprint is of all files together.
  return absl::StrFormat("the bytes of %s%s are others, with fingerprint %016x instead of %016x", train,
                         data.has_eval() ? " or " + eval : "", found.fingerprint, begun.fingerprint);
}

void DataPlan::Fix(const DataShape& shape, std::string source) {
  fixed_ = true;
  shape_ = shape;
  source_ = std::move(source);
  plan_ = Plan(job_, shape.train_examples);
}

void DataPlan::Recall(const DataShape& shape, const std::string& source, bool grows) {
  Fix(shape, source);
  fixed_ = !grows;
}

absl::Status DataPlan::Check(const std::string& task, const DataReport& report) const {
  if (!report.error.empty()) {
    return absl::UnavailableError(
        absl::StrCat(task, " cannot prepare for the job: ", CleanText(report.error, kMaxErrorWords)));
  }
  if (report.train_examples == 0) {
    return absl::InvalidArgumentError(absl::StrCat(task, " found no training examples: data.train is empty"));
  }
  if (job_.data.has_eval() && report.eval_examples == 0) {
    return absl::InvalidArgumentError(absl::StrCat(task, " found no evaluation examples: data.eval is empty"));
  }
  if (report.train_examples > kMaxExamples / static_cast<uint64_t>(job_.training.epochs) ||
      report.eval_examples > kMaxExamples) {
    return absl::InvalidArgumentError(absl::StrCat(task, " claims ", report.train_examples, " training and ",
                                                   report.eval_examples, " evaluation examples"));
  }
  if (job_.model.has_tables() && Plan(job_, report.train_examples).total_steps() >= UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("of ", report.train_examples, " training examples, which ", task, " found, the job makes ",
                     Plan(job_, report.train_examples).total_steps(), " steps, and tables count at most ", UINT32_MAX,
                     " pushes; raise training.batchSize or pushEvery, or lower training.epochs"));
  }
  if (!IsPossible(report.guesses.train) || !IsPossible(report.guesses.eval)) {
    return absl::InvalidArgumentError(absl::StrCat(task, " claims a guess whose loss or accuracy no labels have"));
  }
  return CheckSame(task, report);
}

absl::Status DataPlan::CheckSame(const std::string& task, const DataReport& report) const {
  const DataShape found = ShapeOf(report);
  const size_t further = FurtherFiles(report, shape_);
  if (source_.empty() || found == shape_ || (!fixed_ && further > 0)) return absl::OkStatus();
  const std::string whose = source_ == task ? "it had when the job began" : source_;
  const std::string difference =
      further > 0 ? FurtherData(job_, found, shape_, further) : DataDifference(job_.data, found, shape_);
  return absl::FailedPreconditionError(absl::StrCat(task, " has other data than ", whose, ": ", difference));
}

absl::Status DataPlan::Validate(const std::string& task, const DataReport& report) {
  if (absl::Status status = Check(task, report); !status.ok()) {
    refused_[task] = status;
    return status;
  }
  refused_.erase(task);
  if (!fixed()) Fix(ShapeOf(report), task);
  // Of the same bytes others say the same, but for how their CPUs round.
  if (!guesses_.train.known()) guesses_.train = report.guesses.train;
  if (!guesses_.eval.known()) guesses_.eval = report.guesses.eval;
  return absl::OkStatus();
}

DataToResume ResumeData(const JobSpec& job, const JobSpec& before, const DataShape& shape, bool grew) {
  DataToResume next{before.training.earlier, grew};
  // Without an epoch behind those no further file is wanted.
  if (grew && !next.earlier.empty()) next.grows = job.training.epochs > next.earlier.back().epochs;
  if (grew || job.training.epochs <= before.training.epochs) return next;
  next.grows = true;
  // Then all epochs of before have data of their own already, and none has those of `shape`.
  if (!next.earlier.empty() && next.earlier.back().epochs >= before.training.epochs) return next;
  const EarlierEpochs last{before.training.epochs, shape.train_examples, shape.fingerprint};
  if (!next.earlier.empty() && next.earlier.back().fingerprint == last.fingerprint) next.earlier.pop_back();
  next.earlier.push_back(last);
  return next;
}

std::vector<Manifest> OfPlan(const std::vector<Manifest>& checkpoints, const JobSpec& job, const DataShape& data,
                             Round abandoned) {
  std::vector<Manifest> same;
  for (const Manifest& manifest : checkpoints) {
    const absl::StatusOr<JobSpec> before = ParseCanonicalJob(manifest.job);
    const bool is_same =
        before.ok() && PlanDifferences(job, *before).empty() && HasData(job, data, *before, DataOf(manifest));
    if (is_same && manifest.round > abandoned) same.push_back(manifest);
  }
  return same;
}

}  // namespace downpour
