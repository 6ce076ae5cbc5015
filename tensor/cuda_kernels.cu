#include "tensor/cuda_kernels.h"

#include <cmath>

#include "tensor/cuda_map.cuh"
#include "tensor/threefry.h"

namespace downpour {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kWarp = 32;
constexpr int kRowsPerBlock = kMapThreads / kWarp;  // of kernels that give each row a warp

// ---- Elementwise ----------------------------------------------------------------------------------------------------

struct Relu {
  __device__ float operator()(float x) const { return x < 0 ? 0 : x; }  // NaN stays
};
struct Sigmoid {
  __device__ float operator()(float x) const { return 1 / (1 + expf(-x)); }
  __device__ static float Slope(float y) { return y * (1 - y); }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
  __device__ static float Slope(float y) { return 1 - y * y; }
};

template <class Function>
struct Backward {
  __device__ float operator()(float y, float dy) const { return dy * Function::Slope(y); }
};
template <>
struct Backward<Relu> {  // a gradient that is not finite must not pass a unit that is off
  __device__ float operator()(float y, float dy) const { return y > 0 ? dy : 0; }
};

struct Identity {
  __device__ float operator()(float x) const { return x; }
};
struct Sum {
  __device__ float operator()(float x, float y) const { return x + y; }
};

struct Product {
  __device__ float operator()(float x, float y) const { return x * y; }
};
struct ProductAndSum {
  __device__ float operator()(float x, float y, float z) const { return fmaf(x, y, z); }
};

// The nearest float, as a division gives it, but without the branch for exponents that bytes and their divisors do not
// have. Source: Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990.
struct DivideBy {
  float divisor;
  float reciprocal;  // the nearest
  __device__ float operator()(float x) const {
    const float quotient = x * reciprocal;
    return fmaf(fmaf(-quotient, divisor, x), reciprocal, quotient);
  }
};

// Calls run(Function()) for the function meant.
template <class Run>
cudaError_t With(ActivationFunction f, const Run& run) {
  switch (f) {
    case ActivationFunction::kRelu:
      return run(Relu());
    case ActivationFunction::kSigmoid:
      return run(Sigmoid());
    case ActivationFunction::kTanh:
      return run(Tanh());
  }
  return cudaErrorInvalidValue;
}

template <class Function>
__global__ void BiasKernel(Function f, const float* bias, CudaMatrix x) {
  for (int64_t r = blockIdx.y; r < x.rows; r += gridDim.y) {
    for (int64_t c = ThreadIndex(); c < x.cols; c += ThreadCount()) {
      const int64_t i = r * x.stride + c;
      Put(x, i, f(At(x, i) + bias[c]));
    }
  }
}

template <class Function>
__global__ void BiasKernel4(Function f, const float4* bias, CudaMatrix x) {
  const int64_t row = x.stride / 4, step = gridDim.y;
  for (int64_t c = ThreadIndex(); c < x.cols / 4; c += ThreadCount()) {
    const float4 b = bias[c];
    const auto biased = [&](int64_t r) {
      const float4 v = FourAt(x, r * row + c);
      return make_float4(f(v.x + b.x), f(v.y + b.y), f(v.z + b.z), f(v.w + b.w));
    };
    int64_t r = blockIdx.y;
    for (; r + (kAtOnce - 1) * step < x.rows; r += kAtOnce * step) {
      float4 results[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) results[k] = biased(r + k * step);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) PutFour(x, (r + k * step) * row + c, results[k]);
    }
    for (; r < x.rows; r += step) PutFour(x, r * row + c, biased(r));
  }
}

template <class Function>
cudaError_t AddBiasThen(cudaStream_t stream, Function f, const float* bias, CudaMatrix x) {
  const bool aligned = BeginsWithFour(x) && reinterpret_cast<uintptr_t>(bias) % sizeof(float4) == 0;
  const bool by_four = aligned && x.cols % 4 == 0 && x.stride % 4 == 0;
  const unsigned across = BlocksFor(by_four ? x.cols / 4 : x.cols, kMapThreads);
  const int64_t down = by_four ? (x.rows + kAtOnce - 1) / kAtOnce : x.rows;
  const dim3 blocks(across, static_cast<unsigned>(std::clamp<int64_t>(down, 1, kMostBlocks / across)));
  if (by_four) {
    BiasKernel4<<<blocks, kMapThreads, 0, stream>>>(f, reinterpret_cast<const float4*>(bias), x);
  } else {
    BiasKernel<<<blocks, kMapThreads, 0, stream>>>(f, bias, x);
  }
  return cudaGetLastError();
}

