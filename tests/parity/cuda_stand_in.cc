#include "tests/parity/cuda_stand_in.h"

#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/apply_kernels.h"

namespace {

constexpr size_t kFilled = 64 << 10;  // of fresh memory, with NaN: more would only take time

// How often an event was recorded, and how many of those its streams have reached.
struct Marks {
  uint64_t recorded = 0;
  uint64_t reached = 0;
};

struct Operation {
  std::function<void()> run;
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
};
struct CUstream_st {
  std::deque<Operation> waiting;
};
struct cublasContext {
  cudaStream_t stream = nullptr;
  const void* workspace = nullptr;
};

namespace {

struct World {
  int device = 1;
  uint64_t seed = 0, random = 0;
  std::vector<cudaStream_t> streams;
  std::map<uintptr_t, Allocation> allocations;
  size_t left = 0;
  uint64_t calls = 0, failed = 0, fail_at = 0, stalling = 0;
  bool for_good = false;
} world;
thread_local int current_device = 0;

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
    return cudaErrorIllegalAddress;
  }
  if (world.seed != 0 && Draw(2) == 0) RunSome();
  return cudaSuccess;
}

// Likewise, and works on the current device.
cudaError_t Enter() {
  if (cudaError_t error = EnterAnyDevice(); error != cudaSuccess) return error;
  return current_device == world.device ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t Give(void** memory, size_t bytes, bool pinned) {
  ++world.stalling;
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (bytes > world.left) return cudaErrorMemoryAllocation;
  world.left -= bytes;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xff, std::min(bytes, kFilled));
  world.allocations[reinterpret_cast<uintptr_t>(*memory)] = {bytes, pinned};
  return cudaSuccess;
}

// Frees only what nothing uses any more, as cudaFree and cudaFreeHost do by waiting.
cudaError_t Take(void* memory) {
  ++world.stalling;
  if (Lost()) {
    for (cudaStream_t stream : world.streams) stream->waiting.clear();
  }
  RunAll();
  const auto at = world.allocations.find(reinterpret_cast<uintptr_t>(memory));
  if (at == world.allocations.end()) return cudaErrorInvalidValue;
  world.left += at->second.bytes;
  world.allocations.erase(at);
  std::free(memory);
  return cudaSuccess;
}

bool Holds(const void* memory, size_t bytes, bool pinned) {
  auto after = world.allocations.upper_bound(reinterpret_cast<uintptr_t>(memory));
  if (after == world.allocations.begin()) return false;
  const auto& [begin, allocation] = *std::prev(after);
  const uintptr_t offset = reinterpret_cast<uintptr_t>(memory) - begin;
  return allocation.pinned == pinned && offset < allocation.bytes && bytes <= allocation.bytes - offset;
}

cublasStatus_t OfCublas(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// The factor op(x) of `rows` x `cols`, x by columns, as what multiplies it sees it; by rows.
std::vector<float> Factor(cublasOperation_t op, const void* x, cudaDataType type, int64_t stride, int64_t rows,
                          int64_t cols, bool tf32) {
  std::vector<float> factor;
  factor.reserve(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t at = op == CUBLAS_OP_N ? r + c * stride : c + r * stride;
      uint32_t bits = type == CUDA_R_16BF ? uint32_t{static_cast<const uint16_t*>(x)[at]} << 16
                                          : static_cast<const uint32_t*>(x)[at];
      if (tf32) bits &= ~uint32_t{0x1fff};
      factor.push_back(std::bit_cast<float>(bits));
    }
  }
  return factor;
}

}  // namespace

namespace downpour {

void ResetCudaStandIn(uint64_t seed, size_t memory, int device) {
  world = World{};
  current_device = 0;
  world.device = device;
  world.seed = world.random = seed;
  world.left = memory;
}
void FailCudaCall(uint64_t number, bool for_good) {
  world.fail_at = number;
  world.for_good = for_good;
}
uint64_t CudaCallsThatFailed() { return world.failed; }
uint64_t CudaCallsThatStall() { return world.stalling; }

cudaError_t LaunchOnStandIn(cudaStream_t stream, std::function<void()> kernel) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  stream->waiting.push_back({std::move(kernel), nullptr, 0});
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
  if (!Lost() && device == current_device) return cudaSuccess;
  current_device = device;
  return EnterAnyDevice();
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return EnterAnyDevice();
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
  return Lost() ? cudaErrorIllegalAddress : cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
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
  if (!Holds(down ? from : to, bytes, false)) return cudaErrorInvalidValue;
  if (!Holds(down ? to : from, bytes, true)) return cudaErrorInvalidValue;  // would wait for pageable memory
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
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  RunUntil([stream] { return stream->waiting.empty(); });
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  ++world.stalling;
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
  const uint64_t mark = event->marks->recorded + 1;
  const auto reach = [marks = event->marks, mark] { marks->reached = mark; };
  if (cudaError_t error = downpour::LaunchOnStandIn(stream, reach); error != cudaSuccess) return error;
  event->marks->recorded = mark;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  stream->waiting.push_back({nullptr, event->marks, event->marks->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (cudaError_t error = Enter(); error != cudaSuccess) return error;
  RunUntil([marks = event->marks] { return marks->reached >= marks->recorded; });
  return cudaSuccess;
}

// ---- cuBLAS ---------------------------------------------------------------------------------------------------------

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return OfCublas(Enter());
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return OfCublas(Enter());
}
const char* cublasGetStatusString(cublasStatus_t) { return "CUBLAS_STATUS_OfStandIn"; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  handle->workspace = nullptr;  // as documented
  return OfCublas(Enter());
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (!Holds(workspace, bytes, false)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  return OfCublas(Enter());
}

// c of m x n by columns. Without a workspace of one's own the same product may have other bits another time.
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                               int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType a_type, int64_t lda,
                               const void* b, cudaDataType b_type, int64_t ldb, const void* beta, void* c,
                               cudaDataType c_type, int64_t ldc, cublasComputeType_t sums, cublasGemmAlgo_t) {
  const bool fits = m > 0 && n > 0 && k > 0 && lda >= (op_a == CUBLAS_OP_N ? m : k) &&
                    ldb >= (op_b == CUBLAS_OP_N ? k : n) && ldc >= m;
  const bool tf32 = sums == CUBLAS_COMPUTE_32F_FAST_TF32 && a_type == CUDA_R_32F;
  const bool rounds = c_type == CUDA_R_16BF;
  const bool types = a_type == b_type && (c_type == CUDA_R_32F || (rounds && a_type == c_type)) &&
                     (tf32 || sums == CUBLAS_COMPUTE_32F) && (a_type == CUDA_R_32F || a_type == CUDA_R_16BF);
  if (!fits || !types || handle->workspace == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const float times = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  const auto floats = static_cast<float*>(c);
  const auto halves = static_cast<downpour::Bf16*>(c);
  return OfCublas(downpour::LaunchOnStandIn(handle->stream, [=] {
    const std::vector<float> x = Factor(op_a, a, a_type, lda, m, k, tf32);
    const std::vector<float> y = Factor(op_b == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, b, b_type, ldb, n, k, tf32);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += double{x[i * k + l]} * double{y[j * k + l]};
        const size_t at = static_cast<size_t>(i + j * ldc);
        float before = 0;
        if (keep != 0) rounds ? downpour::WidenBf16({halves + at, 1}, &before) : void(before = floats[at]);
        const float result = static_cast<float>(times * sum + double{keep} * double{before});
        rounds ? downpour::RoundToBf16({&result, 1}, halves + at) : void(floats[at] = result);
      }
    }
  }));
}

}  // extern "C"
