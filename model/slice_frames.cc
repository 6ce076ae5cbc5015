#include "model/slice_frames.h"

#include <cstring>
#include <utility>

#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

size_t Aligned(size_t bytes) { return (bytes + Payload::kAlignment - 1) / Payload::kAlignment * Payload::kAlignment; }

bool Same(const Payload& a, const Payload& b) { return a.data() == b.data() && a.size() == b.size(); }

// The bits that an upload of the floats would leave on the device. So what came as bfloat16 is not just copied: a NaN
// may come in a way in which no rounding writes it.
void Convert(const Payload& values, WireFormat wire, bool rounded, std::byte* to) {
  if (wire == WireFormat::kFp32 && !rounded) {
    std::memcpy(to, values.data(), values.size());
  } else if (wire == WireFormat::kFp32) {
    RoundToBf16(values.floats(), reinterpret_cast<Bf16*>(to));
  } else if (!rounded) {
    WidenBf16(values.as<Bf16>(), reinterpret_cast<float*>(to));
  } else {
    std::array<float, 4096> widened;  // stays in cache
    const absl::Span<const Bf16> halves = values.as<Bf16>();
    for (size_t first = 0; first < halves.size(); first += widened.size()) {
      const absl::Span<const Bf16> some = halves.subspan(first, widened.size());
      WidenBf16(some, widened.data());
      RoundToBf16({widened.data(), some.size()}, reinterpret_cast<Bf16*>(to) + first);
    }
  }
}

}  // namespace

absl::Status SliceFrames::Open(const SliceGrid& grid, std::vector<bool> rounded, const Allocator& allocate) {
  Close();
  std::vector<size_t> sizes;
  size_t total = 0;
  for (const Slice& slice : grid.slices) {
    if (grid.IsBucket(slice.id)) break;
    const size_t number = rounded[slice.variable] ? sizeof(Bf16) : sizeof(float);
    sizes.push_back(Aligned(static_cast<size_t>(slice.elements) * number));
    total += std::tuple_size_v<Frames> * sizes.back();
  }
  auto memory = allocate(total);
  if (!memory.ok()) return memory.status();
  std::lock_guard lock(mutex_);
  memory_ = *std::move(memory);
  frames_.resize(sizes.size());
  auto* at = static_cast<std::byte*>(memory_.get());
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (Frame& frame : frames_[i]) frame.memory = std::exchange(at, at + sizes[i]);
  }
  grid_ = &grid;
  rounded_ = std::move(rounded);
  open_ = true;
  return absl::OkStatus();
}

void SliceFrames::Close() {
  taken_.clear();
  std::unique_lock lock(mutex_);
  open_ = false;
  written_.wait(lock, [this] { return !writing_; });
  frames_.clear();
  memory_.reset();
}

// Rather a free one: until the new values are there, those that are packed may be loaded.
SliceFrames::Frame* SliceFrames::FrameToWrite(Frames& frames) {
  Frame* to = nullptr;
  for (Frame& frame : frames) {
    if (frame.state == State::kFree || (frame.state == State::kPacked && to == nullptr)) to = &frame;
  }
  return to;
}

void SliceFrames::Pack(SliceId id, const Payload& values) {
  std::unique_lock lock(mutex_);
  if (!open_ || ToNumber(id) >= frames_.size() || values.size() != grid_->WireBytes(id)) return;
  Frames& frames = frames_[ToNumber(id)];
  Frame* const to = FrameToWrite(frames);
  if (to == nullptr) return;
  to->state = State::kWritten;
  const bool rounded = rounded_[grid_->at(id).variable];
  const WireFormat wire = grid_->wire;
  writing_ = true;
  lock.unlock();

  Convert(values, wire, rounded, to->memory);

  lock.lock();
  for (Frame& frame : frames) {
    if (frame.state == State::kPacked) frame = {frame.memory};
  }
  to->state = State::kPacked;
  to->values = values;
  writing_ = false;
  written_.notify_all();
}

const void* SliceFrames::Take(SliceId id, const Payload& values) {
  std::lock_guard lock(mutex_);
  if (!open_) return nullptr;
  for (Frame& frame : frames_[ToNumber(id)]) {
    if (frame.state != State::kPacked || !Same(frame.values, values)) continue;
    frame = {frame.memory, State::kTaken};
    taken_.push_back(&frame);
    return frame.memory;
  }
  return nullptr;
}

void SliceFrames::FreeTaken() {
  std::lock_guard lock(mutex_);
  for (Frame* frame : taken_) frame->state = State::kFree;
  taken_.clear();
}

}  // namespace downpour