// ---- Dropout --------------------------------------------------------------------------------------------------------

// Counter (x0, x1) to two random words, in place.
__device__ void Threefry(uint64_t seed, uint32_t& x0, uint32_t& x1) {
  const ThreefryKey words(seed);
  x0 += words.key[0];
  x1 += words.key[1];
#pragma unroll
  for (int round = 0; round < kThreefryRounds; ++round) {
    x0 += x1;
    x1 = __funnelshift_l(x1, x1, ThreefryRotation(round)) ^ x0;
    if (round % 4 < 3) continue;
    const uint32_t fours = (round + 1) / 4;
    x0 += words.key[fours % 3];
    x1 += words.key[(fours + 1) % 3] + fours;
  }
}

__device__ uint32_t HalfOf(uint32_t word, int high) { return high ? word >> 16 : word & 0xffff; }

struct Drop {
  uint32_t threshold;
  float scale;
  __device__ float operator()(uint32_t bits, float x) const { return bits < threshold ? 0 : x * scale; }
};

__global__ void DropoutKernel(const uint64_t* seed_at, Drop drop, CudaConstMatrix x, CudaMatrix y) {
  const uint64_t seed = *seed_at;
  const int64_t quarter = DropoutQuarter(x.cols);
  for (int64_t r = blockIdx.y; r < x.rows; r += gridDim.y) {
    for (int64_t c = ThreadIndex(); c < quarter; c += ThreadCount()) {
      uint32_t words[2] = {static_cast<uint32_t>(r), static_cast<uint32_t>(c)};
      Threefry(seed, words[0], words[1]);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int64_t at = c + k * quarter;
        if (at < x.cols) Put(y, r * y.stride + at, drop(HalfOf(words[k / 2], k % 2), At(x, r * x.stride + at)));
      }
    }
  }
}

// The same where the quarters of each row consist of aligned fours.
__global__ void DropoutKernel4(const uint64_t* seed_at, Drop drop, CudaConstMatrix x, CudaMatrix y) {
  const uint64_t seed = *seed_at;
  const int64_t quarter = x.cols / 16;
  for (int64_t r = blockIdx.y; r < x.rows; r += gridDim.y) {
    const int64_t x_row = r * (x.stride / 4), y_row = r * (y.stride / 4);
    for (int64_t c = ThreadIndex(); c < quarter; c += ThreadCount()) {
      float4 loaded[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) loaded[k] = FourAt(x, x_row + c + k * quarter);
      uint32_t words[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[0][i] = static_cast<uint32_t>(r);
        words[1][i] = static_cast<uint32_t>(4 * c + i);
        Threefry(seed, words[0][i], words[1][i]);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const auto pass = [&](int i, float v) { return drop(HalfOf(words[k / 2][i], k % 2), v); };
        const float4 v = loaded[k];
        PutFour(y, y_row + c + k * quarter, make_float4(pass(0, v.x), pass(1, v.y), pass(2, v.z), pass(3, v.w)));
      }
    }
  }
}

// ---- Reductions -----------------------------------------------------------------------------------------------------

