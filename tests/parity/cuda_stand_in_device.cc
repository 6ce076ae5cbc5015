#include "tests/parity/cuda_stand_in_device.h"

#include <glog/logging.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/parity/cuda_stand_in.h"
#include "tests/parity/cuda_stand_in_access.h"
#include "tests/parity/cuda_stand_in_fibers.h"

namespace downpour {
namespace {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kWholeWarp = 0xffffffff;
constexpr size_t kMostSharedBytes = 48 << 10;

uint64_t Count(dim3 size) { return uint64_t{size.x} * size.y * size.z; }
uint3 At(dim3 size, uint32_t number) { return {number % size.x, number / size.x % size.y, number / size.x / size.y}; }
std::string Text(uint3 at) { return absl::StrCat("(", at.x, ", ", at.y, ", ", at.z, ")"); }

// 0 to count - 1: as they are, backwards or in strides, which the seed says.
class DrawnOrder {
 public:
  explicit DrawnOrder(uint32_t count) : count_(count) {
    const uint64_t drawn = DrawOnStandIn(4);
    if (drawn == 0) return;
    next_ = drawn == 1 ? count - 1 : DrawOnStandIn(count);
    stride_ = drawn == 1 ? count - 1 : 1 + DrawOnStandIn(count);
    while (std::gcd(stride_, count_) != 1) ++stride_;
    stride_ %= count_;
  }
  uint32_t Next() {
    const uint64_t now = next_;
    next_ += stride_;
    if (next_ >= count_) next_ -= count_;
    return static_cast<uint32_t>(now);
  }

 private:
  uint64_t count_, next_ = 0, stride_ = 1;
};

struct Thread {
  enum class State { kRuns, kAtBlock, kAtWarp, kHasEnded };
  State state = State::kRuns;
  std::source_location where;  // it waits
  Fiber* fiber = nullptr;
  KernelMoment moment;
  uint64_t bits = 0, exchanged = 0;
  int distance = 0;  // 0: nothing is exchanged

  bool WaitsWith(const Thread& other) const {
    return state == other.state && where.line() == other.where.line() && where.column() == other.where.column() &&
           std::strcmp(where.file_name(), other.where.file_name()) == 0 && distance == other.distance;
  }
};

// What each thread calls, with the arguments that all of them read.
struct KernelCall {
  KernelCall(void (*thread_in)(const void*), const void* from, size_t bytes_in)
      : thread(thread_in), bytes(bytes_in), arguments(new std::max_align_t[bytes / sizeof(std::max_align_t) + 1]) {
    std::memcpy(arguments.get(), from, bytes);
  }
  void (*thread)(const void*);
  size_t bytes;
  std::shared_ptr<std::max_align_t[]> arguments;
};

// The one GPU: runs a launch at a time.
class Device {
 public:
  void Run(const char* name, const KernelLaunch& launch, const KernelCall& call);
  void Await(Thread::State state, std::source_location where);
  Thread& thread() { return threads_[current_]; }
  [[noreturn]] void Fault(const std::string& what) const;

  KernelLaunch launch;
  uint3 block{}, index{};  // of the block in the grid, of the thread in the block

 private:
  void RunBlock();
  void RunThreads();  // those that have not begun, until one waits
  void GoOn(uint32_t thread);
  void Enter(Fiber& fiber);
  Fiber& IdleFiber();
  bool ReleaseWarps();
  void ReleaseBlock();
  void CheckAllWaitWith(uint32_t thread, uint32_t begin, uint32_t end);

  const char* name_ = "";
  const KernelCall* call_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<uint32_t> order_;
  size_t begun_ = 0, ended_ = 0;
  uint32_t current_ = 0;
  Fiber* fiber_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
} device;

void Device::Run(const char* name, const KernelLaunch& with, const KernelCall& call) {
  name_ = name;
  launch = with;
  call_ = &call;
  BeginAccessesOfLaunch({reinterpret_cast<uintptr_t>(call.arguments.get()), call.bytes});
  CHECK_LT(Count(launch.grid), uint64_t{1} << 32) << ": more blocks than would ever end";
  const uint32_t blocks = static_cast<uint32_t>(Count(launch.grid)), count = static_cast<uint32_t>(Count(launch.block));
  DrawnOrder order_of_blocks(blocks);
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t number = order_of_blocks.Next();
    block = At(launch.grid, number);
    threads_.assign(count, Thread());
    order_.clear();
    DrawnOrder order_of_threads(count);
    for (uint32_t t = 0; t < count; ++t) {
      order_.push_back(order_of_threads.Next());
      threads_[t].moment = {number, t, 0, 0};
    }
    RunBlock();
  }
}

void Device::RunBlock() {
  BeginAccessesOfBlock();
  begun_ = ended_ = 0;
  while (begun_ < order_.size()) Enter(IdleFiber());
  while (ended_ < order_.size()) {
    if (!ReleaseWarps()) ReleaseBlock();
  }
}

void Device::RunThreads() {
  while (begun_ < order_.size()) {
    current_ = order_[begun_++];
    index = At(launch.block, current_);
    thread().fiber = fiber_;
    BeginAccesses(thread().moment, {fiber_->stack_begin(), Fiber::kStackBytes});
    call_->thread(call_->arguments.get());
    EndAccesses();
    thread().state = Thread::State::kHasEnded;
    ++ended_;
  }
}

Fiber& Device::IdleFiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>([this] {
      for (Fiber* const self = fiber_;; self->Leave()) {
        RunThreads();
        idle_.push_back(self);
      }
    }));
    return *fibers_.back();
  }
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return *fiber;
}

