// The operations a model needs of a device: a narrow table with one implementation per kind of device.
//
//   auto backend = MakeHostBackend({});
//   backend->Gemm(kPlain, kPlain, x, w, 0, y);
//   backend->AddBias(b, y);
//   backend->Activate(ActivationFunction::kRelu, y, y);
//   backend->Synchronize();
//
// Shapes: checked here, for every backend alike, before the first address is used; addresses are the caller's promise.
//   Zero rows are fine. Where an input and an output are the same view the operation works in place; other overlaps are
//   not allowed.
// Order: one queue: operations take effect in the order given, and may still be running when the call returns. Host
//   memory given to Upload may be reused at once; what Download and the operations wrote is there after Synchronize, or
//   at once where memory_is_host(). A transfer that was begun goes on beside later operations until it is awaited.
// Errors: INVALID_ARGUMENT naming operation and shapes, with nothing done; RESOURCE_EXHAUSTED for memory; else what the
//   device reports, at the latest from Synchronize.
// Threads: one at a time; host memory may be freed on any.
// Tests: tests/parity holds every operation against a naive double-precision one, with a tolerance, and sentinels
//   around every buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/matrix_view.h"
#include "tensor/operands.h"

namespace downpour {

class Backend;

// What a backend keeps of operations that come again and again. It goes before the backend, and before the memory that
// they use.
class Recording {
 public:
  virtual ~Recording() = default;
};

// How a backend may keep the floats of a piece of memory.
enum class FloatFormat {
  kFp32,
  // As products read their factors: with bf16 maybe rounded to it, by whatever writes there, uploads too. It looks like
  // memory of floats to all operations, but it cannot be downloaded nor hold vectors, bytes, labels or totals.
  kFactor,
};

// Memory of a backend, freed with it. Contents undefined, 64-byte aligned.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Backend* owner, void* data) : owner_(owner), data_(data) {}
  Buffer(Buffer&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return data_; }

 private:
  Backend* owner_ = nullptr;
  void* data_ = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;     // for people: library, version, kernels
  virtual bool memory_is_host() const = 0;  // views may point to any host memory, and results are there at once
  // Where PCI has it, such as 0000:3b:00.0; empty: it is no card.
  virtual std::string pci_address() const { return ""; }
  // Bytes that Allocate could still give; none where nobody knows: on the host.
  virtual std::optional<uint64_t> free_memory() const { return std::nullopt; }
  // Whether it has faster units for products of less than fp32.
  virtual bool rounds_products() const = 0;
  // For what is allocated from then on; without such units it stays fp32.
  void UsePrecision(Precision precision) { precision_ = rounds_products() ? precision : Precision::kFp32; }
  Precision precision() const { return precision_; }
  // Whether memory of that format, if it is allocated from now on, holds bfloat16.
  virtual bool keeps_rounded(FloatFormat) const { return false; }

  absl::StatusOr<Buffer> Allocate(size_t bytes, FloatFormat format = FloatFormat::kFp32);
  virtual absl::Status Upload(const void* host, size_t bytes, void* to) = 0;
  virtual absl::Status Download(const void* from, size_t bytes, void* host) = 0;
  virtual absl::Status Synchronize() = 0;

  // Host memory that a device's transfers reach at full speed; freed with its last holder. UNAVAILABLE where the host
  // has no more of it: RESOURCE_EXHAUSTED is the device's.
  virtual absl::StatusOr<std::shared_ptr<void>> AllocateHost(size_t bytes) = 0;
  // Starts an upload out of memory of AllocateHost, which holds the numbers as the device keeps them: bfloat16 where
  // keeps_rounded (`bytes` are those of the host), else as for Upload. It must not change before an operation on what
  // was written there was awaited.
  virtual absl::Status BeginUpload(const void* host, size_t bytes, void* to) = 0;
  // Starts a download, into memory of AllocateHost, of what the operations so far wrote. Neither side is written before
  // AwaitDownload, which returns when the oldest one that was begun and not yet awaited is there.
  virtual absl::Status BeginDownload(const void* from, size_t bytes, void* host) = 0;
  virtual absl::Status AwaitDownload() = 0;

  // Does what `give` gives: operations, and nothing else. Where `recording`, null at first, is the same, they are the
  // same with the same arguments: `give` need not be called then. What is to differ lies in memory.
  virtual absl::Status Repeat(const std::function<absl::Status()>& give, std::unique_ptr<Recording>* recording);

  // c = op(a) op(b) + beta c; c is not read where beta is 0. Neither a nor b overlaps c; inner sizes are above 0. Both
  // factors are of one format; only where it is kFactor c may be of kFactor too.
  absl::Status Gemm(Transpose op_a, Transpose op_b, ConstMatrix a, ConstMatrix b, float beta, Matrix c);

