#include "chief/known/learning_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "job/job_names.h"
#include "job/variables.h"
#include "runtime/staleness.h"

namespace downpour {
namespace {

// A guess has this loss or more, but for what the frequencies of the classes and few examples make of it.
constexpr double kOfChance = 0.999;        // of readings, which are many
constexpr double kEvaluatedChance = 0.99;  // of one evaluation, whose accuracy has to agree
constexpr double kGuessedRight = 1.2;      // so many times 1 / classes are guessed right, at most
constexpr double kMargin = 0.2;            // likewise: of the largest class, or of the others where these are fewer
constexpr double kFallen = 0.99;           // of the best before: a loss that sinks is no trouble, high as it is
constexpr double kLearned = 0.95;          // of chance, or of a guess: training learned more
constexpr double kHadLearned = 0.8;        // likewise, of one reading, which has few examples of rare classes
constexpr double kRisen = 0.25;            // of chance, or of the first reading: more than noise of a small loss
constexpr double kRecovering = 0.9;        // of the oldest that is judged
constexpr double kShare = 0.125;           // of the job, before an evaluation is judged

constexpr double kElsewhere = 1.1;  // times chance: not where a model begins
constexpr double kFarAbove = 1.5;   // likewise: no longer a guess's

constexpr double kStale = 2;  // on the mean: as of three workers

}  // namespace

LearningWatch::LearningWatch(uint64_t train_examples, uint64_t epochs, uint64_t classes)
    : reading_examples_(std::max(kLeastExamples, std::min(train_examples, train_examples * epochs / kReadingsOfJob))),
      chance_(classes < 2 ? 0 : std::log(static_cast<double>(classes))),
      classes_(classes) {}

LearningWatch LearningWatch::OfJob(const JobSpec& job, uint64_t train_examples) {
  const bool has_classes = job.model.loss == Loss::kSoftmaxCrossEntropy;
  const auto classes = has_classes ? static_cast<uint64_t>(InferOutputWidth(job.model).value_or(0)) : 0;
  return {train_examples, static_cast<uint64_t>(job.training.epochs), classes};
}

void LearningWatch::ReportLease(double loss_sum, uint64_t examples, std::optional<double> weight) {
  if (examples == 0) return;
  infinite_ |= std::isinf(loss_sum);
  sum_ += loss_sum;
  weight_ += weight.value_or(static_cast<double>(examples));
  examples_ += examples;
  if (examples_ < reading_examples_ || weight_ == 0) return;
  const double mean = sum_ / weight_;
  const double reading = std::isfinite(mean) ? mean : std::numeric_limits<double>::infinity();
  sum_ = 0;
  weight_ = 0;
  examples_ = 0;
  if (!first_ && std::isfinite(reading)) first_ = reading;
  readings_.push_back(reading);
  if (readings_.size() > kJudged) {
    best_ = std::min(best_.value_or(readings_.front()), readings_.front());
    readings_.pop_front();
  }
  if (!std::isfinite(reading)) return;
  highest_ = std::max(highest_, reading);
  const bool is_outdated =
      of_evaluation_ == Trouble::kGuesses ? LearnedMoreThanGuess() : chance_ == 0 || LearnedMoreThanChance();
  if (is_outdated) of_evaluation_ = Trouble::kNone;
}

void LearningWatch::ReportEvaluation(const Evaluated& evaluated) {
  infinite_ |= std::isinf(evaluated.loss);
  if (std::isfinite(evaluated.loss)) highest_ = std::max(highest_, evaluated.loss);
  evaluated_ = evaluated;
  of_evaluation_ = OfEvaluation();
}

// A model that learned its training data overfits, or those for evaluation are others: that is no divergence.
LearningWatch::Trouble LearningWatch::OfEvaluation() const {
  const auto& [loss, accuracy, share, guesses] = evaluated_;
  if (!std::isfinite(loss)) return Trouble::kNotFinite;
  if (share < kShare) return Trouble::kNone;
  const bool at_chance =
      chance_ > 0 && loss >= kEvaluatedChance * chance_ && accuracy * static_cast<double>(classes_) <= kGuessedRight;
  if (at_chance && !LearnedMoreThanChance()) return Trouble::kAtChance;
  const Guess& guess = guesses.eval;
  if (!guesses.train.known() || !guess.known()) return Trouble::kNone;
  const double margin = kMargin * std::min(guess.accuracy, 1 - guess.accuracy);
  const bool is_guess =
      loss >= kEvaluatedChance * guess.loss && (guess.accuracy == 0 || accuracy <= guess.accuracy + margin);
  return is_guess && !LearnedMoreThanGuess() ? Trouble::kGuesses : Trouble::kNone;
}

double LearningWatch::level() const {
  if (of_evaluation_ != Trouble::kNone) return evaluated_.loss;
  return readings_.empty() ? 0 : readings_.back();
}

double LearningWatch::lowest() const {
  const double before = best_.value_or(std::numeric_limits<double>::infinity());
  return std::accumulate(readings_.begin(), readings_.end(), before, [](double a, double b) { return std::min(a, b); });
}

bool LearningWatch::has_learned() const {
  const double guess = evaluated_.guesses.train.loss;
  return lowest() < kHadLearned * (guess > 0 && (chance_ == 0 || guess < chance_) ? guess : chance_);
}

bool LearningWatch::was_elsewhere() const { return has_learned() || (chance_ > 0 && highest_ > kElsewhere * chance_); }

// None before any lease.
std::optional<double> LearningWatch::MeanOfReadings() const {
  if (readings_.empty()) return weight_ == 0 ? std::nullopt : std::optional(sum_ / weight_);
  return std::accumulate(readings_.begin(), readings_.end(), 0.0) / static_cast<double>(readings_.size());
}

// True before the first lease, as after a restart of the chief: what training learned is not known then.
bool LearningWatch::LearnedMoreThanGuess() const {
  const std::optional<double> mean = MeanOfReadings();
  return !mean || *mean < kLearned * evaluated_.guesses.train.loss;
}

bool LearningWatch::LearnedMoreThanChance() const {
  const double newest = readings_.empty() ? MeanOfReadings().value_or(chance_) : readings_.back();
  return newest < kLearned * chance_;
}

bool LearningWatch::StaysAtChance() const {
  if (chance_ == 0 || !best_) return false;
  const double least = *std::min_element(readings_.begin(), readings_.end());
  return least >= kOfChance * chance_ && least >= kFallen * *best_;
}

bool LearningWatch::Rises() const {
  if (!best_ || !first_) return false;
  const double least = *std::min_element(readings_.begin(), readings_.end());
  return least > *best_ + kRisen * (chance_ > 0 ? chance_ : *first_) &&
         readings_.back() > kRecovering * readings_.front();
}

LearningWatch::Trouble LearningWatch::trouble() const {
  const bool finite = std::isfinite(sum_) && (readings_.empty() || std::isfinite(readings_.back()));
  if (!finite) return Trouble::kNotFinite;
  if (of_evaluation_ != Trouble::kNone) return of_evaluation_;
  return StaysAtChance() ? Trouble::kAtChance : Rises() ? Trouble::kRising : Trouble::kNone;
}

namespace {

std::string OfGuess(const LearningWatch& learning) {
  const auto& [loss, accuracy, share, guesses] = learning.evaluated();
  const Guess& guess = guesses.eval;
  const char* const compared = loss < kFarAbove * guess.loss ? "no better" : "worse";
  if (guess.accuracy == 0) {
    return absl::StrFormat("the evaluation's loss (%.4g) is %s than that of guessing the mean of the labels (%.4g)",
                           loss, compared, guess.loss);
  }
  return absl::StrFormat(
      "the evaluation's loss and accuracy (%.4g, %.1f %%) are %s than those of a guess that knows only how frequent the"
      " classes are (%.4g, %.1f %%)",
      loss, 100 * accuracy, compared, guess.loss, 100 * guess.accuracy);
}

std::string WhatIsWrong(const LearningWatch& learning) {
  switch (learning.trouble()) {
    case LearningWatch::Trouble::kNone:
      return "";
    case LearningWatch::Trouble::kNotFinite:
      return "the loss is not finite";
    case LearningWatch::Trouble::kAtChance: {
      const std::string before =
          learning.has_learned() ? absl::StrFormat(", after %.3g at its best", learning.lowest()) : "";
      return learning.level() < kFarAbove * learning.chance()
                 ? absl::StrFormat("the loss stays at that of a guess among %d classes (%.3f)%s", learning.classes(),
                                   learning.chance(), before)
                 : absl::StrFormat("the loss stays above that of a guess among %d classes (%.3f), at %.3g%s",
                                   learning.classes(), learning.chance(), learning.level(), before);
    }
    case LearningWatch::Trouble::kGuesses:
      return OfGuess(learning);
    case LearningWatch::Trouble::kRising:
      return absl::StrFormat("the training loss has risen for long, to %.3g from %.3g at its best", learning.level(),
                             learning.best());
  }
  return "";
}

// Why, and what to type. Gradients are to blame for being stale where nothing damps them. Else the rate is.
std::string CauseAndRemedies(const LearningWatch& learning, const JobSpec& job, int64_t workers, double staleness) {
  const TrainingSpec& training = job.training;
  const bool stale = staleness >= kStale, undamped = stale && training.staleness_method == StalenessMethod::kNone;
  const bool learns_nothing =
      learning.trouble() == LearningWatch::Trouble::kAtChance || learning.trouble() == LearningWatch::Trouble::kGuesses;
  const bool may_be_low = learns_nothing && !undamped && !learning.was_elsewhere();
  const auto rate = [&](double factor) {
    return absl::StrFormat("--set training.optimizer.learningRate=%.3g", training.optimizer.learning_rate * factor);
  };
  const std::string lower = rate(1 / kRateFactor);
  std::vector<std::string> remedies = {undamped ? "--set training.staleness.method=auto" : lower};
  if (may_be_low) remedies.push_back(rate(kRateFactor));
  if (stale && training.pull_ahead) remedies.push_back("--set training.pullAhead=false");
  if (stale && job.cluster.scale_tier == kCustomTier && workers > 1) {
    remedies.push_back(absl::StrCat("--set cluster.workerCount=", workers / 2));
  }
  if (undamped) remedies.push_back(lower);
  const std::string by = absl::StrFormat("by %.1f updates on the mean", staleness);
  const std::string cause = undamped     ? absl::StrCat("stale gradients (", by, ")")
                            : may_be_low ? "a learning rate that is too high or too low"
                            : stale ? absl::StrCat("a learning rate that is too high for gradients that are stale ", by)
                                    : "a learning rate that is too high";
  return absl::StrCat(
      cause, learns_nothing && !learning.has_learned() ? " (unless the inputs tell nothing of the labels)" : "",
      "; begin again in another job folder with ", absl::StrJoin(remedies, " or "));
}

}  // namespace

std::string WhyItDiverges(const LearningWatch& learning, const JobSpec& job, int64_t workers,
                          const TaskStats& servers) {
  const std::string what = WhatIsWrong(learning);
  if (what.empty()) return "";
  // Layers have no loss of their own code, whose gradients could be finite without it.
  const bool is_loss_alone = learning.trouble() == LearningWatch::Trouble::kNotFinite && learning.only_nan() &&
                             job.model.loss == Loss::kOwn && servers.pushes_skipped == 0;
  if (is_loss_alone) {
    return "the loss that the code reports is no number, though no ps tells of gradients that were not finite; the"
           " likely cause: what the code returns as its loss, and not training";
  }
  return absl::StrCat(
      what, "; the likely cause: ", CauseAndRemedies(learning, job, workers, MeanStaleness(servers.staleness)));
}

}  // namespace downpour
