// LivePredictor: answers by the newest complete values of a model that is being trained.
//
//   auto values = std::make_shared<LiveValues>("runs/first", 65536, rows);
//   status = values->Publish(value_set, as_of);                      // the feed's thread, again and again
//   LivePredictor predictor(values, [] { ...nobody asks any more... });
//
// Order: each answer is computed on the values of one ValueSet, from its beginning to its end. Those of the one before
//   are computed to their ends on that one. Rows of tables are those of the moment of the question (live_rows.h).
// Cost: a copy of the model for the newest values, one for the next, and one more for each older set on which an answer
//   is still computed, of which one is kept for later. Beside them the reader has what it read. A new set costs a copy
//   of the slices that changed.
// Errors: of Publish: UNIMPLEMENTED with the remedy for models of Python code; those of JobPredictor.
// Threads: Publish by one; all else by any.
// Tests: tests/unit/predict/live_predictor_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "predict/job_predictor.h"
#include "reader/reader_role.h"

namespace downpour {

class LiveValues {
 public:
  using Clock = std::chrono::steady_clock;
  struct Current {
    std::shared_ptr<const JobPredictor> predictor;
    Clock::time_point as_of{};
  };

  // `rows`: of tables, if the model has some.
  LiveValues(std::string origin, size_t most_rows, std::shared_ptr<const RowSource> rows)
      : origin_(std::move(origin)), most_rows_(most_rows), rows_(std::move(rows)) {}

  absl::Status Publish(const ValueSet& values, Clock::time_point as_of);
  Current Now() const;  // before the first Publish without a predictor
  // Of all copies that are kept, and of what was read.
  uint64_t bytes_held() const;

 private:
  // A copy of the model, and what it holds.
  struct Copy {
    std::unique_ptr<JobPredictor> predictor;
    std::vector<Version> versions;
  };
  // Those that nobody uses. It outlives this with the last answer.
  struct Spares {
    static constexpr size_t kMost = 2;
    std::mutex mutex;
    std::vector<Copy> copies;
  };
  absl::StatusOr<Copy> TakeCopy(const ValueSet& values);
  static absl::Status Update(const ValueSet& values, Copy* copy);

  const std::string origin_;
  const size_t most_rows_;
  const std::shared_ptr<const RowSource> rows_;
  const std::shared_ptr<Spares> spares_ = std::make_shared<Spares>();
  std::vector<Version> versions_;  // of the newest
  uint64_t bytes_read_ = 0;        // since the first Publish
  mutable std::mutex mutex_;
  Current current_;
};

class LivePredictor final : public Predictor {
 public:
  // `values` has been published to. `on_end` is called when nobody holds this any more.
  LivePredictor(std::shared_ptr<const LiveValues> values, std::function<void()> on_end);
  ~LivePredictor() override { on_end_(); }

  absl::StatusOr<OutputBatch> Predict(const InputBatch& batch) const override;
  const Signature& signature() const override { return signature_; }
  const std::string& model_name() const override { return name_; }
  const std::string& origin() const override { return origin_; }
  size_t most_rows() const override { return most_rows_; }
  const DataSpec* data() const override { return &data_; }
  std::optional<double> age_seconds() const override;
  uint64_t bytes_held() const override { return bytes_; }

 private:
  const std::shared_ptr<const LiveValues> values_;
  const std::function<void()> on_end_;
  // Of every copy alike.
  Signature signature_;
  DataSpec data_;
  std::string name_, origin_;
  size_t most_rows_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace downpour
