#include "service/prediction_desk.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "runtime/posix/process.h"
#include "service/http_answer.h"

namespace downpour {

// The predictor of a version, which remembers how many rows it was asked.
class PredictionDesk::CountingPredictor final : public Predictor, public InstancePredictor {
 public:
  explicit CountingPredictor(const Predictor& other) : other_(other) {}
  absl::StatusOr<OutputBatch> Predict(const InputBatch& batch) const override {
    rows_ += batch.rows;
    return other_.Predict(batch);
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

 private:
  const Predictor& other_;
  mutable uint64_t rows_ = 0;  // of one request, on its thread
};

PredictionDesk::PredictionDesk(ModelService& models)
    : models_(models),
      log_(models.root()),
      turns_(static_cast<int>(std::max(2u, std::thread::hardware_concurrency()))) {}  // one may wait for rows

bool PredictionDesk::TakeTurn() {
  std::unique_lock hold(mutex_);
  if (!free_.wait_for(hold, kPatience, [this] { return turns_ > 0; })) return false;
  --turns_;
  return true;
}

void PredictionDesk::EndTurn() {
  {
    const std::lock_guard hold(mutex_);
    ++turns_;
  }
  free_.notify_one();
}

absl::Status PredictionDesk::AskOnce(const Question& question, const ServedVersion& served,
                                     const CountingPredictor& predictor) {
  if (predictor.instances() != nullptr) return question(served, predictor);
  if (!TakeTurn()) return absl::UnavailableError("all cores are busy with predictions: ask again");
  absl::Status status = question(served, predictor);
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
    status = AskOnce(question, **served, *predictor);
    // A server of a job in training is away, or that job has just ended and a checkpoint takes over.
    if (!age || !absl::IsUnavailable(status) || PredictionMeter::Clock::now() - begun >= kPatience) break;
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
