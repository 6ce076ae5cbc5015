#include "tests/parity/cuda_stand_in_access.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/parity/cuda_stand_in.h"

namespace downpour {
namespace {

constexpr uint32_t kWarp = 32;
constexpr size_t kPlace = 2;  // bytes: of the smallest that kernels write
constexpr size_t kLine = 16;
constexpr size_t kLines = size_t{1} << 14;  // that are remembered
constexpr size_t kProbes = 4;

enum class Access : uint8_t { kRead, kWrite, kAtomic };

// Accesses to one place that no order holds apart: those of one thread, or all that is known is who they were among.
class Accesses {
 public:
  bool any() const { return among_ != Among::kNobody; }
  bool atomic() const { return atomic_; }
  const KernelMoment& last() const { return last_; }

  bool AllBefore(const KernelMoment& now) const {
    return Parted(now) || (among_ == Among::kThread && last_.block == now.block && last_.thread == now.thread);
  }
  void Add(const KernelMoment& now, bool atomic) {
    atomic_ = atomic && (atomic_ || Parted(now));
    if (AllBefore(now)) {
      among_ = Among::kThread;
    } else if (among_ == Among::kGrid || last_.block != now.block) {
      among_ = Among::kGrid;
    } else if (among_ == Among::kBlock || last_.thread / kWarp != now.thread / kWarp) {
      among_ = Among::kBlock;
    } else {
      among_ = Among::kWarp;
    }
    last_ = now;
  }

 private:
  // By a barrier, for all.
  bool Parted(const KernelMoment& now) const {
    const bool warp = last_.thread / kWarp == now.thread / kWarp && last_.warp_barriers < now.warp_barriers;
    const bool block = last_.block_barriers < now.block_barriers;
    if (!any()) return true;
    if (among_ == Among::kGrid || last_.block != now.block) return false;
    return block || (warp && among_ != Among::kBlock);
  }

  enum class Among : uint8_t { kNobody, kThread, kWarp, kBlock, kGrid };
  KernelMoment last_;
  Among among_ = Among::kNobody;
  bool atomic_ = false;
};

struct Place {
  Accesses reads, writes;
};

// Of 16 bytes.
using Line = std::array<Place, kLine / kPlace>;
struct LineOf {
  uintptr_t begin = 0;
  uint64_t age = 0;
};

struct State {
  bool running = false;
  KernelMoment moment;
  KernelMemory stack, arguments, device;  // device: the allocation that was accessed last
  std::vector<KernelMemory> shared;
  uint64_t age = 0, launch_age = 0, block_age = 0;
  std::vector<Line> lines = std::vector<Line>(kLines);
  std::vector<LineOf> line_of = std::vector<LineOf>(kLines);  // apart: most of a search looks at these alone
} state;

std::string Name(const KernelMoment& moment) {
  return absl::StrCat("thread ", moment.thread, " of block ", moment.block);
}

// What is known of a line in that launch or, of a block's memory, in that block; null: it would not fit.
Line* Find(uintptr_t begin, uint64_t age) {
  const size_t hash = begin / kLine * 0x9e3779b97f4a7c15u >> 32;
  size_t free = kLines;
  for (size_t probe = 0; probe < kProbes; ++probe) {
    const size_t at = (hash + probe) % kLines;
    const LineOf& of = state.line_of[at];
    if (of.begin == begin && of.age == age) return &state.lines[at];
    if (free == kLines && of.age != state.launch_age && of.age != state.block_age) free = at;
  }
  if (free == kLines) return nullptr;
  state.line_of[free] = {begin, age};
  state.lines[free] = {};
  return &state.lines[free];
}

void Note(Place& place, Access access) {
  const KernelMoment& now = state.moment;
  const auto check = [&](const Accesses& before, const char* did) {
    if (before.AllBefore(now) || (before.atomic() && access == Access::kAtomic)) return;
    FaultOfKernel(absl::StrCat(access == Access::kRead ? "reads" : "writes", " what ", Name(before.last()), " ", did,
                               ": in no order"));
  };
  check(place.writes, "wrote");
  if (access == Access::kRead) return place.reads.Add(now, false);
  check(place.reads, "read");
  if (access == Access::kWrite) place.reads = {};  // others' atomics go beside an atomic one, not beside a read
  place.writes.Add(now, access == Access::kAtomic);
}

void CheckOrder(uintptr_t at, size_t bytes, Access access, uint64_t age) {
  Line* line = nullptr;
  uintptr_t begin = 0;
  for (uintptr_t place = at / kPlace; place <= (at + bytes - 1) / kPlace; ++place) {
    if (line == nullptr || begin != place * kPlace / kLine * kLine) {
      begin = place * kPlace / kLine * kLine;
      line = Find(begin, age);
      if (line == nullptr) return;
    }
    Note((*line)[place * kPlace % kLine / kPlace], access);
  }
}

// `aligned`: the access is to one number, or to several as one.
void Check(const void* address, size_t bytes, Access access, bool aligned = true) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  if (!state.running || state.stack.Holds(at, bytes)) return;
  if (access == Access::kRead && state.arguments.Holds(at, bytes)) return;
  const auto what = [&] { return absl::StrCat(access == Access::kRead ? "reads " : "writes ", bytes, " bytes "); };
  if (aligned && at % bytes != 0) FaultOfKernel(absl::StrCat(what(), "at ", absl::Hex(at), ", which is not aligned"));
  for (const KernelMemory& memory : state.shared) {
    if (memory.Holds(at, bytes)) return CheckOrder(at, bytes, access, state.block_age);
  }
  if (!state.device.Holds(at, bytes)) {
    const absl::Span<const std::byte> before = StandInAllocationBefore(address);
    state.device = {reinterpret_cast<uintptr_t>(before.data()), before.size()};
    if (!state.device.Holds(at, bytes)) {
      FaultOfKernel(absl::StrCat(
          what(), "where no memory of the device is",
          before.empty() ? "" : absl::StrCat(": at byte ", at - state.device.begin, " of ", before.size())));
    }
  }
  CheckOrder(at, bytes, access, state.launch_age);
}

}  // namespace

