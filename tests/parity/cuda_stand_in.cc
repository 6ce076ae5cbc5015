#include "tests/parity/cuda_stand_in.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace {

constexpr size_t kFilled = 64 << 10;  // of fresh memory, with NaN: more would only take time

// How often an event was recorded, and how many of those its streams have reached.
struct Marks {
  uint64_t recorded = 0;
  uint64_t reached = 0;
};

using Kernel = std::function<void()>;

struct Operation {
  Kernel run;
  std::shared_ptr<Marks> after;  // null: at once
  uint64_t mark = 0;

  bool ready() const { return after == nullptr || after->reached >= mark; }
};

struct Allocation {
  size_t bytes = 0;
  bool pinned = false;
};

}  // namespace

struct CUevent_st {
  std::shared_ptr<Marks> marks = std::make_shared<Marks>();
  bool captured = false;  // recorded last in a capture
};
struct CUgraph_st {
  std::vector<Kernel> kernels;
};
struct CUgraphExec_st {
  std::vector<Kernel> kernels;
};
struct CUstream_st {
  std::deque<Operation> waiting;
};

namespace {

struct World {
  int device = 1;
  uint64_t seed = 0, random = 0;
  std::vector<cudaStream_t> streams;
  std::map<uintptr_t, Allocation> allocations;
  size_t left = 0, left_to_pin = 0;
  uint64_t calls = 0, failed = 0, fail_at = 0, stalling = 0;
  bool for_good = false;
  cudaStream_t capturing = nullptr;
  CUgraph_st captured;
  bool spoilt = false;  // nothing comes of the capture
  uint64_t launched = 0;
} world;
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

// Until somebody asks, it is the thread's last error: whoever asks after a launch is told of it.
cudaError_t Tell(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

uint64_t Draw(uint64_t below) {
  world.random = world.random * 6364136223846793005u + 1442695040888963407u;
  return (world.random >> 33) % below;
}

bool Ready(cudaStream_t stream) { return !stream->waiting.empty() && stream->waiting.front().ready(); }

// False: there is nothing left to do.
bool RunSome() {
  std::vector<cudaStream_t> ready;
  std::copy_if(world.streams.begin(), world.streams.end(), std::back_inserter(ready), Ready);
  if (ready.empty()) return false;
  const cudaStream_t stream = ready[Draw(ready.size())];
  for (uint64_t left = 1 + Draw(8); left > 0 && Ready(stream); --left) {
    const Operation operation = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    if (operation.run) operation.run();
  }
  return true;
}

template <class Condition>
void RunUntil(const Condition& condition) {
  while (!condition() && RunSome()) continue;
}
void RunAll() {
  RunUntil([] { return false; });
}

bool Lost() { return world.for_good && world.failed > 0; }

// Each call but for those that free: some time passes; it may be the one to fail.
cudaError_t EnterAnyDevice() {
  ++world.calls;
  if (Lost() || world.calls == world.fail_at) {
    ++world.failed;
    return Tell(cudaErrorIllegalAddress);
  }
  if (world.seed != 0 && Draw(2) == 0) RunSome();
  return cudaSuccess;
}

// Likewise, and works on the current device.
cudaError_t Enter() {
  if (cudaError_t error = EnterAnyDevice(); error != cudaSuccess) return error;
  return current_device == world.device ? cudaSuccess : Tell(cudaErrorInvalidDevice);
}

// What a capture does not allow spoils it.
cudaError_t Spoil(cudaError_t error) {
  world.spoilt = true;
  return Tell(error);
}

cudaError_t Give(void** memory, size_t bytes, bool pinned) {
  ++world.stalling;
  if (world.capturing != nullptr) return Spoil(cudaErrorStreamCaptureUnsupported);
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  size_t& left = pinned ? world.left_to_pin : world.left;
  if (bytes > left) return Tell(cudaErrorMemoryAllocation);
  left -= bytes;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xff, std::min(bytes, kFilled));
  world.allocations[reinterpret_cast<uintptr_t>(*memory)] = {bytes, pinned};
  return cudaSuccess;
}

// Frees only what nothing uses any more, as cudaFree and cudaFreeHost do by waiting.
cudaError_t Take(void* memory) {
  ++world.stalling;
  if (world.capturing != nullptr) return Spoil(cudaErrorStreamCaptureUnsupported);
  if (Lost()) {
    for (cudaStream_t stream : world.streams) stream->waiting.clear();
  }
  RunAll();
  const auto at = world.allocations.find(reinterpret_cast<uintptr_t>(memory));
  if (at == world.allocations.end()) return Tell(cudaErrorInvalidValue);
  (at->second.pinned ? world.left_to_pin : world.left) += at->second.bytes;
  world.allocations.erase(at);
  std::free(memory);
  return cudaSuccess;
}

// The allocation that begins last at or before an address, or of no bytes.
absl::Span<const std::byte> Before(const void* memory, bool pinned) {
  auto after = world.allocations.upper_bound(reinterpret_cast<uintptr_t>(memory));
  while (after != world.allocations.begin()) {
    const auto& [begin, allocation] = *--after;
    if (allocation.pinned == pinned) return {reinterpret_cast<const std::byte*>(begin), allocation.bytes};
  }
  return {};
}

bool Holds(const void* memory, size_t bytes, bool pinned) {
  const absl::Span<const std::byte> before = Before(memory, pinned);
  const size_t offset = static_cast<size_t>(static_cast<const std::byte*>(memory) - before.data());
  return offset < before.size() && bytes <= before.size() - offset;
}

}  // namespace

