// A device made of the host: nothing happens before somebody waits for it, and what is repeated is done without asking.
// So what relies on results that it has not awaited, changes memory too early, or changes what is repeated, shows
// without any device. It also rounds the factors of products as a device does, and has as much memory as it is given.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/host_backend.h"

namespace downpour {

class DeferredBackend : public Backend {
 public:
  explicit DeferredBackend(uint64_t memory = uint64_t{1} << 40) : left_(memory) {}

  std::string name() const override { return "deferred"; }
  bool memory_is_host() const override { return false; }
  bool rounds_products() const override { return true; }
  std::optional<uint64_t> free_memory() const override { return left_; }

  absl::Status Upload(const void* host, size_t bytes, void* to) override {
    const auto* begin = static_cast<const char*>(host);
    return Later([copy = std::vector<char>(begin, begin + bytes), to](Backend& b) {
      return b.Upload(copy.data(), copy.size(), to);
    });
  }
  absl::Status Download(const void* from, size_t bytes, void* host) override {
    return Later([=](Backend& b) { return b.Download(from, bytes, host); });
  }
  absl::Status Synchronize() override { return RunUntil(begun_); }
  absl::StatusOr<std::shared_ptr<void>> AllocateHost(size_t bytes) override { return host_->AllocateHost(bytes); }
  absl::Status BeginUpload(const void* host, size_t bytes, void* to) override {
    return Later([=](Backend& b) { return b.Upload(host, bytes, to); });
  }
  absl::Status BeginDownload(const void* from, size_t bytes, void* host) override {
    std::memset(host, 0xff, bytes);  // NaN until it is there
    absl::Status status = Download(from, bytes, host);
    downloads_.push_back(begun_);
    return status;
  }
  absl::Status AwaitDownload() override {
    if (downloads_.empty()) return absl::FailedPreconditionError("no download was begun");
    const uint64_t number = downloads_.front();
    downloads_.pop_front();
    return RunUntil(number);
  }
  absl::Status Repeat(const std::function<absl::Status()>& give, std::unique_ptr<Recording>* recording) override {
    if (*recording != nullptr) {
      for (const Operation& operation : static_cast<Operations&>(**recording).list) (void)Later(operation);
      return absl::OkStatus();
    }
    const size_t before = waiting_.size();
    const absl::Status status = give();
    if (status.ok()) *recording = std::make_unique<Operations>(waiting_.begin() + before, waiting_.end());
    return status;
  }

 private:
  using Operation = std::function<absl::Status(Backend&)>;
  struct Operations final : Recording {
    template <class Iterator>
    Operations(Iterator begin, Iterator end) : list(begin, end) {}
    std::vector<Operation> list;
  };

  absl::Status Later(Operation operation) {
    waiting_.push_back(std::move(operation));
    ++begun_;
    return absl::OkStatus();
  }
  absl::Status RunUntil(uint64_t number) {
    absl::Status status;
    for (; done_ < number; ++done_, waiting_.pop_front()) status.Update(waiting_.front()(*host_));
    return status;
  }

  absl::StatusOr<void*> DoAllocate(size_t bytes, FloatFormat) override {
    if (bytes > left_) return absl::ResourceExhaustedError("deferred memory is used up");
    left_ -= bytes;
    auto memory = host_->AllocateHost(bytes);
    if (!memory.ok()) return memory.status();
    memory_.push_back(*std::move(memory));
    return memory_.back().get();
  }
  void DoFree(void*) override {}  // with the backend: operations may still wait