void BeginAccesses(const KernelMoment& moment, KernelMemory stack) {
  state.moment = moment;
  state.stack = stack;
  state.running = true;
}
void EndAccesses() { state.running = false; }
void BeginAccessesOfLaunch(KernelMemory arguments) {
  state.arguments = arguments;
  state.device = {};
  state.launch_age = ++state.age;
}
void BeginAccessesOfBlock() {
  state.shared.clear();
  state.block_age = ++state.age;
}
bool BeginAccessesToShared(KernelMemory memory) {
  if (std::find(state.shared.begin(), state.shared.end(), memory) != state.shared.end()) return false;
  state.shared.push_back(memory);
  return true;
}
void AccessAtomically(const void* at, size_t bytes) { Check(at, bytes, Access::kAtomic); }

}  // namespace downpour

// What the compiler calls.
extern "C" {

using downpour::Access;
using downpour::Check;

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_read1(void* at) { Check(at, 1, Access::kRead); }
void __tsan_read2(void* at) { Check(at, 2, Access::kRead); }
void __tsan_read4(void* at) { Check(at, 4, Access::kRead); }
void __tsan_read8(void* at) { Check(at, 8, Access::kRead); }
void __tsan_read16(void* at) { Check(at, 16, Access::kRead); }
void __tsan_read_range(void* at, size_t bytes) { Check(at, bytes, Access::kRead, /*aligned=*/false); }
void __tsan_write1(void* at) { Check(at, 1, Access::kWrite); }
void __tsan_write2(void* at) { Check(at, 2, Access::kWrite); }
void __tsan_write4(void* at) { Check(at, 4, Access::kWrite); }
void __tsan_write8(void* at) { Check(at, 8, Access::kWrite); }
void __tsan_write16(void* at) { Check(at, 16, Access::kWrite); }
void __tsan_write_range(void* at, size_t bytes) { Check(at, bytes, Access::kWrite, /*aligned=*/false); }

// Of which it says first of all where the array is indexed.
struct IndexedAt {
  const char* file;
  uint32_t line, column;
};
void __ubsan_handle_out_of_bounds_abort(IndexedAt* where, uintptr_t index) {
  downpour::FaultOfKernel(absl::StrCat("at ", where->file, ":", where->line, " an array has no element ", index));
}

}  // extern "C"