// Blocks of kWarp columns, whose warps take turns with the rows. A lane loads one number, or two of bfloat16, where a
// warp has two rows at once: with fewer bytes under way the memory would idle. One kernel for each storage, so that
// nothing is asked between loads that may be under way together.
constexpr int kSumWarps = 32, kLoadsAtOnce = 8;
template <class T>
constexpr int kColumnsOf = sizeof(T) / sizeof(decltype(T::first));
struct OneFloat {
  float first;
  __device__ float column(int) const { return first; }
};
struct OneHalf {
  Bf16 first;
  __device__ float column(int) const { return Widened(first); }
};
struct alignas(4) TwoHalves {
  Bf16 first, second;
  __device__ float column(int i) const { return Widened(i == 0 ? first : second); }
};
template <class T>
__global__ void SumRowsKernel(const T* x, int64_t rows, int64_t cols, int64_t stride, float beta, float* sums) {
  constexpr int kColumns = kColumnsOf<T>, kLanes = kWarp / kColumns, kTurn = kSumWarps * kColumns;
  __shared__ float partial[kTurn][kWarp];
  const int row = threadIdx.y * kColumns + threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64_t at = int64_t{blockIdx.x} * kLanes + lane;  // in loads, as are cols and stride
  float sum[kColumns] = {};
  for (int64_t first = row; at < cols && first < rows; first += kLoadsAtOnce * kTurn) {
    T loaded[kLoadsAtOnce];
#pragma unroll
    for (int k = 0; k < kLoadsAtOnce; ++k) loaded[k] = x[std::min(first + k * kTurn, rows - 1) * stride + at];
#pragma unroll
    for (int k = 0; k < kLoadsAtOnce; ++k) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sum[i] += first + k * kTurn < rows ? loaded[k].column(i) : 0;
    }
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i) partial[row][lane * kColumns + i] = sum[i];
  __syncthreads();
  const int64_t c = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  if (threadIdx.y > 0 || c >= cols * kColumns) return;
  float total = 0;
  for (int i = 0; i < kTurn; ++i) total += partial[i][threadIdx.x];
  sums[c] = beta == 0 ? total : beta * sums[c] + total;
}

template <class T>
void SumRows(cudaStream_t stream, const void* x, CudaConstMatrix shape, float beta, float* sums) {
  const unsigned blocks = static_cast<unsigned>((shape.cols + kWarp - 1) / kWarp);
  SumRowsKernel<<<blocks, dim3(kWarp, kSumWarps), 0, stream>>>(static_cast<const T*>(x), shape.rows,
                                                               shape.cols / kColumnsOf<T>,
                                                               shape.stride / kColumnsOf<T>, beta, sums);
}

template <class T, class Combine>
__device__ T ReduceWarp(T value, const Combine& combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;  // on every lane
}

__device__ int64_t RowOfWarp() { return int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp; }

__device__ float WeightOf(const float* weights, int64_t r) { return weights == nullptr ? 1 : weights[r]; }

__global__ void SoftmaxKernel(CudaConstMatrix logits, const int32_t* labels, float examples, const float* weights,
                              CudaMatrix d_logits, double* row_losses) {
  const int64_t r = RowOfWarp();
  const int lane = threadIdx.x % kWarp;
  if (r >= logits.rows) return;  // the whole warp
  const auto x = [&](int64_t c) { return At(logits, r * logits.stride + c); };
  const float at_label = x(labels[r]);
  float largest = x(0);
  for (int64_t c = lane; c < logits.cols; c += kWarp) largest = fmaxf(largest, x(c));
  largest = ReduceWarp(largest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int64_t c = lane; c < logits.cols; c += kWarp) sum += expf(x(c) - largest);
  sum = ReduceWarp(sum, [](float a, float b) { return a + b; });
  const float weight = WeightOf(weights, r), scale = weight / examples;
  if (lane == 0) row_losses[r] = weight * (log(double{sum}) - (double{at_label} - double{largest}));
  if (d_logits.rows == 0) return;
  __syncwarp();  // in place: every lane has read its at_label
  const float share = scale / sum;
  for (int64_t c = lane; c < logits.cols; c += kWarp) {
    const float gradient = expf(x(c) - largest) * share;
    Put(d_logits, r * d_logits.stride + c, c == labels[r] ? gradient - scale : gradient);
  }
}

