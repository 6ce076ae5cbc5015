// What benchmarks hold a real GPU against can be measured: every path of a copy, and products in every precision.
#include <gtest/gtest.h>

#include "tensor/cuda_module.h"

namespace downpour {
namespace {

TEST(CudaCeilingsTest, EveryPathAndPrecisionIsTimed) {
  const CudaModule& module = *LoadCudaModule().value();
  for (const CopyPath path : {CopyPath::kOnDevice, CopyPath::kToDevice, CopyPath::kToHost}) {
    const absl::StatusOr<double> seconds = module.time_copy(0, path, size_t{1} << 20, 2);
    ASSERT_TRUE(seconds.ok()) << seconds.status();
    EXPECT_GT(*seconds, 0);
  }
  const ProductShape shape{Transpose::kPlain, Transpose::kTransposed, 128, 64, 32};
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    const absl::StatusOr<double> seconds = module.time_products(0, precision, {shape}, 2);
    ASSERT_TRUE(seconds.ok()) << seconds.status();
    EXPECT_GT(*seconds, 0);
  }
}

}  // namespace
}  // namespace downpour
