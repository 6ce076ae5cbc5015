// Random operands in the memory of the backend under test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/parity/device_matrix.h"
#include "tests/parity/devices.h"

namespace downpour {

inline constexpr double kRounding = 0x1p-23;  // one rounding of a float, and a little
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr ActivationFunction kFunctions[] = {ActivationFunction::kRelu, ActivationFunction::kSigmoid,
                                                    ActivationFunction::kTanh};

class BackendParityTest : public testing::TestWithParam<DeviceCase> {
 protected:
  // A result's place, filled with what must not be read.
  DeviceMatrix Unset(int64_t rows, int64_t cols, int64_t gap = 0, FloatFormat format = FloatFormat::kFactor) {
    Numbers numbers(rows, cols);
    std::fill(numbers.values.begin(), numbers.values.end(), kNan);
    return DeviceMatrix(*backend_, numbers, gap, format);
  }
  DeviceMatrix Vector(const Numbers& numbers) { return DeviceMatrix(*backend_, numbers, 0, FloatFormat::kFp32); }

  // What memory of kFactor makes of results that are right.
  Numbers Stored(Numbers numbers) const { return rounds_ ? RoundedToBf16(std::move(numbers)) : numbers; }

  // Totals in the backend's memory, from zero.
  BatchTotals Totals(const std::function<absl::Status(BatchTotals*)>& operation) {
    Buffer memory = std::move(*backend_->Allocate(sizeof(BatchTotals)));
    const std::shared_ptr<void> host = backend_->AllocateHost(sizeof(BatchTotals)).value();
    const BatchTotals zero;
    EXPECT_TRUE(backend_->Upload(&zero, sizeof(zero), memory.data()).ok());
    const absl::Status status = operation(static_cast<BatchTotals*>(memory.data()));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(backend_->Download(memory.data(), sizeof(BatchTotals), host.get()).ok());
    EXPECT_TRUE(backend_->Synchronize().ok());
    return *static_cast<const BatchTotals*>(host.get());
  }

  Buffer UploadLabels(const std::vector<int32_t>& labels) {
    Buffer memory = std::move(*backend_->Allocate(labels.size() * sizeof(int32_t)));
    EXPECT_TRUE(backend_->Upload(labels.data(), labels.size() * sizeof(int32_t), memory.data()).ok());
    return memory;
  }
  Buffer UploadSeed(uint64_t seed) {
    Buffer memory = std::move(*backend_->Allocate(sizeof(seed)));
    EXPECT_TRUE(backend_->Upload(&seed, sizeof(seed), memory.data()).ok());
    return memory;
  }
  static absl::Span<const int32_t> LabelView(const Buffer& memory, size_t count) {
    return {static_cast<const int32_t*>(memory.data()), count};
  }

  // Of a loss: odd ones, those around the width of a warp, and more rows than a block has threads.
  std::pair<int64_t, int64_t> RowsAndClasses(int trial) {
    const std::vector<int64_t> widths = {1, 31, 32, 33, 1000};
    const int64_t rows = trial % 10 == 9 ? 300 : random_.Between(1, 20);
    return {rows, trial % 3 == 2 ? widths[static_cast<size_t>(trial) / 3 % widths.size()] : random_.Between(1, 70)};
  }

  // Of examples: in every third trial they have some, and among them a 0; else each is 1.
  struct RowWeights {
    bool are_some;
    Numbers numbers;
    DeviceMatrix memory;
    double at(int64_t row) const { return numbers.at(row, 0); }
    WeightedMean mean(int64_t examples) { return {examples, are_some ? memory.view().data : nullptr}; }
  };
  RowWeights WeightsOf(int trial, int64_t rows) {
    const bool are_some = trial % 3 == 1;
    Numbers numbers = are_some ? random_.Matrix(rows, 1) : Numbers(rows, 1);
    for (double& weight : numbers.values) weight = are_some ? std::fabs(weight) : 1;
    if (are_some && rows > 1) numbers.values[0] = 0;
    return {are_some, numbers, Vector(numbers)};
  }

  std::unique_ptr<Backend> backend_ = GetParam().open();
  const double storage_rounding_ = GetParam().storage_rounding;
  const bool rounds_ = storage_rounding_ > 0;
  Random random_{1, rounds_};
};

inline std::string NameOfDevice(const testing::TestParamInfo<DeviceCase>& device) { return device.param.name; }

}  // namespace downpour