__global__ void SquaredErrorKernel(CudaConstMatrix outputs, CudaConstMatrix targets, CudaMatrix d_outputs,
                                   double of_one, const float* weights, double* row_losses) {
  const int64_t r = RowOfWarp();
  const int lane = threadIdx.x % kWarp;
  if (r >= outputs.rows) return;  // the whole warp
  const double weight = WeightOf(weights, r);
  const auto scale = static_cast<float>(weight * of_one);
  double loss = 0;
  for (int64_t c = lane; c < outputs.cols; c += kWarp) {
    const float out = At(outputs, r * outputs.stride + c), target = At(targets, r * targets.stride + c);
    const double error = double{out} - double{target};
    loss += error * error;
    if (d_outputs.rows > 0) Put(d_outputs, r * d_outputs.stride + c, (out - target) * scale);
  }
  loss = ReduceWarp(loss, [](double a, double b) { return a + b; });
  if (lane == 0) row_losses[r] = weight * (loss / static_cast<double>(outputs.cols));
}

// exp of a negative number alone, so that nothing overflows.
__global__ void SigmoidKernel(CudaConstMatrix logits, CudaConstMatrix targets, CudaMatrix d_logits, double of_one,
                              const float* weights, double* row_losses) {
  const int64_t r = RowOfWarp();
  const int lane = threadIdx.x % kWarp;
  if (r >= logits.rows) return;  // the whole warp
  const double weight = WeightOf(weights, r);
  const auto scale = static_cast<float>(weight * of_one);
  double loss = 0;
  for (int64_t c = lane; c < logits.cols; c += kWarp) {
    const float x = At(logits, r * logits.stride + c), target = At(targets, r * targets.stride + c);
    const float small = expf(-fabsf(x));
    loss += (x < 0 ? 0 : double{x}) - double{x} * double{target} + double{log1pf(small)};
    const float share = (x < 0 ? small : 1) / (1 + small);
    if (d_logits.rows > 0) Put(d_logits, r * d_logits.stride + c, (share - target) * scale);
  }
  loss = ReduceWarp(loss, [](double a, double b) { return a + b; });
  if (lane == 0) row_losses[r] = weight * (loss / static_cast<double>(logits.cols));
}

// One block.
__global__ void AddLossesKernel(const double* row_losses, int64_t rows, BatchTotals* totals) {
  __shared__ double partial[kRowsPerBlock];
  double sum = 0;
  for (int64_t r = threadIdx.x; r < rows; r += kMapThreads) sum += row_losses[r];
  sum = ReduceWarp(sum, [](double a, double b) { return a + b; });
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < kRowsPerBlock; ++i) sum += partial[i];
  totals->loss += sum;
}