  float Rounded(float x) const {
    const int dropped = precision() == Precision::kTf32 ? 13 : precision() == Precision::kBf16 ? 16 : 0;
    if (dropped == 0 || !std::isfinite(x)) return x;
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    return std::bit_cast<float>((bits + (uint32_t{1} << (dropped - 1))) & ~((uint32_t{1} << dropped) - 1));
  }
  std::vector<float> Factor(ConstMatrix m) const {
    std::vector<float> factor;
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.cols; ++c) factor.push_back(Rounded(m.row(r)[c]));
    }
    return factor;
  }
  absl::Status DoGemm(Transpose op_a, Transpose op_b, ConstMatrix a, ConstMatrix b, float beta, Matrix c) override {
    return Later([=, this](Backend& backend) {
      const std::vector<float> x = Factor(a), y = Factor(b);
      return backend.Gemm(op_a, op_b, {x.data(), a.rows, a.cols}, {y.data(), b.rows, b.cols}, beta, c);
    });
  }
  absl::Status DoAddBias(const float* bias, Matrix x) override {
    return Later([=](Backend& b) { return b.AddBias({bias, static_cast<size_t>(x.cols)}, x); });
  }
  absl::Status DoAddBiasActivate(const float* bias, ActivationFunction f, Matrix x) override {
    return Later([=](Backend& b) { return b.AddBiasActivate({bias, static_cast<size_t>(x.cols)}, f, x); });
  }
  absl::Status DoSumRows(ConstMatrix x, float beta, float* sums) override {
    return Later([=](Backend& b) { return b.SumRows(x, beta, {sums, static_cast<size_t>(x.cols)}); });
  }
  absl::Status DoActivate(ActivationFunction f, ConstMatrix x, Matrix y) override {
    return Later([=](Backend& b) { return b.Activate(f, x, y); });
  }
  absl::Status DoActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) override {
    return Later([=](Backend& b) { return b.ActivateBackward(f, y, dy, dx); });
  }
  absl::Status DoDropout(DropoutMask mask, ConstMatrix x, Matrix y) override {
    return Later([=](Backend& b) { return b.Dropout(mask, x, y); });
  }
  absl::Status DoWidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) override {
    return Later([=](Backend& b) { return b.WidenBytes(bytes, divisor, to); });
  }
  absl::Status DoCopy(ConstMatrix from, Matrix to) override {
    return Later([=](Backend& b) { return b.Copy(from, to); });
  }
  absl::Status DoAccumulate(ConstMatrix from, Matrix to) override {
    return Later([=](Backend& b) { return b.Accumulate(from, to); });
  }
  absl::Status DoMultiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) override {
    return Later([=](Backend& backend) { return backend.Multiply(a, b, beta, y); });
  }
  absl::Status DoPairDots(ConstMatrix x, int64_t, Matrix y) override {
    return Later([=](Backend& b) { return b.PairDots(x, y); });
  }
  absl::Status DoPairDotsBackward(ConstMatrix x, int64_t, ConstMatrix dy, float beta, Matrix dx) override {
    return Later([=](Backend& b) { return b.PairDotsBackward(x, dy, beta, dx); });
  }
  absl::Status DoSoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean, Matrix d_logits,
                                     BatchTotals* totals) override {
    return Later([=](Backend& b) {
      return b.SoftmaxCrossEntropy(logits, {labels, static_cast<size_t>(logits.rows)}, mean, d_logits, totals);
    });
  }
  absl::Status DoSigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean, Matrix d_logits,
                                     BatchTotals* totals) override {
    return Later([=](Backend& b) { return b.SigmoidCrossEntropy(logits, targets, mean, d_logits, totals); });
  }
  absl::Status DoMeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs,
                                  BatchTotals* totals) override {
    return Later([=](Backend& b) { return b.MeanSquaredError(outputs, targets, mean, d_outputs, totals); });
  }
  absl::Status DoCountCorrect(ConstMatrix outputs, const int32_t* labels, BatchTotals* totals) override {
    return Later([=](Backend& b) {
      return b.CountCorrect(outputs, {labels, static_cast<size_t>(outputs.rows)}, totals);
    });
  }

  const std::unique_ptr<Backend> host_ = MakeHostBackend({});
  std::vector<std::shared_ptr<void>> memory_;
  uint64_t left_;
  std::deque<Operation> waiting_;
  uint64_t begun_ = 0;  // operations so far
  uint64_t done_ = 0;
  std::deque<uint64_t> downloads_;
};

}  // namespace downpour
