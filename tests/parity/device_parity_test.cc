// What a device must keep beside the arithmetic: the order of operations and transfers, and the same bits for the same
// operations.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/parity/parity_fixture.h"

namespace downpour {
namespace {

class DeviceParityTest : public BackendParityTest {
 protected:
  static constexpr Transpose kPlain = Transpose::kPlain;

  static Numbers Identity(int64_t n) {
    Numbers numbers(n, n);
    for (int64_t i = 0; i < n; ++i) numbers.at(i, i) = 1;
    return numbers;
  }
  absl::Status Multiply(DeviceMatrix& a, DeviceMatrix& b, DeviceMatrix& c) {
    return backend_->Gemm(kPlain, kPlain, a.view(), b.view(), 0, c.view());
  }
  absl::Status Upload(const std::vector<float>& values, Matrix to) {
    return backend_->Upload(values.data(), values.size() * sizeof(float), to.data);
  }
  // Begins the upload of values, as memory of that format keeps them, out of memory that it returns.
  std::shared_ptr<void> BeginUpload(const std::vector<float>& values, FloatFormat format, void* to) {
    const bool rounded = backend_->keeps_rounded(format);
    const size_t bytes = values.size() * (rounded ? sizeof(Bf16) : sizeof(float));
    std::shared_ptr<void> host = backend_->AllocateHost(bytes).value();
    if (rounded) {
      RoundToBf16(values, static_cast<Bf16*>(host.get()));
    } else {
      std::memcpy(host.get(), values.data(), bytes);
    }
    EXPECT_TRUE(backend_->BeginUpload(host.get(), bytes, to).ok());
    return host;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceParityTest, testing::ValuesIn(DevicesUnderTest()), NameOfDevice);

// Whole tiles, for which libraries have kernels of their own. Tolerance: as for odd shapes.
TEST_P(DeviceParityTest, GemmOfWholeTiles) {
  const double tolerance = 4 * kRounding + 2.01 * GetParam().factor_rounding + storage_rounding_;
  const int64_t m = 128, n = 256, k = 192;
  const Numbers a = random_.Matrix(m, k), b = random_.Matrix(k, n);
  DeviceMatrix da(*backend_, a), db(*backend_, b), dc = Unset(m, n);
  ASSERT_TRUE(Multiply(da, db, dc).ok());
  Numbers want(m, n), magnitude(m, n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < n; ++j) {
        want.at(i, j) += a.at(i, l) * b.at(l, j);
        magnitude.at(i, j) += std::fabs(a.at(i, l) * b.at(l, j));
      }
    }
  }
  ExpectClose(dc.Read(), want, tolerance, magnitude);
}

// The same as the two steps with all bits between them, bit for bit, with and without gaps and on widths of every kind.
TEST_P(DeviceParityTest, AddBiasActivateIsBothSteps) {
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t rows = random_.Between(0, 9), cols = trial % 2 == 0 ? random_.Between(1, 70) : 64;
    const int64_t gap = trial % 4 == 3 ? 4 : trial % 3;
    const Numbers x = random_.Matrix(rows, cols), bias = random_.Matrix(1, cols);
    for (ActivationFunction f : kFunctions) {
      DeviceMatrix one(*backend_, x, gap), two = Unset(rows, cols, gap), db = Vector(bias);
      DeviceMatrix between(*backend_, x, gap, FloatFormat::kFp32);
      ASSERT_TRUE(backend_->AddBiasActivate(db.vector(), f, one.view()).ok());
      ASSERT_TRUE(backend_->AddBias(db.vector(), between.view()).ok());
      ASSERT_TRUE(backend_->Activate(f, between.view(), two.view()).ok());
      EXPECT_EQ(one.Read().values, two.Read().values);
    }
  }
}