__global__ void CountCorrectKernel(CudaConstMatrix outputs, const int32_t* labels, BatchTotals* totals) {
  const int64_t r = RowOfWarp();
  const int lane = threadIdx.x % kWarp;
  if (r >= outputs.rows) return;  // the whole warp
  const auto x = [&](int64_t c) { return At(outputs, r * outputs.stride + c); };
  float largest = x(0);
  int64_t best = 0;
  for (int64_t c = lane; c < outputs.cols; c += kWarp) {
    if (isnan(x(c))) {  // beats all: nothing stands at -1
      largest = INFINITY;
      best = -1;
    } else if (x(c) > largest) {
      largest = x(c);
      best = c;
    }
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {  // the first of equals wins
    const float other = __shfl_xor_sync(kWholeWarp, largest, distance);
    const int64_t other_best = __shfl_xor_sync(kWholeWarp, best, distance);
    if (other > largest || (other == largest && other_best < best)) {
      largest = other;
      best = other_best;
    }
  }
  const bool correct =
      outputs.cols == 1 ? fabsf(x(0) - static_cast<float>(labels[r])) < 0.5f : best == int64_t{labels[r]};
  static_assert(sizeof(unsigned long long) == sizeof(totals->correct));
  if (lane == 0 && correct) atomicAdd(reinterpret_cast<unsigned long long*>(&totals->correct), 1ull);
}

// ---- Dot products of pairs ------------------------------------------------------------------------------------------

// Where the pairs of vector i of n, with later ones, begin.
__device__ int64_t PairsBefore(int64_t i, int64_t n) { return i * (2 * n - i - 1) / 2; }

// A thread has one pair of one row.
__global__ void PairDotsKernel(CudaConstMatrix x, int64_t n, CudaMatrix y) {
  const int64_t width = x.cols / n;
  for (int64_t at = ThreadIndex(); at < y.rows * y.cols; at += ThreadCount()) {
    const int64_t r = at / y.cols, pair = at % y.cols;
    int64_t i = 0;
    while (PairsBefore(i + 1, n) <= pair) ++i;
    const int64_t j = pair - PairsBefore(i, n) + i + 1;
    const int64_t row = r * x.stride;
    float sum = 0;
    for (int64_t k = 0; k < width; ++k) sum = fmaf(At(x, row + i * width + k), At(x, row + j * width + k), sum);
    Put(y, r * y.stride + pair, sum);
  }
}

// A thread has one number of x.
__global__ void PairDotsBackwardKernel(CudaConstMatrix x, int64_t n, CudaConstMatrix dy, float beta, CudaMatrix dx) {
  const int64_t width = x.cols / n;
  for (int64_t at = ThreadIndex(); at < dx.rows * dx.cols; at += ThreadCount()) {
    const int64_t r = at / dx.cols, c = at % dx.cols, i = c / width, k = c % width;
    float sum = beta == 0 ? 0 : At(dx, r * dx.stride + c);
    for (int64_t j = 0; j < n; ++j) {
      if (j == i) continue;
      const int64_t first = j < i ? j : i, second = j < i ? i : j;
      const float gradient = At(dy, r * dy.stride + PairsBefore(first, n) + second - first - 1);
      sum = fmaf(gradient, At(x, r * x.stride + j * width + k), sum);
    }
    Put(dx, r * dx.stride + c, sum);
  }
}

unsigned BlocksOfRows(int64_t rows) { return static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock); }

}  // namespace

cudaError_t CudaAddBias(cudaStream_t stream, const float* bias, CudaMatrix x) {
  return AddBiasThen(stream, Identity(), bias, x);
}
cudaError_t CudaAddBiasActivate(cudaStream_t stream, const float* bias, ActivationFunction f, CudaMatrix x) {
  return With(f, [&](auto function) { return AddBiasThen(stream, function, bias, x); });
}
cudaError_t CudaSumRows(cudaStream_t stream, CudaConstMatrix x, float beta, float* sums) {
  const bool in_pairs =
      x.cols % 2 == 0 && x.stride % 2 == 0 && reinterpret_cast<uintptr_t>(x.halves) % alignof(TwoHalves) == 0;
  if (x.halves == nullptr) {
    SumRows<OneFloat>(stream, x.floats, x, beta, sums);
  } else if (in_pairs) {
    SumRows<TwoHalves>(stream, x.halves, x, beta, sums);
  } else {
    SumRows<OneHalf>(stream, x.halves, x, beta, sums);
  }
  return cudaGetLastError();
}
cudaError_t CudaActivate(cudaStream_t stream, ActivationFunction f, CudaConstMatrix x, CudaMatrix y) {
  return With(f, [&](auto function) { return Map(stream, function, y, x); });
}
cudaError_t CudaActivateBackward(cudaStream_t stream, ActivationFunction f, CudaConstMatrix y, CudaConstMatrix dy,
                                 CudaMatrix dx) {
  return With(f, [&](auto function) { return Map(stream, Backward<decltype(function)>(), dx, y, dy); });
}
cudaError_t CudaDropout(cudaStream_t stream, DropoutMask mask, CudaConstMatrix x, CudaMatrix y) {
  const Drop drop{mask.threshold(), mask.scale()};
  const bool by_four =
      x.cols % 16 == 0 && x.stride % 4 == 0 && y.stride % 4 == 0 && BeginsWithFour(x) && BeginsWithFour(y);
  const unsigned across = BlocksFor(by_four ? x.cols / 16 : DropoutQuarter(x.cols), kMapThreads);
  const dim3 blocks(across, static_cast<unsigned>(std::clamp<int64_t>(x.rows, 1, kMostBlocks / across)));
  if (by_four) {
    DropoutKernel4<<<blocks, kMapThreads, 0, stream>>>(mask.seed, drop, x, y);
  } else {
    DropoutKernel<<<blocks, kMapThreads, 0, stream>>>(mask.seed, drop, x, y);
  }
  return cudaGetLastError();
}
cudaError_t CudaWidenBytes(cudaStream_t stream, ConstByteMatrix bytes, float divisor, CudaMatrix to) {
  return Map(stream, DivideBy{divisor, 1 / divisor}, to, bytes);
}
cudaError_t CudaCopy(cudaStream_t stream, CudaConstMatrix from, CudaMatrix to) {
  return Map(stream, Identity(), to, from);
}
cudaError_t CudaAccumulate(cudaStream_t stream, CudaConstMatrix from, CudaMatrix to) {
  return Map(stream, Sum(), to, from, CudaConstMatrix(to));
}
cudaError_t CudaMultiply(cudaStream_t stream, CudaConstMatrix a, CudaConstMatrix b, float beta, CudaMatrix y) {
  if (beta == 0) return Map(stream, Product(), y, a, b);
  return Map(stream, ProductAndSum(), y, a, b, CudaConstMatrix(y));
}
cudaError_t CudaPairDots(cudaStream_t stream, CudaConstMatrix x, int64_t n, CudaMatrix y) {
  PairDotsKernel<<<BlocksFor(y.elements(), kMapThreads), kMapThreads, 0, stream>>>(x, n, y);
  return cudaGetLastError();
}
cudaError_t CudaPairDotsBackward(cudaStream_t stream, CudaConstMatrix x, int64_t n, CudaConstMatrix dy, float beta,
                                 CudaMatrix dx) {
  PairDotsBackwardKernel<<<BlocksFor(dx.elements(), kMapThreads), kMapThreads, 0, stream>>>(x, n, dy, beta, dx);
  return cudaGetLastError();
}

