#include "model/parameter_loader.h"

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "tensor/apply_kernels.h"

namespace downpour {

absl::Status CheckValues(const SliceGrid& grid, SliceId id, const Payload& values) {
  if (ToNumber(id) < grid.dense() && values.size() == grid.WireBytes(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("values of ", values.size(), " bytes are no slice ", ToNumber(id), " of this model"));
}

absl::Span<const float> FloatsOf(const Payload& values, WireFormat wire, std::vector<float>* scratch) {
  if (wire == WireFormat::kFp32) return values.floats();
  const absl::Span<const Bf16> halves = values.as<Bf16>();
  scratch->resize(halves.size());
  WidenBf16(halves, scratch->data());
  return *scratch;
}

absl::Status ParameterLoader::Open(const SliceGrid& grid, Graph& graph, Backend& backend) {
  Close();
  grid_ = &grid;
  graph_ = &graph;
  backend_ = &backend;
  if (backend.memory_is_host()) return absl::OkStatus();
  std::vector<bool> rounded;
  for (size_t i = 0; i < grid.variables.size(); ++i) rounded.push_back(graph.keeps_rounded(i));
  size_t pinned = 0;
  const auto pin = [&](size_t bytes) { return backend.AllocateHost(pinned = bytes); };
  const absl::Status status = frames_.Open(grid, std::move(rounded), pin);
  if (!absl::IsUnavailable(status)) return status;
  LOG(WARNING) << "parameters are packed as each step begins, none ahead, for which " << (pinned >> 20)
               << " MiB more would have to be pinned: " << status.message();
  return absl::OkStatus();
}

void ParameterLoader::Close() {
  frames_.Close();
  lost_ = false;
}

absl::Status ParameterLoader::Load(SliceId id, const Payload& values) {
  if (absl::Status status = CheckValues(*grid_, id, values); !status.ok()) return status;
  const Slice& slice = grid_->at(id);
  if (const void* packed = frames_.Take(id, values); packed != nullptr) {
    return graph_->BeginParameters(slice.variable, slice.offset, slice.elements, packed);
  }
  return graph_->SetParameters(slice.variable, slice.offset, FloatsOf(values, grid_->wire, &widened_));
}

// Whoever failed may have left copies under way.
void ParameterLoader::EndStep(bool awaited) {
  if (!frames_.any_taken()) return;
  lost_ = lost_ || !awaited;
  if (lost_ && !backend_->Synchronize().ok()) return;
  lost_ = false;
  frames_.FreeTaken();
}

}  // namespace downpour
