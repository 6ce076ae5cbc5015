// Slices of parameters on their way into a graph's variables. While others of a pull still arrive, or the step before
// is computed, they are laid into pinned memory as the device keeps them, so that a step begins with plain copies.
//
//   loader.Open(grid, *graph, backend);
//   loader.Stage(id, values);                // as values arrive, on a thread of its own: a hint
//   status = loader.Load(id, values);        // as the step begins: for each slice that changed
//   loader.EndStep(totals.ok());             // behind everything that uses them
//
// Order: a graph gets the same bits whether something was staged or not. What was counts for the very payload that it
//   was made of, and only once; of each slice the newest stays.
// Cost: Stage takes one pass on the CPU, and then Load none. Pinned are two frames for each slice, of its size on the
//   device: one is being copied while the next values arrive. Where memory_is_host(), or the host can pin no more,
//   nothing is staged.
// Errors: of Load: INVALID_ARGUMENT for what is no slice of the grid; else the backend's. Stage passes over what Load
//   would refuse, and over what finds no frame.
// Threads: Stage on one; the others on another one, beside it. Only those call the backend, and Close, which frees the
//   frames, waits for the slice that is being laid.
// Tests: tests/unit/worker/parameter_loader_test.cc, trainer_parameters_test.cc; across devices
//   tests/parity/model_parity_test.cc: the same bits.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/payload.h"
#include "schema/slice_grid.h"
#include "tensor/backend.h"
#include "worker/model/graph.h"

namespace downpour {

class ParameterLoader {
 public:
  // Graph and backend stay until Close. What Open takes of the host is all there ever is.
  absl::Status Open(const SliceGrid& grid, Graph& graph, Backend& backend);
  void Close();

  void Stage(SliceId id, const Payload& values);
  absl::Status Load(SliceId id, const Payload& values);
  // `awaited`: operations that read every variable were, since the last Load.
  void EndStep(bool awaited);

 private:
  enum class State { kFree, kWritten, kStaged, kTaken };
  struct Frame {
    std::byte* memory = nullptr;
    State state = State::kFree;
    Payload values = {};  // of which it was made, while kStaged
  };
  using Frames = std::array<Frame, 2>;  // of a slice

  absl::Status PinFrames(Backend& backend);
  static Frame* FrameToWrite(Frames& frames, const Payload& values);
  const void* Take(SliceId id, const Payload& values);
  absl::Span<const float> Widened(const Payload& values);

  // Of the thread that loads.
  Graph* graph_ = nullptr;
  Backend* backend_ = nullptr;
  std::vector<float> widened_;  // of the slice at hand
  std::vector<Frame*> taken_;
  bool lost_ = false;  // nobody awaited what reads the frames that were taken

  std::mutex mutex_;  // of all that follows
  std::condition_variable written_;
  bool open_ = false;
  bool writing_ = false;
  SliceGrid grid_;
  std::vector<bool> rounded_;  // by variable: as the device keeps it
  std::shared_ptr<void> memory_;
  std::vector<Frames> frames_;  // by slice
};

}  // namespace downpour