cudaError_t CudaSoftmaxCrossEntropy(cudaStream_t stream, CudaConstMatrix logits, const int32_t* labels,
                                    WeightedMean mean, CudaMatrix d_logits, double* row_losses) {
  SoftmaxKernel<<<BlocksOfRows(logits.rows), kMapThreads, 0, stream>>>(
      logits, labels, static_cast<float>(mean.examples), mean.weights, d_logits, row_losses);
  return cudaGetLastError();
}
cudaError_t CudaMeanSquaredError(cudaStream_t stream, CudaConstMatrix outputs, CudaConstMatrix targets,
                                 WeightedMean mean, CudaMatrix d_outputs, double* row_losses) {
  const double elements = static_cast<double>(outputs.cols) * static_cast<double>(mean.examples);
  SquaredErrorKernel<<<BlocksOfRows(outputs.rows), kMapThreads, 0, stream>>>(outputs, targets, d_outputs, 2 / elements,
                                                                             mean.weights, row_losses);
  return cudaGetLastError();
}
cudaError_t CudaSigmoidCrossEntropy(cudaStream_t stream, CudaConstMatrix logits, CudaConstMatrix targets,
                                    WeightedMean mean, CudaMatrix d_logits, double* row_losses) {
  const double elements = static_cast<double>(logits.cols) * static_cast<double>(mean.examples);
  SigmoidKernel<<<BlocksOfRows(logits.rows), kMapThreads, 0, stream>>>(logits, targets, d_logits, 1 / elements,
                                                                       mean.weights, row_losses);
  return cudaGetLastError();
}
cudaError_t CudaAddLosses(cudaStream_t stream, const double* row_losses, int64_t rows, BatchTotals* totals) {
  AddLossesKernel<<<1, kMapThreads, 0, stream>>>(row_losses, rows, totals);
  return cudaGetLastError();
}
cudaError_t CudaCountCorrect(cudaStream_t stream, CudaConstMatrix outputs, const int32_t* labels, BatchTotals* totals) {
  CountCorrectKernel<<<BlocksOfRows(outputs.rows), kMapThreads, 0, stream>>>(outputs, labels, totals);
  return cudaGetLastError();
}

}  // namespace downpour