namespace downpour {

void ResetCudaStandIn(uint64_t seed, size_t memory, int device, size_t to_pin) {
  world = World{};
  current_device = 0;
  last_error = cudaSuccess;
  world.device = device;
  world.seed = world.random = seed;
  world.left = memory;
  world.left_to_pin = to_pin;
}
void FailCudaCall(uint64_t number, bool for_good) {
  world.fail_at = number;
  world.for_good = for_good;
}
uint64_t CudaCallsThatFailed() { return world.failed; }
uint64_t CudaCallsThatStall() { return world.stalling; }
uint64_t CudaGraphsLaunched() { return world.launched; }

cudaError_t EnterStandIn() { return Enter(); }
cudaError_t TellOnStandIn(cudaError_t error) { return Tell(error); }
bool StandInHolds(const void* memory, size_t bytes, bool pinned) { return Holds(memory, bytes, pinned); }
absl::Span<const std::byte> StandInAllocationBefore(const void* memory) { return Before(memory, /*pinned=*/false); }
uint64_t DrawOnStandIn(uint64_t below) { return Draw(below); }

cudaError_t LaunchOnStandIn(cudaStream_t stream, std::function<void()> kernel) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (stream == nullptr) return Tell(cudaErrorInvalidResourceHandle);
  if (stream == world.capturing) {
    world.captured.kernels.push_back(std::move(kernel));
  } else {
    stream->waiting.push_back({std::move(kernel), nullptr, 0});
  }
  return cudaSuccess;
}

}  // namespace downpour

extern "C" {

// ---- Devices --------------------------------------------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return EnterAnyDevice();
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = downpour::kStandInDevices;
  return EnterAnyDevice();
}
// Of the device that is current already it asks nothing.
cudaError_t cudaSetDevice(int device) {
  if (world.capturing != nullptr) return Spoil(cudaErrorStreamCaptureUnsupported);
  if (!Lost() && device == current_device) return cudaSuccess;
  current_device = device;
  return EnterAnyDevice();
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return Lost() ? cudaErrorIllegalAddress : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->totalGlobalMem = world.left;
  return Enter();
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int device) {
  std::snprintf(address, static_cast<size_t>(length), "0000:00:%02x.0", 1 + device);
  return Enter();
}
// A failure is no more than a figure that nobody knows, so it fails only with everything else.
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *available = *total = world.left;
  return Lost() ? Tell(cudaErrorIllegalAddress) : cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfStandIn";
}
const char* cudaGetErrorString(cudaError_t) { return "told by the stand-in"; }

// ---- Memory ---------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** memory, size_t bytes) { return Give(memory, bytes, false); }
cudaError_t cudaFree(void* memory) { return Take(memory); }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) { return Give(memory, bytes, true); }
cudaError_t cudaFreeHost(void* memory) { return Take(memory); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool down = kind == cudaMemcpyDeviceToHost;
  if (!Holds(down ? from : to, bytes, false)) return Tell(cudaErrorInvalidValue);
  if (!Holds(down ? to : from, bytes, true)) return Tell(cudaErrorInvalidValue);  // would wait for pageable memory
  return downpour::LaunchOnStandIn(stream, [=] { std::memcpy(to, from, bytes); });
}

// ---- Streams and events ---------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  ++world.stalling;
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  *stream = new CUstream_st;
  world.streams.push_back(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RunUntil([stream] { return stream->waiting.empty(); });
  std::erase(world.streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == world.capturing) return Spoil(cudaErrorStreamCaptureUnsupported);
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  RunUntil([stream] { return stream->waiting.empty(); });
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  ++world.stalling;
  if (world.capturing != nullptr) return Spoil(cudaErrorStreamCaptureUnsupported);
  RunAll();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  ++world.stalling;
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->captured = stream == world.capturing;
  if (event->captured) return Enter();
  const uint64_t mark = event->marks->recorded + 1;
  const auto reach = [marks = event->marks, mark] { marks->reached = mark; };
  if (cudaError_t error = downpour::LaunchOnStandIn(stream, reach); error != cudaSuccess) return error;
  event->marks->recorded = mark;
  return cudaSuccess;
}
// Of no order across a capture's edge, neither in nor out.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (event->captured != (stream == world.capturing)) {
    return Spoil(event->captured ? cudaErrorStreamCaptureUnjoined : cudaErrorStreamCaptureIsolation);
  }
  if (event->captured) return cudaSuccess;
  stream->waiting.push_back({nullptr, event->marks, event->marks->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (event->captured) return Spoil(cudaErrorCapturedEvent);
  RunUntil([marks = event->marks] { return marks->reached >= marks->recorded; });
  return cudaSuccess;
}

// ---- Graphs ---------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (world.capturing != nullptr) return Spoil(cudaErrorIllegalState);
  world.capturing = stream;
  world.captured = {};
  world.spoilt = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream != world.capturing) return Tell(cudaErrorIllegalState);
  world.capturing = nullptr;
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (world.spoilt) return Tell(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st(std::move(world.captured));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  ++world.stalling;
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  *executable = new CUgraphExec_st{graph->kernels};
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  ++world.stalling;
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (stream == world.capturing) return Spoil(cudaErrorStreamCaptureUnsupported);
  for (const Kernel& kernel : executable->kernels) stream->waiting.push_back({kernel, nullptr, 0});
  ++world.launched;
  return cudaSuccess;
}

}  // extern "C"
