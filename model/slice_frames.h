// Host memory in which slices of parameters lie as a device keeps them, laid there as they arrive, before the step that
// they are for.
//
//   frames.Open(grid, rounded, allocate);
//   frames.Pack(id, values);                          // on a thread of its own
//   if (const void* from = frames.Take(id, values))    // when they are wanted; null: they are not packed
//   frames.FreeTaken();                                // when nothing reads them any more
//
// Order: what was packed is given for the very payload that it was made of, which is held so long, and once. Of each
//   slice the newest stays.
// Cost: Pack takes one pass on the CPU. Of each slice there are two frames: one is read while the next values come.
// Errors: of Open: those of `allocate`. Pack passes over what is no slice of a variable and over what finds no frame.
// Threads: Pack on one, the others on another one, beside it. Close waits for the slice that is being packed.
// Tests: tests/unit/model/parameter_loader_test.cc.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/slice_grid.h"
#include "schema/payload.h"

namespace downpour {

class SliceFrames {
 public:
  using Allocator = std::function<absl::StatusOr<std::shared_ptr<void>>(size_t bytes)>;

  // `rounded`, by variable: it is kept as bfloat16. The grid stays until Close, with which goes all that was packed.
  absl::Status Open(const SliceGrid& grid, std::vector<bool> rounded, const Allocator& allocate);
  void Close();

  void Pack(SliceId id, const Payload& values);
  const void* Take(SliceId id, const Payload& values);
  bool any_taken() const { return !taken_.empty(); }
  void FreeTaken();

 private:
  enum class State { kFree, kWritten, kPacked, kTaken };
  struct Frame {
    std::byte* memory = nullptr;
    State state = State::kFree;
    Payload values = {};  // of which it was made, while kPacked
  };
  using Frames = std::array<Frame, 2>;  // of a slice

  static Frame* FrameToWrite(Frames& frames);

  std::mutex mutex_;  // of all that follows
  std::condition_variable written_;
  bool open_ = false;
  bool writing_ = false;
  const SliceGrid* grid_ = nullptr;
  std::vector<bool> rounded_;
  std::shared_ptr<void> memory_;
  std::vector<Frames> frames_;  // by slice
  std::vector<Frame*> taken_;   // of the thread that takes
};

}  // namespace downpour
