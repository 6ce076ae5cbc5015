#include "model/batch_reader.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace downpour {

absl::Status BatchReader::Read(const Examples& examples, absl::Span<const uint64_t> ids) {
  if (Has(examples, ids)) return absl::OkStatus();
  read_of_ = nullptr;
  if (absl::Status status = examples.Read(ids, &batch_); !status.ok()) return status;
  read_of_ = &examples;
  ids_.assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status BatchReader::ReadNow(const Examples& examples, absl::Span<const uint64_t> ids) {
  const auto began = std::chrono::steady_clock::now();
  absl::Status status = Read(examples, ids);
  reading_ += std::chrono::steady_clock::now() - began;
  return status;
}

void BatchReader::ReadAhead(const Dataset& train, const Plan& plan, LeaseId lease) {
  if (!train.reads_ahead() || std::count(ahead_.begin(), ahead_.end(), lease) > 0) return;
  ahead_ = {ahead_[1], lease};
  std::vector<uint64_t> all, of_step;
  for (Step step = 1; step <= plan.StepsOf(lease); ++step) {
    plan.Examples(lease, step, &of_step);
    all.insert(all.end(), of_step.begin(), of_step.end());
  }
  train.ReadAhead(all);
}

double BatchReader::Weight() const { return std::accumulate(batch_.weights.begin(), batch_.weights.end(), 0.0); }

std::vector<float> BatchReader::Labels() const {
  if (!batch_.numbers.empty()) return batch_.numbers;
  return {batch_.classes.begin(), batch_.classes.end()};
}

std::vector<double> BatchReader::LabelWeights() const {
  const size_t labels = batch_.numbers.empty() ? 1 : batch_.numbers.size() / batch_.classes.size();
  std::vector<double> weights;
  for (size_t i = 0; i < batch_.classes.size(); ++i) {
    const double weight = batch_.weights.empty() ? 1 : batch_.weights[i];
    weights.insert(weights.end(), labels, weight / static_cast<double>(labels));
  }
  return weights;
}

}  // namespace downpour
