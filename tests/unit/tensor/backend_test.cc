#include "tensor/backend.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/host_backend.h"

namespace downpour {
namespace {

using enum Transpose;

// Addresses that would end the process if anything were read or written.
float* Nowhere() { return reinterpret_cast<float*>(uintptr_t{64}); }
const uint8_t* WildBytes() { return reinterpret_cast<const uint8_t*>(uintptr_t{64}); }
const uint64_t* WildSeed() { return reinterpret_cast<const uint64_t*>(uintptr_t{64}); }
Matrix Wild(int64_t rows, int64_t cols) { return {Nowhere(), rows, cols}; }
absl::Span<float> WildVector(size_t n) { return {Nowhere(), n}; }
absl::Span<const int32_t> WildLabels(size_t n) { return {reinterpret_cast<const int32_t*>(uintptr_t{64}), n}; }

class BackendTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeHostBackend({});
  BatchTotals totals_;
};

TEST_F(BackendTest, ShapesThatDoNotFitAreRefusedBeforeAnythingIsTouched) {
  constexpr ActivationFunction kRelu = ActivationFunction::kRelu;
  const std::vector<absl::Status> refusals = {
      backend_->Gemm(kPlain, kPlain, Wild(2, 3), Wild(4, 5), 0, Wild(2, 5)),
      backend_->Gemm(kPlain, kPlain, Wild(2, 3), Wild(3, 5), 0, Wild(2, 4)),
      backend_->Gemm(kPlain, kPlain, Wild(2, 3), Wild(3, 5), 0, Wild(3, 5)),
      backend_->Gemm(kTransposed, kPlain, Wild(2, 3), Wild(3, 5), 0, Wild(2, 5)),
      backend_->Gemm(kPlain, kTransposed, Wild(2, 3), Wild(3, 5), 0, Wild(2, 5)),
      backend_->Gemm(kTransposed, kTransposed, Wild(2, 3), Wild(3, 5), 0, Wild(2, 5)),
      backend_->Gemm(kPlain, kPlain, Wild(2, 0), Wild(0, 5), 0, Wild(2, 5)),
      backend_->Gemm(kPlain, kPlain, {Nowhere(), 2, 3, 2}, Wild(3, 5), 0, Wild(2, 5)),
      backend_->Gemm(kPlain, kPlain, {nullptr, 2, 3}, Wild(3, 5), 0, Wild(2, 5)),
      backend_->Gemm(kPlain, kPlain, Wild(-2, 3), Wild(3, 5), 0, Wild(-2, 5)),
      backend_->AddBias(WildVector(3), Wild(2, 4)),
      backend_->SumRows(Wild(2, 4), 0, WildVector(3)),
      backend_->Activate(kRelu, Wild(2, 4), Wild(2, 3)),
      backend_->Activate(kRelu, Wild(2, 4), {nullptr, 2, 4}),
      backend_->ActivateBackward(kRelu, Wild(2, 4), Wild(1, 4), Wild(2, 4)),
      backend_->ActivateBackward(kRelu, Wild(2, 4), Wild(2, 4), Wild(1, 4)),
      backend_->Dropout({WildSeed(), 0.5}, Wild(2, 4), Wild(4, 2)),
      backend_->Dropout({WildSeed(), 1.0}, Wild(2, 4), Wild(2, 4)),
      backend_->Dropout({WildSeed(), -0.1}, Wild(2, 4), Wild(2, 4)),
      backend_->WidenBytes({WildBytes(), 2, 4}, 255, Wild(4, 2)),
      backend_->WidenBytes({WildBytes(), 2, 4, 3}, 255, Wild(2, 4)),
      backend_->WidenBytes({nullptr, 2, 4}, 255, Wild(2, 4)),
      backend_->Copy(Wild(2, 4), Wild(4, 2)),
      backend_->Accumulate(Wild(2, 4), Wild(3, 4)),
      backend_->Multiply(Wild(2, 4), Wild(2, 3), 0, Wild(2, 4)),
      backend_->Multiply(Wild(2, 4), Wild(2, 4), 0, Wild(3, 4)),
      backend_->PairDots(Wild(2, 6), Wild(2, 4)),
      backend_->PairDots(Wild(2, 7), Wild(2, 3)),
      backend_->PairDots(Wild(2, 6), Wild(3, 3)),
      backend_->PairDots(Wild(2, 0), Wild(2, 1)),
      backend_->PairDotsBackward(Wild(2, 6), Wild(2, 4), 0, Wild(2, 6)),
      backend_->PairDotsBackward(Wild(2, 6), Wild(2, 3), 0, Wild(2, 3)),
      backend_->SoftmaxCrossEntropy(Wild(2, 4), WildLabels(3), 2, Matrix(), &totals_),
      backend_->SoftmaxCrossEntropy(Wild(2, 4), WildLabels(2), 2, Wild(2, 3), &totals_),
      backend_->SoftmaxCrossEntropy(Wild(2, 0), WildLabels(2), 2, Matrix(), &totals_),
      backend_->SoftmaxCrossEntropy(Wild(2, 4), WildLabels(2), 0, Wild(2, 4), &totals_),
      backend_->MeanSquaredError(Wild(2, 4), Wild(2, 3), 2, Matrix(), &totals_),
      backend_->MeanSquaredError(Wild(2, 4), Wild(2, 4), 2, Wild(1, 4), &totals_),
      backend_->SigmoidCrossEntropy(Wild(2, 4), Wild(2, 3), 2, Matrix(), &totals_),
      backend_->SigmoidCrossEntropy(Wild(2, 4), Wild(2, 4), 0, Wild(2, 4), &totals_),
      backend_->CountCorrect(Wild(2, 4), WildLabels(1), &totals_),
  };
  for (size_t i = 0; i < refusals.size(); ++i) {
    EXPECT_EQ(refusals[i].code(), absl::StatusCode::kInvalidArgument) << i << ": " << refusals[i];
  }
  EXPECT_EQ(refusals[0].message(), "gemm a b: shapes [2, 3], [4, 5], [2, 5] do not fit");
}

TEST_F(BackendTest, NoRowsNoWork) {
  EXPECT_TRUE(backend_->Gemm(kPlain, kPlain, Wild(0, 3), Wild(3, 5), 0, Wild(0, 5)).ok());
  EXPECT_TRUE(backend_->AddBias(WildVector(4), Wild(0, 4)).ok());
  EXPECT_TRUE(backend_->Activate(ActivationFunction::kTanh, Wild(0, 4), Wild(0, 4)).ok());
  EXPECT_TRUE(backend_->WidenBytes({WildBytes(), 0, 4}, 255, Wild(0, 4)).ok());
  EXPECT_TRUE(backend_->SoftmaxCrossEntropy(Wild(0, 4), WildLabels(0), 2, Matrix(), &totals_).ok());
  EXPECT_TRUE(backend_->MeanSquaredError(Wild(0, 4), Wild(0, 4), 2, Matrix(), &totals_).ok());
  EXPECT_TRUE(backend_->SigmoidCrossEntropy(Wild(0, 4), Wild(0, 4), 2, Matrix(), &totals_).ok());
  EXPECT_TRUE(backend_->CountCorrect(Wild(0, 4), WildLabels(0), &totals_).ok());
  EXPECT_EQ(totals_.loss, 0);
  EXPECT_EQ(totals_.correct, 0u);
}

TEST_F(BackendTest, BuffersAreAlignedAndMove) {
  auto buffer = backend_->Allocate(100);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
  void* const memory = buffer->data();
  Buffer other = std::move(*buffer);
  EXPECT_EQ(other.data(), memory);
  other = Buffer();
  EXPECT_EQ(other.data(), nullptr);
  EXPECT_EQ(backend_->Allocate(0)->data(), nullptr);
}

TEST_F(BackendTest, TooMuchMemoryIsAStatus) {
  EXPECT_EQ(backend_->Allocate(size_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BackendTest, SaysWhatItComputesWith) { EXPECT_NE(backend_->name().find("oneDNN 2."), std::string::npos); }

}  // namespace
}  // namespace downpour