TEST_P(DeviceParityTest, TheSameOperationsGiveTheSameBits) {
  const int64_t rows = 517, cols = 203;
  const Numbers x = random_.Matrix(rows, cols), w = random_.Matrix(cols, 70);
  const std::vector<int32_t> labels = random_.Labels(rows, cols);
  const Buffer label_memory = UploadLabels(labels);
  std::vector<std::vector<double>> results;
  for (int repeat = 0; repeat < 3; ++repeat) {
    DeviceMatrix dx(*backend_, x), dw(*backend_, w), product = Unset(rows, 70);
    DeviceMatrix sums = Unset(1, cols, 0, FloatFormat::kFp32);
    DeviceMatrix gradient = Unset(rows, cols);
    ASSERT_TRUE(Multiply(dx, dw, product).ok());
    ASSERT_TRUE(backend_->SumRows(dx.view(), 0, sums.vector()).ok());
    const BatchTotals totals = Totals([&](BatchTotals* t) {
      return backend_->SoftmaxCrossEntropy(dx.view(), LabelView(label_memory, labels.size()), 100, gradient.view(), t);
    });
    std::vector<double> all = product.Read().values;
    for (DeviceMatrix* m : {&sums, &gradient}) {
      const Numbers numbers = m->Read();
      all.insert(all.end(), numbers.values.begin(), numbers.values.end());
    }
    all.push_back(totals.loss);
    results.push_back(std::move(all));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// An upload comes after the operations before it and before those behind it; the host's memory may change at once.
TEST_P(DeviceParityTest, UploadsTakeTheirPlaceInTheQueue) {
  const int64_t n = 300;  // products that take a while, so that an upload could overtake them
  DeviceMatrix a(*backend_, Identity(n)), b(*backend_, Identity(n));
  std::vector<DeviceMatrix> results;
  std::vector<float> values(static_cast<size_t>(n * n));
  for (int round = 0; round < 20; ++round) {
    for (float& v : values) v = static_cast<float>(round);
    ASSERT_TRUE(Upload(values, a.view()).ok());
    results.push_back(Unset(n, n));
    ASSERT_TRUE(Multiply(a, b, results.back()).ok());
  }
  for (int round = 0; round < 20; ++round) {
    for (double v : results[static_cast<size_t>(round)].Read().values) ASSERT_EQ(v, round);
  }
}

// So does one that was begun; the host's memory may change once its last reader was awaited.
TEST_P(DeviceParityTest, UploadsThatWereBegunTakeTheirPlaceInTheQueue) {
  const int64_t n = 100;
  DeviceMatrix a(*backend_, Identity(n)), b(*backend_, Identity(n));
  std::vector<DeviceMatrix> results;  // made first: what waits for a later upload waits for those before it
  for (int round = 0; round < 20; ++round) results.push_back(Unset(n, n));
  std::vector<std::shared_ptr<void>> held;
  for (int round = 0; round < 20; ++round) {
    const std::vector<float> values(static_cast<size_t>(n * n), static_cast<float>(round));
    DeviceMatrix& result = results[static_cast<size_t>(round)];
    held.push_back(BeginUpload(values, FloatFormat::kFactor, a.view().data));
    ASSERT_TRUE(Multiply(a, b, result).ok());
    if (round % 4 != 3) continue;
    result.Read();
    for (const auto& memory : held) std::memset(memory.get(), 0xff, 100);
  }
  for (int round = 0; round < 20; ++round) {
    for (double v : results[static_cast<size_t>(round)].Read().values) ASSERT_EQ(v, round);
  }
}

// Also where it is larger than whatever an upload is staged in, and not a multiple of it. What is begun comes in two
// pieces, as slices do.
TEST_P(DeviceParityTest, UploadsOfEverySizeArrive) {
  for (size_t count : {size_t{1}, size_t{1000}, size_t{1} << 18, (size_t{1} << 18) + 1, size_t{5} << 20}) {
    for (FloatFormat format : {FloatFormat::kFp32, FloatFormat::kFactor}) {
      const Numbers numbers = random_.Matrix(1, static_cast<int64_t>(count));
      const std::vector<float> values(numbers.values.begin(), numbers.values.end());
      const std::shared_ptr<void> back = std::move(*backend_->AllocateHost(count * sizeof(float)));
      const Buffer begun = std::move(*backend_->Allocate(count * sizeof(float), format));
      const Buffer copied = std::move(*backend_->Allocate(count * sizeof(float), format));
      const Buffer floats = std::move(*backend_->Allocate(count * sizeof(float)));
      const auto row = [&](const Buffer& buffer) {
        return Matrix(static_cast<float*>(buffer.data()), 1, numbers.cols);
      };
      ASSERT_TRUE(backend_->Upload(values.data(), count * sizeof(float), copied.data()).ok());
      const auto cut = values.begin() + static_cast<ptrdiff_t>(count / 3);
      std::vector<std::shared_ptr<void>> held = {BeginUpload({cut, values.end()}, format, row(begun).data + count / 3)};
      if (count > 1) held.push_back(BeginUpload({values.begin(), cut}, format, begun.data()));
      for (const Buffer* memory : {&copied, &begun}) {
        ASSERT_TRUE(backend_->Copy(row(*memory), row(floats)).ok());
        ASSERT_TRUE(backend_->Download(floats.data(), count * sizeof(float), back.get()).ok());
        ASSERT_TRUE(backend_->Synchronize().ok());
        EXPECT_EQ(std::memcmp(values.data(), back.get(), count * sizeof(float)), 0) << count;
      }
    }
  }
}

// A product sees what changed one of its factors, whatever changed it: nothing computed from the old one is kept.
TEST_P(DeviceParityTest, ProductsSeeWhatChangedTheirFactors) {
  const int64_t n = 32;
  Numbers ones(n, n);
  std::fill(ones.values.begin(), ones.values.end(), 1.0);
  DeviceMatrix a(*backend_, ones), b(*backend_, ones), c = Unset(n, n);
  const auto product = [&] {
    EXPECT_TRUE(Multiply(a, b, c).ok());
    return c.Read().at(n - 1, n - 1) / static_cast<double>(n);
  };
  EXPECT_EQ(product(), 1);
  ASSERT_TRUE(backend_->Accumulate(b.view(), a.view()).ok());
  EXPECT_EQ(product(), 2);
  ASSERT_TRUE(Upload(std::vector<float>(static_cast<size_t>(n * n), 4.0f), a.view()).ok());
  EXPECT_EQ(product(), 4);
  ASSERT_TRUE(backend_->Copy(a.view(), b.view()).ok());
  EXPECT_EQ(product(), 16);
  ASSERT_TRUE(Multiply(a, b, c).ok());
  ASSERT_TRUE(backend_->Copy(c.view(), a.view()).ok());
  EXPECT_EQ(product(), 16 * 4 * n);
}

TEST_P(DeviceParityTest, DownloadsArriveInTheOrderInWhichTheyWereBegun) {
  constexpr size_t kCount = 100000;
  std::vector<Buffer> memory;
  std::vector<std::shared_ptr<void>> frames;
  for (int i = 0; i < 5; ++i) {
    memory.push_back(std::move(*backend_->Allocate(kCount * sizeof(float))));
    frames.push_back(*backend_->AllocateHost(kCount * sizeof(float)));
    const std::vector<float> values(kCount, static_cast<float>(i));
    ASSERT_TRUE(backend_->Upload(values.data(), kCount * sizeof(float), memory.back().data()).ok());
    ASSERT_TRUE(backend_->BeginDownload(memory.back().data(), kCount * sizeof(float), frames.back().get()).ok());
  }
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(backend_->AwaitDownload().ok());
    const float* values = static_cast<const float*>(frames[static_cast<size_t>(i)].get());
    EXPECT_EQ(values[0], static_cast<float>(i));
    EXPECT_EQ(values[kCount - 1], static_cast<float>(i));
  }
}

// Whatever a thread, or a GPU's driver, keeps for each of them.
TEST_P(DeviceParityTest, AnyThreadMayUseItNext) {
  const Numbers x = random_.Matrix(30, 40);
  DeviceMatrix here(*backend_, x), there = Unset(30, 40);
  std::thread([&] { EXPECT_TRUE(backend_->Copy(here.view(), there.view()).ok()); }).join();
  EXPECT_EQ(there.Read().values, here.Read().values);
}

TEST_P(DeviceParityTest, TooMuchMemoryIsAStatusAndNothingElseSuffers) {
  EXPECT_EQ(backend_->Allocate(size_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
  DeviceMatrix a(*backend_, random_.Matrix(3, 4)), b = Unset(3, 4);
  ASSERT_TRUE(backend_->Copy(a.view(), b.view()).ok());
  EXPECT_EQ(a.Read().values, b.Read().values);
}

}  // namespace
}  // namespace downpour