void Device::Enter(Fiber& fiber) {
  fiber_ = &fiber;
  fiber.Enter();
}

void Device::Await(Thread::State state, std::source_location where) {
  EndAccesses();
  thread().state = state;
  thread().where = where;
  fiber_->Leave();
}

void Device::GoOn(uint32_t number) {
  current_ = number;
  index = At(launch.block, number);
  thread().state = Thread::State::kRuns;
  thread().distance = 0;
  BeginAccesses(thread().moment, {thread().fiber->stack_begin(), Fiber::kStackBytes});
  Enter(*thread().fiber);
}

void Device::CheckAllWaitWith(uint32_t waits, uint32_t begin, uint32_t end) {
  for (uint32_t other = begin; other < end; ++other) {
    if (other < threads_.size() && threads_[other].WaitsWith(threads_[waits])) continue;
    current_ = waits;
    index = At(launch.block, waits);
    const std::source_location& where = threads_[waits].where;
    const bool there = other < threads_.size();
    const bool ended = there && threads_[other].state == Thread::State::kHasEnded;
    Fault(absl::StrCat("waits at ", where.file_name(), ":", where.line(), " for thread ", other, ", which ",
                       ended   ? "has ended"
                       : there ? absl::StrCat("waits at line ", threads_[other].where.line())
                               : "the block does not have"));
  }
}

// True: some went on. Each thread has ended or waits: so whoever is not with the others never will be.
bool Device::ReleaseWarps() {
  std::vector<bool> released(threads_.size() / kWarp + 1);
  for (uint32_t t = 0; t < threads_.size(); ++t) {
    const uint32_t begin = t / kWarp * kWarp;
    if (threads_[t].state != Thread::State::kAtWarp || released[t / kWarp]) continue;
    CheckAllWaitWith(t, begin, begin + kWarp);
    released[t / kWarp] = true;
    for (uint32_t lane = begin; lane < begin + kWarp; ++lane) {
      const int distance = threads_[lane].distance;
      threads_[lane].exchanged = threads_[begin + ((lane - begin) ^ static_cast<uint32_t>(distance))].bits;
      if (distance == 0) ++threads_[lane].moment.warp_barriers;
    }
  }
  bool any = false;
  for (uint32_t t : order_) {
    if (!released[t / kWarp]) continue;
    any = true;
    GoOn(t);
  }
  return any;
}

void Device::ReleaseBlock() {
  uint32_t waits = 0;
  while (threads_[waits].state == Thread::State::kHasEnded) ++waits;
  CheckAllWaitWith(waits, 0, static_cast<uint32_t>(threads_.size()));
  for (Thread& each : threads_) ++each.moment.block_barriers;
  for (uint32_t t : order_) GoOn(t);
}

void Device::Fault(const std::string& what) const {
  EndAccesses();
  LOG(FATAL) << name_ << ": block " << Text(block) << ", thread " << Text(index) << ": " << what;
  std::abort();
}

bool Allowed(const KernelLaunch& launch) {
  const auto within = [](dim3 size, unsigned x, unsigned y, unsigned z) {
    return Count(size) > 0 && size.x <= x && size.y <= y && size.z <= z;
  };
  return within(launch.grid, 0x7fffffff, 0xffff, 0xffff) && within(launch.block, 1024, 1024, 64) &&
         Count(launch.block) <= 1024 && launch.shared_bytes <= kMostSharedBytes;
}

void CheckMask(uint32_t mask) {
  if (mask != kWholeWarp) FaultOfKernel(absl::StrCat("waits for the lanes ", absl::Hex(mask), " of its warp alone"));
}

}  // namespace

void LaunchKernelCall(const char* name, const KernelLaunch& launch, void (*thread)(const void*), const void* arguments,
                      size_t bytes) {
  if (!Allowed(launch)) {
    TellOnStandIn(cudaErrorInvalidConfiguration);
  } else {  // which tells what is wrong
    const KernelCall call(thread, arguments, bytes);
    (void)LaunchOnStandIn(launch.stream, [=] { device.Run(name, launch, call); });
  }
}

uint3 KernelThreadIndex() { return device.index; }
uint3 KernelBlockIndex() { return device.block; }
dim3 KernelBlockSize() { return device.launch.block; }
dim3 KernelGridSize() { return device.launch.grid; }

// NaN, until the block's own threads write there.
void BeginSharedMemory(void* memory, size_t bytes) {
  if (BeginAccessesToShared({reinterpret_cast<uintptr_t>(memory), bytes})) std::memset(memory, 0xff, bytes);
}

void AwaitBlock(std::source_location where) { device.Await(Thread::State::kAtBlock, where); }

void AwaitWarp(uint32_t mask, std::source_location where) {
  CheckMask(mask);
  device.Await(Thread::State::kAtWarp, where);
}

uint64_t ExchangeInWarp(uint32_t mask, uint64_t bits, int distance, std::source_location where) {
  CheckMask(mask);
  if (distance <= 0 || distance >= static_cast<int>(kWarp)) FaultOfKernel("exchanges with a lane of another warp");
  device.thread().bits = bits;
  device.thread().distance = distance;
  device.Await(Thread::State::kAtWarp, where);
  return device.thread().exchanged;
}

uint64_t AddAtomically(uint64_t* to, uint64_t number) {
  AccessAtomically(to, sizeof(*to));
  return std::exchange(*to, *to + number);
}

void FaultOfKernel(const std::string& what) { device.Fault(what); }

}  // namespace downpour