  // Every row of x += bias.
  absl::Status AddBias(absl::Span<const float> bias, Matrix x);
  // Every row of x = f(row + bias); without `f` the same as AddBias.
  absl::Status AddBiasActivate(absl::Span<const float> bias, std::optional<ActivationFunction> f, Matrix x);
  // sums = the sum of x's rows + beta sums; sums is not read where beta is 0.
  absl::Status SumRows(ConstMatrix x, float beta, absl::Span<float> sums);

  // y = f(x). NaN stays NaN, so that a diverged model is seen.
  absl::Status Activate(ActivationFunction f, ConstMatrix x, Matrix y);
  // dx = dy f'(x), by way of y = f(x).
  absl::Status ActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx);

  // y = x where the mask lets it pass, scaled by 1 / (1 - rate), else 0. Backward is the same, on gradients.
  absl::Status Dropout(DropoutMask mask, ConstMatrix x, Matrix y);

  // to = bytes / divisor, each the nearest float: the same bits on every device, for divisors of 2^-100 to 2^100.
  absl::Status WidenBytes(ConstByteMatrix bytes, float divisor, Matrix to);

  absl::Status Copy(ConstMatrix from, Matrix to);
  absl::Status Accumulate(ConstMatrix from, Matrix to);  // to += from

  // y = a b + beta y, number by number; y is not read where beta is 0, which is 0 or 1.
  absl::Status Multiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y);
  // Each row of x is n vectors of one width. y, of [rows, n (n - 1) / 2], gets their dot products: of the first with
  // the second, the third, ..., of the second with the third, ...
  absl::Status PairDots(ConstMatrix x, Matrix y);
  // dx = the gradient by x, given dy, that by y, + beta dx; dx is not read where beta is 0, which is 0 or 1.
  absl::Status PairDotsBackward(ConstMatrix x, ConstMatrix dy, float beta, Matrix dx);

  // totals->loss += the sum over rows of -log softmax(logits)[label], each times its weight in the mean. d_logits = its
  // gradient divided by mean.examples; an empty view (no rows) where only the loss is wanted. Labels lie in [0, cols):
  // the caller's promise, since they may lie in a device's memory.
  absl::Status SoftmaxCrossEntropy(ConstMatrix logits, absl::Span<const int32_t> labels, WeightedMean mean,
                                   Matrix d_logits, BatchTotals* totals);
  // totals->loss += the sum over rows of the mean of (outputs - targets)^2; d_outputs as above.
  absl::Status MeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs,
                                BatchTotals* totals);
  // totals->loss += the sum over rows of the mean of -t log(p) - (1 - t) log(1 - p), with p = 1 / (1 + exp(-logit)) and
  // targets t from 0 to 1; d_logits as above.
  absl::Status SigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean, Matrix d_logits,
                                   BatchTotals* totals);
  // totals->correct += the rows whose largest element (the first of equals) stands at their label; of a single column:
  // whose element lies within a half of the label. A row that holds a NaN is not correct.
  absl::Status CountCorrect(ConstMatrix outputs, absl::Span<const int32_t> labels, BatchTotals* totals);

 private:
  friend class Buffer;
  // The same operations, shapes checked and at least one element to do.
  virtual absl::StatusOr<void*> DoAllocate(size_t bytes, FloatFormat format) = 0;
  virtual void DoFree(void* data) = 0;
  virtual absl::Status DoGemm(Transpose op_a, Transpose op_b, ConstMatrix a, ConstMatrix b, float beta, Matrix c) = 0;
  virtual absl::Status DoAddBias(const float* bias, Matrix x) = 0;
  virtual absl::Status DoAddBiasActivate(const float* bias, ActivationFunction f, Matrix x) = 0;
  virtual absl::Status DoSumRows(ConstMatrix x, float beta, float* sums) = 0;
  virtual absl::Status DoActivate(ActivationFunction f, ConstMatrix x, Matrix y) = 0;
  virtual absl::Status DoActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) = 0;
  virtual absl::Status DoDropout(DropoutMask mask, ConstMatrix x, Matrix y) = 0;
  virtual absl::Status DoWidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) = 0;
  virtual absl::Status DoCopy(ConstMatrix from, Matrix to) = 0;
  virtual absl::Status DoAccumulate(ConstMatrix from, Matrix to) = 0;
  virtual absl::Status DoMultiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) = 0;
  virtual absl::Status DoPairDots(ConstMatrix x, int64_t n, Matrix y) = 0;
  virtual absl::Status DoPairDotsBackward(ConstMatrix x, int64_t n, ConstMatrix dy, float beta, Matrix dx) = 0;
  virtual absl::Status DoSoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean,
                                             Matrix d_logits, BatchTotals* totals) = 0;
  virtual absl::Status DoMeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs,
                                          BatchTotals* totals) = 0;
  virtual absl::Status DoSigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean,
                                             Matrix d_logits, BatchTotals* totals) = 0;
  virtual absl::Status DoCountCorrect(ConstMatrix outputs, const int32_t* labels, BatchTotals* totals) = 0;

  Precision precision_ = Precision::kFp32;
};

}  // namespace downpour
