#include "chief/known/data_plan.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "chief/known/step_context.h"
#include "job/job_file.h"
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

bool IsPossible(const Guess& guess) {
  return guess.loss >= 0 && guess.loss <= std::numeric_limits<float>::max() && guess.accuracy >= 0 &&
         guess.accuracy <= 1;
}

}  // namespace

DataShape DataOf(const Manifest& manifest) {
  return {manifest.train_examples, manifest.eval_examples, manifest.data_fingerprint};
}

std::string DataDifference(const DataSpec& data, const DataShape& found, const DataShape& begun) {
  const std::string train = NameOf("train", data.train), eval = NameOf("eval", data.eval);
  std::vector<std::string> parts;
  const auto count = [&parts](const std::string& name, uint64_t here, uint64_t there) {
    if (here != there) parts.push_back(absl::StrCat(name, " has ", here, " examples instead of ", there));
  };
  count(train, found.train_examples, begun.train_examples);
  count(eval, found.eval_examples, begun.eval_examples);
  if (!parts.empty()) return absl::StrJoin(parts, ", ");
  // The fingerprint is of all files together.
  return absl::StrFormat("the bytes of %s%s are others, with fingerprint %016x instead of %016x", train,
                         data.has_eval() ? " or " + eval : "", found.fingerprint, begun.fingerprint);
}

void DataPlan::Fix(const DataShape& shape, std::string source) {
  shape_ = shape;
  source_ = std::move(source);
  plan_ = Plan(job_, shape.train_examples);
}

void DataPlan::Recall(const DataShape& shape, const std::string& source) { Fix(shape, source); }

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
  const DataShape found{report.train_examples, report.eval_examples, report.fingerprint};
  if (fixed() && found != shape_) {
    const std::string whose = source_ == task ? "it had when the job began" : source_;
    return absl::FailedPreconditionError(
        absl::StrCat(task, " has other data than ", whose, ": ", DataDifference(job_.data, found, shape_)));
  }
  return absl::OkStatus();
}

absl::Status DataPlan::Validate(const std::string& task, const DataReport& report) {
  if (absl::Status status = Check(task, report); !status.ok()) {
    refused_[task] = status;
    return status;
  }
  refused_.erase(task);
  if (!fixed()) Fix({report.train_examples, report.eval_examples, report.fingerprint}, task);
  // Of the same bytes others say the same, but for how their CPUs round.
  if (!guesses_.train.known()) guesses_.train = report.guesses.train;
  if (!guesses_.eval.known()) guesses_.eval = report.guesses.eval;
  return absl::OkStatus();
}

std::vector<Manifest> OfPlan(const std::vector<Manifest>& checkpoints, const JobSpec& job, const DataShape& data,
                             Round abandoned) {
  std::vector<Manifest> same;
  for (const Manifest& manifest : checkpoints) {
    const absl::StatusOr<JobSpec> before = ParseCanonicalJob(manifest.job);
    const bool is_same = before.ok() && PlanDifferences(job, *before).empty() && DataOf(manifest) == data;
    if (is_same && manifest.round > abandoned) same.push_back(manifest);
  }
  return same;
}

}  // namespace downpour
