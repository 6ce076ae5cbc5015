// Slices of parameters on their way into a graph's variables. While others of a pull still arrive, or the step before
// is computed, they are packed in memory that the device's transfers reach, so that a step begins with plain copies.
//
//   loader.Open(grid, *graph, backend);
//   loader.Pack(id, values);                // as values arrive, on a thread of its own: a hint
//   status = loader.Load(id, values);        // as the step begins: for each slice that changed
//   loader.EndStep(totals.ok());             // behind everything that uses them
//
// Order: a graph gets the same bits whether something was packed or not; slice_frames.h says when it counts.
// Cost: Pack takes one pass on the CPU, and then Load none. Twice what the parameters take on the device is pinned;
//   where memory_is_host(), or the host can pin no more, nothing is packed.
// Errors: of Open: the backend's. Of Load: INVALID_ARGUMENT for what is no slice of a variable; else the backend's.
// Threads: Pack on one; the others, which alone call the backend, on another one, beside it.
// Tests: tests/unit/model/parameter_loader_test.cc, trainer_parameters_test.cc; across devices
//   tests/parity/model_parity_test.cc: the same bits.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "job/slice_grid.h"
#include "model/graph.h"
#include "model/slice_frames.h"
#include "schema/payload.h"
#include "tensor/backend.h"

namespace downpour {

// INVALID_ARGUMENT for what is no slice of a variable as it travels.
absl::Status CheckValues(const SliceGrid& grid, SliceId id, const Payload& values);

// Values as they travel, as floats: their own, or those of `scratch`.
absl::Span<const float> FloatsOf(const Payload& values, WireFormat wire, std::vector<float>* scratch);

class ParameterLoader {
 public:
  // Grid, graph and backend stay until Close.
  absl::Status Open(const SliceGrid& grid, Graph& graph, Backend& backend);
  void Close();

  void Pack(SliceId id, const Payload& values) { frames_.Pack(id, values); }
  absl::Status Load(SliceId id, const Payload& values);
  // `awaited`: operations that read every variable were, since the last Load.
  void EndStep(bool awaited);

 private:
  const SliceGrid* grid_ = nullptr;
  Graph* graph_ = nullptr;
  Backend* backend_ = nullptr;
  SliceFrames frames_;
  bool lost_ = false;           // nobody awaited what reads the frames that were taken
  std::vector<float> widened_;  // of the slice at hand
};

}  // namespace downpour
