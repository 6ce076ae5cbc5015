// Evaluation rounds: the eval split cut into parts and handed to workers, whose answers make one result if all of them
// used the same parameters.
//
//   evaluation.Begin(epoch, /*values_frozen=*/false);
//   for (const EvalGrant& grant : evaluation.Offer(worker)) ...send...
//   status = evaluation.Accept(done);               // also of parts that are no longer waited for
//
// Order: while values move, all parts of a round go to one worker, the first that asks, which pulls once; when they are
//   frozen, to all that ask. A dead evaluator's parts are handed on if values are frozen, else the round starts again.
//   So it does when parts disagree about the versions they used, and then with one worker. A round that starts again
//   has a new number, so that no old answer is taken for one of it.
// Errors: INVALID_ARGUMENT for an answer that no honest worker gives; nothing is changed then.
// Tests: tests/unit/chief/evaluation_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "job/job.h"
#include "schema/message.h"

namespace downpour {

// Whether so many examples may weigh so much, each of them a float from 0 on: sums of such weights stay finite.
bool IsWeightOf(uint64_t examples, double weight);

class Evaluation {
 public:
  struct Result {
    uint64_t round = 0;
    uint64_t epoch = 0;  // epochs committed when the round began
    double loss = 0;     // per example, or per weight of 1; may be infinite or no number
    double accuracy = 0;
    uint64_t examples = 0;
    uint64_t oldest_version = 0;
    uint64_t newest_version = 0;
    std::vector<std::pair<std::string, double>> metrics = {};  // as MetricValues gives them
    bool is_recalled = false;                                  // from the chief before, which has told of it
  };
  // For the journal. Nothing for a text that is none.
  static std::string TextOf(const Result& result);
  static std::optional<Result> ResultOf(const std::string& text);

  Evaluation() = default;
  Evaluation(uint64_t eval_examples, uint64_t batch_size, uint64_t batches_per_part,
             std::vector<MetricSpec> metrics = {}, bool counts_weights = false);

  // Replaces a round that is not over.
  void Begin(uint64_t epoch, bool values_frozen);
  void Abandon() { active_ = false; }
  // What the chief before knew of the values that stand still now, in place of a round of this one.
  void Recall(Result result);

  // Parts for a worker that asks for work, if it is its turn; empty otherwise.
  std::vector<EvalGrant> Offer(Incarnation worker);
  // All parts that are out: their grants are repeated until they are answered.
  std::vector<EvalGrant> Outstanding() const;
  void Release(Incarnation worker);
  bool IsAt(Incarnation worker) const { return active_ && HeldBy(worker) > 0; }  // some of its parts are

  absl::Status Accept(const EvalDone& done);

  bool active() const { return active_; }
  uint64_t round() const { return round_; }  // the one that is active, or was last
  uint64_t epoch() const { return epoch_; }  // likewise, as in its Result
  bool frozen() const { return frozen_; }    // likewise: values stand still
  // It is known which values it is of, or will be within moments: they stand still, or a worker was told to pull them.
  bool on_values() const { return active_ && (frozen_ || evaluator_ != Incarnation::kNone); }
  uint64_t parts() const { return parts_.size(); }
  uint64_t parts_done() const;
  const std::optional<Result>& result() const { return result_; }  // of the last round that was finished

 private:
  struct Part {
    uint64_t first_batch = 0;
    uint64_t batches = 0;
    uint64_t examples = 0;
    Incarnation worker = Incarnation::kNone;  // granted to
    std::optional<EvalDone> done;
  };
  void Restart();
  absl::Status CheckWeights(const EvalDone& done) const;
  void Finish();
  uint64_t HeldBy(Incarnation worker) const;
  EvalGrant GrantOf(const Part& part) const;

  uint64_t round_ = 0;
  uint64_t epoch_ = 0;
  bool active_ = false;
  bool frozen_ = false;
  bool spread_ = false;                         // over all workers that ask
  Incarnation evaluator_ = Incarnation::kNone;  // if not spread
  std::vector<MetricSpec> metrics_;
  bool counts_weights_ = false;  // examples count by their weights
  std::vector<Part> parts_;
  std::optional<Result> result_;
};

// Its loss, its accuracy, or the value of that metric.
double ValueOf(const std::string& metric, const Evaluation::Result& result);

}  // namespace downpour
