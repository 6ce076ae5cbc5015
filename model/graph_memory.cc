// What a graph takes of a device's memory and of the host's, before the job begins.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "model/graph.h"

namespace downpour {

absl::StatusOr<uint64_t> Graph::BytesNeeded(const ModelSpec& model, int64_t batch) const {
  Graph graph(batch, backend_, examples_);
  graph.only_counts_ = true;
  if (absl::Status status = graph.Build(model); !status.ok()) return status;
  return graph.bytes_;
}

// What a graph takes is a share for the model and one for each example.
absl::Status Graph::OutOfMemoryError(const ModelSpec& model, uint64_t available, const absl::Status& why) const {
  const auto of_one = BytesNeeded(model, 1), of_two = BytesNeeded(model, 2);
  if (!of_one.ok() || !of_two.ok()) return why;
  const uint64_t examples = static_cast<uint64_t>(max_batch_);
  const uint64_t per_example = *of_two - *of_one, of_model = *of_one - per_example;
  const uint64_t usable = available - available / 16;  // allocations are rounded up
  const uint64_t room = usable > of_model && per_example > 0 ? (usable - of_model) / per_example : 0;
  const uint64_t fits = std::min(room, examples - 1);  // a neighbour may have taken some of it meanwhile
  return absl::ResourceExhaustedError(absl::StrCat(
      backend_.name(), " has ", available >> 20, " MiB free, but training.batchSize ", max_batch_, " needs ",
      (of_model + examples * per_example) >> 20,
      " MiB: ", fits > 0 ? absl::StrCat("a batchSize of ", fits, " would fit") : "not even a batchSize of 1 would fit",
      "; ", why.message()));
}

// A device takes some memory only when it is first used: what is too little is to show before the job begins. So is the
// host's for gradients made then, as much as two steps on their way hold: to pin it takes longer than a step.
absl::Status Graph::WarmUp() {
  absl::Status status;
  std::vector<VariableGradients> held;
  const auto hold = [&](VariableGradients gradients) { held.push_back(std::move(gradients)); };
  for (int64_t batch : {max_batch_, int64_t{1}}) {  // libraries may take other ways for a single row
    const std::vector<float> floats(static_cast<size_t>(batch * input_width()));
    const std::vector<uint8_t> bytes(floats.size());
    const std::vector<int32_t> labels(static_cast<size_t>(batch));
    const std::vector<float> weights(examples_.is_weighted ? labels.size() : 0);
    const bool is_bytes = examples_.inputs == InputType::kBytes;
    const BatchInputs inputs = is_bytes ? BatchInputs(absl::MakeConstSpan(bytes)) : absl::MakeConstSpan(floats);
    if (status.ok()) status = LoadBatch(inputs, labels, {}, weights);
    auto trained = status.ok() ? Train(0, hold) : status;
    if (trained.ok()) hold(std::move(trained->last));
    status.Update(trained.status());
    if (status.ok()) status = Evaluate().status();
  }
  batches_.Unload();
  return status;
}

}  // namespace downpour
