#include "tests/sim/learning/shared_computer.h"

#include <utility>
#include <variant>

namespace downpour {

SliceValues SharedComputer::Update(size_t worker, const SliceValues& updates) {
  std::map<SliceId, Payload>& values = values_[worker];
  for (const auto& [slice, payload] : updates) values[slice] = payload;
  return {values.begin(), values.end()};
}

void SharedComputer::Run(size_t worker, const ComputeRequest& request, const Computer::Done& done) {
  if (std::holds_alternative<Prepare>(request)) {
    if (!prepared_) {
      computer_->Run(request, [this](absl::Status status, ComputeResult result) {
        prepared_.emplace(std::move(status), std::move(result));
      });
    }
    values_[worker].clear();
    return done(prepared_->first, prepared_->second);
  }
  ComputeRequest own = request;
  if (auto* train = std::get_if<TrainStep>(&own)) train->updates = Update(worker, train->updates);
  if (auto* evaluate = std::get_if<EvalStep>(&own)) evaluate->updates = Update(worker, evaluate->updates);
  computer_->Run(own, done);
}

}  // namespace downpour
