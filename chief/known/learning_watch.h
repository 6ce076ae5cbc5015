// LearningWatch: whether training gets anywhere, from the losses that workers report. What it finds is a note beside
// the job's state, for people. It ends nothing.
//
//   LearningWatch watch = LearningWatch::OfJob(job, train_examples);
//   watch.ReportLease(done.loss_sum, done.examples);
//   if (watch.trouble() != LearningWatch::Trouble::kNone) ...
//
// A reading is the mean training loss of committed leases in a row: of 1/40 of the job's examples, of one epoch at most
//   and of kLeastExamples at least. The same reports in the same order give the same answer.
// Units: loss per example, or per weight of 1. Cost: O(1) per report.
// Source: schema/guess.h. Readings have too few examples of rare classes to be held against how frequent these are. So
//   they are held against a guess among classes that are equally frequent.
// Tests: tests/unit/chief/learning_watch_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "job/job.h"
#include "schema/guess.h"
#include "schema/message.h"

namespace downpour {

// The rate to try is so many times lower, or higher.
inline constexpr double kRateFactor = 10;

class LearningWatch {
 public:
  static constexpr uint64_t kReadingsOfJob = 40;
  static constexpr uint64_t kLeastExamples = 1000;  // fewer tell chance from learning too badly
  static constexpr size_t kJudged = 4;              // readings in a row that have to agree, or whose mean counts

  enum class Trouble { kNone, kNotFinite, kAtChance, kGuesses, kRising };

  struct Evaluated {
    double loss = 0;
    double accuracy = 0;
    double share = 0;  // of the job that was committed when the evaluation began
    Guesses guesses = {};
  };

  LearningWatch() = default;
  // `classes`: of a model with softmaxCrossEntropy; 0 for any other loss, whose level of chance is not known.
  LearningWatch(uint64_t train_examples, uint64_t epochs, uint64_t classes);

  static LearningWatch OfJob(const JobSpec& job, uint64_t train_examples);

  // `weight`: of the examples; nothing: each is 1.
  void ReportLease(double loss_sum, uint64_t examples, std::optional<double> weight = {});
  void ReportEvaluation(const Evaluated& evaluated);

  Trouble trouble() const;
  // Of losses that are not finite: all were no number at all. A model that diverges has infinite ones before.
  bool only_nan() const { return !infinite_; }
  uint64_t classes() const { return classes_; }
  double chance() const { return chance_; }                  // the loss of a guess; 0: not known
  const Evaluated& evaluated() const { return evaluated_; }  // the last one
  // Of the evaluation where that tells the trouble, else the newest reading; 0 before any.
  double level() const;
  double best() const { return *best_; }  // before the newest kJudged; where the trouble is kRising
  double lowest() const;                  // of all readings; infinity before any
  // Some loss was above that of a model that begins, or had been below a guess's: the rate is not too low.
  bool was_elsewhere() const;
  bool has_learned() const;  // and may have lost it again

 private:
  std::optional<double> MeanOfReadings() const;
  bool LearnedMoreThanGuess() const;
  bool LearnedMoreThanChance() const;
  Trouble OfEvaluation() const;
  bool StaysAtChance() const;
  bool Rises() const;

  uint64_t reading_examples_ = kLeastExamples;
  double chance_ = 0;
  uint64_t classes_ = 0;

  double sum_ = 0;  // of the reading that is being made
  double weight_ = 0;
  uint64_t examples_ = 0;
  std::deque<double> readings_;         // the newest kJudged
  std::optional<double> first_, best_;  // of all readings, and of those before the newest kJudged
  Evaluated evaluated_;
  Trouble of_evaluation_ = Trouble::kNone;
  bool infinite_ = false;  // some loss was
  double highest_ = 0;     // finite loss of readings and evaluations
};

// The trouble, its likely cause and what to type, in one paragraph; empty: training gets on as far as can be told.
// `servers`: of all ps, as far as they told this chief. Stale pushes may be the cause. Where none was skipped, no
// gradient is known to be at fault: what a ps had not told before it ended, or told another chief, is missing here.
std::string WhyItDiverges(const LearningWatch& learning, const JobSpec& job, int64_t workers, const TaskStats& servers);

}  // namespace downpour
