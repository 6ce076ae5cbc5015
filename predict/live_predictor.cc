#include "predict/live_predictor.h"

#include "model/parameter_loader.h"

namespace downpour {

absl::StatusOr<LiveValues::Copy> LiveValues::TakeCopy(const ValueSet& values) {
  {
    const std::lock_guard hold(spares_->mutex);
    if (!spares_->copies.empty()) {
      Copy copy = std::move(spares_->copies.back());
      spares_->copies.pop_back();
      return copy;
    }
  }
  const JobSpec& job = *values.job;
  if (job.model.is_own()) {
    return absl::UnimplementedError(
        "a model of Python code cannot answer while it is trained: leave --live out, and its newest checkpoint "
        "answers");
  }
  auto predictor = JobPredictor::Create(job, origin_, most_rows_);
  if (!predictor.ok()) return predictor.status();
  if (job.model.has_tables()) (*predictor)->SetRowSource(rows_);
  return Copy{*std::move(predictor), std::vector<Version>(values.versions.size())};
}

absl::Status LiveValues::Update(const ValueSet& values, Copy* copy) {
  std::vector<float> scratch;
  for (size_t i = 0; i < values.versions.size(); ++i) {
    if (copy->versions[i] == values.versions[i]) continue;
    const Slice& slice = values.grid->slices[i];
    const absl::Span<const float> numbers = FloatsOf(values.values[i], values.grid->wire, &scratch);
    const absl::Status set = copy->predictor->SetParameters(slice.variable, slice.offset, numbers);
    if (!set.ok()) return set;
    copy->versions[i] = values.versions[i];
  }
  return absl::OkStatus();
}

absl::Status LiveValues::Publish(const ValueSet& values, Clock::time_point as_of) {
  if (Current now = Now(); now.predictor && values.versions == versions_) {
    const std::lock_guard hold(mutex_);
    current_.as_of = as_of;  // nothing was pushed since
    return absl::OkStatus();
  }
  absl::StatusOr<Copy> copy = TakeCopy(values);
  if (!copy.ok()) return copy.status();
  if (absl::Status status = Update(values, &*copy); !status.ok()) return status;
  versions_ = copy->versions;
  if (bytes_read_ == 0) {
    for (const Payload& one : values.values) bytes_read_ += one.size();
  }
  const JobPredictor* const predictor = copy->predictor.get();
  const auto give_back = [spares = spares_, held = std::make_shared<Copy>(*std::move(copy))](const JobPredictor*) {
    const std::lock_guard hold(spares->mutex);
    if (spares->copies.size() < Spares::kMost) spares->copies.push_back(std::move(*held));
  };
  Current before{std::shared_ptr<const JobPredictor>(predictor, give_back), as_of};
  const std::lock_guard hold(mutex_);
  std::swap(current_, before);  // the one before goes behind the lock
  return absl::OkStatus();
}

LiveValues::Current LiveValues::Now() const {
  const std::lock_guard hold(mutex_);
  return current_;
}

uint64_t LiveValues::bytes_held() const { return (1 + Spares::kMost) * Now().predictor->bytes_held() + bytes_read_; }

LivePredictor::LivePredictor(std::shared_ptr<const LiveValues> values, std::function<void()> on_end)
    : values_(std::move(values)), on_end_(std::move(on_end)) {
  const LiveValues::Current now = values_->Now();
  const JobPredictor& any = *now.predictor;
  signature_ = any.signature();
  data_ = *any.data();
  name_ = any.model_name();
  origin_ = any.origin();
  most_rows_ = any.most_rows();
  bytes_ = values_->bytes_held();
}

absl::StatusOr<OutputBatch> LivePredictor::Predict(const InputBatch& batch) const {
  const LiveValues::Current now = values_->Now();  // one set for the whole answer
  absl::StatusOr<OutputBatch> answer = now.predictor->Predict(batch);
  if (answer.ok() && answer->texts == nullptr) answer->texts = now.predictor;  // whose words they may point to
  return answer;
}

std::optional<double> LivePredictor::age_seconds() const {
  return std::chrono::duration<double>(LiveValues::Clock::now() - values_->Now().as_of).count();
}

}  // namespace downpour
