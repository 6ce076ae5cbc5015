#include "service/prediction_desk.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/posix/process.h"
#include "service/http_answer.h"
#include "service/prediction_bounds.h"

namespace downpour {

// The predictor of a version, which remembers how many rows it was asked, within the bounds of a request.
class PredictionDesk::CountingPredictor final : public Predictor, public InstancePredictor {
 public:
  explicit CountingPredictor(const Predictor& other) : other_(other) {}
  absl::StatusOr<OutputBatch> Predict(const InputBatch& batch) const override {
    rows_ += batch.rows;
    InputBatch bounded = batch;
    bounded.may_go_on = [this, rows = batch.rows](size_t first) {
      return WhyEnd(bounds_, PredictionMeter::Clock::now(), first, rows);
    };
    return other_.Predict(bounded);
  }
  absl::StatusOr<nlohmann::json> PredictInstances(std::string_view instances, size_t count) const override {
    rows_ += count;
    return other_.instances()->PredictInstances(instances, count);
  }
  absl::Status AnswerExample() const override { return other_.instances()->AnswerExample(); }
  const InstancePredictor* instances() const override { return other_.instances() == nullptr ? nullptr : this; }
  const Signature& signature() const override { return other_.signature(); }
  const std::string& model_name() const override { return other_.model_name(); }
  const std::string& origin() const override { return other_.origin(); }
  size_t most_rows() const override { return other_.most_rows(); }
  uint64_t bytes_held() const override { return other_.bytes_held(); }
  std::optional<double> age_seconds() const override { return other_.age_seconds(); }
  uint64_t rows() const { return rows_; }
  void BoundBy(PredictionBounds bounds) { bounds_ = std::move(bounds); }

 private:
  const Predictor& other_;
  PredictionBounds bounds_;
  mutable uint64_t rows_ = 0;  // of one request, on its thread
};

PredictionDesk::PredictionDesk(ModelService& models, std::chrono::milliseconds most)
    : models_(models),
      most_(most),
      log_(models.root()),
      turns_(static_cast<int>(std::max(2u, std::thread::hardware_concurrency()))) {}  // one may wait for rows

void PredictionDesk::End() {
  {
    const std::lock_guard hold(mutex_);
    ends_ = true;
  }
  free_.notify_all();
}

absl::Status PredictionDesk::TakeTurn() {
  std::unique_lock hold(mutex_);
  if (!free_.wait_for(hold, kPatience, [this] { return turns_ > 0 || ends_; })) {
    return absl::UnavailableError("all cores are busy with predictions: ask again");
  }
  if (ends_) return ServiceEnds();
  --turns_;
  return absl::OkStatus();
}

void PredictionDesk::EndTurn() {
  {
    const std::lock_guard hold(mutex_);
    ++turns_;
  }
  free_.notify_one();
}

absl::Status PredictionDesk::AskOnce(const PredictionRequest& request, const Question& question,
                                     const ServedVersion& served, CountingPredictor* predictor) {
  if (predictor->instances() != nullptr) return question(served, *predictor);
  if (absl::Status status = TakeTurn(); !status.ok()) return status;
  predictor->BoundBy(
      {.begun = PredictionMeter::Clock::now(), .most = most_, .has_gone = request.has_gone, .ends = &ends_});
  absl::Status status = question(served, *predictor);
  EndTurn();
  return status;
}

absl::Status PredictionDesk::Ask(const PredictionRequest& request, const Question& question) {
  const auto begun = PredictionMeter::Clock::now();
  absl::StatusOr<std::shared_ptr<const ServedVersion>> served = models_.Take(request.model, request.version);
  if (!served.ok()) return served.status();
  std::optional<CountingPredictor> predictor(*(*served)->predictor);
  auto asked = begun;
  std::optional<double> age;
  absl::Status status;
  for (;;) {
    asked = PredictionMeter::Clock::now();
    age = predictor->age_seconds();
    status = AskOnce(request, question, **served, &*predictor);
    // A server of a job in training is away, or that job has just ended and a checkpoint takes over.
    if (!age || !absl::IsUnavailable(status) || ends_ || PredictionMeter::Clock::now() - begun >= kPatience) break;
    std::this_thread::sleep_for(kPause);  // without a turn, which others need
    const auto now = models_.Take(request.model, request.version);
    if (!now.ok()) break;
    served = now;
    predictor.emplace(*(*served)->predictor);
  }
  const auto now = PredictionMeter::Clock::now();
  using Seconds = std::chrono::duration<double>;
  PredictionOutcome outcome{
      .rows = predictor->rows(), .ok = status.ok(), .seconds = Seconds(now - begun).count(), .age_seconds = {}};
  // Newer values may have come before it was computed. It is told as if they had not.
  if (age) outcome.age_seconds = *age + Seconds(now - asked).count();
  const int64_t unix_ms = UnixMs();
  (*served)->meter->Count(outcome, now, unix_ms);
  if ((*served)->logs_requests) {
    log_.Add({.model = (*served)->model,
              .version = (*served)->version,
              .peer = request.peer,
              .rows = outcome.rows,
              .code = HttpCodeOf(status),
              .seconds = outcome.seconds},
             unix_ms);
  }
  return status;
}

}  // namespace downpour
