// Every operation of every backend against a naive one in double precision, on random odd shapes. All matrices lie in
// memory of kFactor, so where that is rounded their numbers are such, and each tolerance has a rounding to it on top.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/parity/parity_fixture.h"

namespace downpour {
namespace {

INSTANTIATE_TEST_SUITE_P(Devices, BackendParityTest, testing::ValuesIn(DevicesUnderTest()), NameOfDevice);

// Tolerance: of the sum of |a| |b|, whatever the order of summation: 4 roundings, and those of both factors. The result
// may be kept with all bits, as gradients are, also where its factors are rounded.
TEST_P(BackendParityTest, Gemm) {
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t m = random_.Between(1, 70), n = random_.Between(1, 70), k = random_.Between(1, 130);
    const bool transposed_a = random_.Between(0, 1), transposed_b = random_.Between(0, 1);
    const float beta = std::vector<float>{0, 1, 0.5f}[random_.Between(0, 2)];
    const FloatFormat format = trial % 2 == 0 ? FloatFormat::kFactor : FloatFormat::kFp32;
    const double tolerance =
        4 * kRounding + 2.01 * GetParam().factor_rounding + (format == FloatFormat::kFactor ? storage_rounding_ : 0);
    const Numbers a = transposed_a ? random_.Matrix(k, m) : random_.Matrix(m, k);
    const Numbers b = transposed_b ? random_.Matrix(n, k) : random_.Matrix(k, n);
    const Numbers before = random_.Matrix(m, n);
    DeviceMatrix da(*backend_, a, random_.Between(0, 3)), db(*backend_, b, random_.Between(0, 3));
    DeviceMatrix dc = beta == 0 ? Unset(m, n, trial % 3, format) : DeviceMatrix(*backend_, before, trial % 3, format);
    ASSERT_TRUE(backend_
                    ->Gemm(transposed_a ? Transpose::kTransposed : Transpose::kPlain,
                           transposed_b ? Transpose::kTransposed : Transpose::kPlain, da.view(), db.view(), beta,
                           dc.view())
                    .ok());
    Numbers want(m, n), magnitude(m, n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = beta * before.at(i, j), size = std::fabs(sum);
        for (int64_t l = 0; l < k; ++l) {
          const double product = (transposed_a ? a.at(l, i) : a.at(i, l)) * (transposed_b ? b.at(j, l) : b.at(l, j));
          sum += product;
          size += std::fabs(product);
        }
        want.at(i, j) = sum;
        magnitude.at(i, j) = size;
      }
    }
    ExpectClose(dc.Read(), want, tolerance, magnitude);
  }
}

TEST_P(BackendParityTest, AddBiasIsOneRounding) {
  for (int trial = 0; trial < 30; ++trial) {
    const int64_t rows = random_.Between(0, 9), cols = random_.Between(1, 70);
    const Numbers x = random_.Matrix(rows, cols), bias = random_.Matrix(1, cols);
    DeviceMatrix dx(*backend_, x, trial % 3), db = Vector(bias);
    ASSERT_TRUE(backend_->AddBias(db.vector(), dx.view()).ok());
    Numbers want = x;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) want.at(r, c) = static_cast<float>(x.at(r, c) + bias.at(0, c));
    }
    EXPECT_EQ(dx.Read().values, Stored(want).values);
  }
}

// Tolerance: a rounding per row, and one for what was there, of the sum of magnitudes.
TEST_P(BackendParityTest, SumRows) {
  for (int trial = 0; trial < 30; ++trial) {
    const int64_t rows = random_.Between(0, trial % 5 == 4 ? 700 : 70), cols = random_.Between(1, 70);
    const Numbers x = random_.Matrix(rows, cols), before = random_.Matrix(1, cols);
    const float beta = std::vector<float>{0, 1, 0.5f}[trial % 3];
    DeviceMatrix dx(*backend_, x, trial % 3);
    DeviceMatrix sums = beta == 0 ? Unset(1, cols, 0, FloatFormat::kFp32) : Vector(before);
    ASSERT_TRUE(backend_->SumRows(dx.view(), beta, sums.vector()).ok());
    Numbers want = before;
    for (double& v : want.values) v *= beta;
    Numbers magnitude = want;
    for (double& v : magnitude.values) v = std::fabs(v);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        want.at(0, c) += x.at(r, c);
        magnitude.at(0, c) += std::fabs(x.at(r, c));
      }
    }
    ExpectClose(sums.Read(), want, static_cast<double>(rows + 1) * kRounding, magnitude);
  }
}

double Value(ActivationFunction f, double x) {
  switch (f) {
    case ActivationFunction::kRelu:
      return std::max(x, 0.0);
    case ActivationFunction::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationFunction::kTanh:
      return std::tanh(x);
  }
  return 0;
}

// Tolerance: 8 roundings, over the whole range of floats; apart and in place.
TEST_P(BackendParityTest, Activate) {
  for (ActivationFunction f : kFunctions) {
    for (int trial = 0; trial < 30; ++trial) {
      const int64_t rows = random_.Between(0, 9), cols = random_.Between(1, 70);
      Numbers x = random_.Matrix(rows, cols, trial % 2 ? 3.0f : 200.0f);
      if (rows > 0 && trial % 5 == 0) x.at(0, 0) = 0x1.c2p127 * (trial % 2 ? 1 : -1);
      DeviceMatrix dx(*backend_, x, trial % 3), dy = Unset(rows, cols, trial % 2);
      ASSERT_TRUE(backend_->Activate(f, dx.view(), dy.view()).ok());
      Numbers want = x;
      for (double& v : want.values) v = Value(f, v);
      ExpectClose(
          dy.Read(), want, 8 * kRounding + storage_rounding_, want.values.empty() ? want : [&] {
            Numbers magnitude = want;
            for (double& v : magnitude.values) v = std::fabs(v);
            return magnitude;
          }());
      ASSERT_TRUE(backend_->Activate(f, dx.view(), dx.view()).ok());
      EXPECT_EQ(dx.Read().values, dy.Read().values);
    }
  }
}

TEST_P(BackendParityTest, ActivateKeepsNan) {
  for (ActivationFunction f : kFunctions) {
    for (int64_t cols : {1, 40}) {
      DeviceMatrix x = Unset(2, cols);
      ASSERT_TRUE(backend_->Activate(f, x.view(), x.view()).ok());
      for (double v : x.Read().values) EXPECT_TRUE(std::isnan(v));
    }
  }
}

// Tolerance: 8 roundings of |dy|.
TEST_P(BackendParityTest, ActivateBackward) {
  for (ActivationFunction f : kFunctions) {
    for (int trial = 0; trial < 30; ++trial) {
      const int64_t rows = random_.Between(0, 9), cols = random_.Between(1, 70);
      const Numbers y = random_.Matrix(rows, cols), dy = random_.Matrix(rows, cols);
      DeviceMatrix device_y(*backend_, y, trial % 2), device_dy(*backend_, dy, trial % 3), dx = Unset(rows, cols);
      ASSERT_TRUE(backend_->ActivateBackward(f, device_y.view(), device_dy.view(), dx.view()).ok());
      Numbers want(rows, cols), magnitude(rows, cols);
      for (size_t i = 0; i < want.values.size(); ++i) {
        const double out = y.values[i];
        const double slope = f == ActivationFunction::kRelu      ? (out > 0 ? 1 : 0)
                             : f == ActivationFunction::kSigmoid ? out * (1 - out)
                                                                 : 1 - out * out;
        want.values[i] = dy.values[i] * slope;
        magnitude.values[i] = 2 * std::fabs(dy.values[i]);
      }
      ExpectClose(dx.Read(), want, 8 * kRounding + storage_rounding_, magnitude);
      ASSERT_TRUE(backend_->ActivateBackward(f, device_y.view(), device_dy.view(), device_dy.view()).ok());
      EXPECT_EQ(device_dy.Read().values, dx.Read().values);
    }
  }
}

// Tolerance: 4 roundings; apart, in place, and added to what is there.
TEST_P(BackendParityTest, Multiply) {
  for (int trial = 0; trial < 30; ++trial) {
    const int64_t rows = random_.Between(0, 9), cols = random_.Between(1, 70);
    const Numbers a = random_.Matrix(rows, cols), b = random_.Matrix(rows, cols), y = random_.Matrix(rows, cols);
    DeviceMatrix da(*backend_, a, trial % 2), db(*backend_, b, trial % 3), apart = Unset(rows, cols, trial % 5);
    DeviceMatrix added(*backend_, y, trial % 4);
    ASSERT_TRUE(backend_->Multiply(da.view(), db.view(), 0, apart.view()).ok());
    ASSERT_TRUE(backend_->Multiply(da.view(), db.view(), 1, added.view()).ok());
    Numbers want(rows, cols), sum(rows, cols), magnitude(rows, cols);
    for (size_t i = 0; i < want.values.size(); ++i) {
      want.values[i] = a.values[i] * b.values[i];
      sum.values[i] = want.values[i] + y.values[i];
      magnitude.values[i] = std::fabs(want.values[i]) + std::fabs(y.values[i]);
    }
    ExpectClose(apart.Read(), want, 4 * kRounding + storage_rounding_, magnitude);
    ExpectClose(added.Read(), sum, 4 * kRounding + storage_rounding_, magnitude);
    ASSERT_TRUE(backend_->Multiply(da.view(), db.view(), 0, da.view()).ok());
    EXPECT_EQ(da.Read().values, apart.Read().values);
  }
}

// Tolerance: as many roundings as a sum has terms, and 4.
TEST_P(BackendParityTest, PairDots) {
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t rows = trial == 0 ? 300 : random_.Between(0, 9);
    const int64_t n = trial == 39 ? 128 : random_.Between(2, 30), width = trial % 3 ? random_.Between(1, 40) : 16;
    const int64_t pairs = n * (n - 1) / 2;
    const Numbers x = random_.Matrix(rows, n * width), dy = random_.Matrix(rows, pairs);
    const Numbers before = random_.Matrix(rows, n * width);
    DeviceMatrix dx(*backend_, x, trial % 2), given(*backend_, dy, trial % 3), y = Unset(rows, pairs, trial % 4);
    DeviceMatrix fresh = Unset(rows, n * width, trial % 5), added(*backend_, before, trial % 2);
    ASSERT_TRUE(backend_->PairDots(dx.view(), y.view()).ok());
    ASSERT_TRUE(backend_->PairDotsBackward(dx.view(), given.view(), 0, fresh.view()).ok());
    ASSERT_TRUE(backend_->PairDotsBackward(dx.view(), given.view(), 1, added.view()).ok());
    Numbers dots(rows, pairs), dots_size(rows, pairs), slope(rows, n * width), slope_size(rows, n * width);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t pair = 0;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j, ++pair) {
          for (int64_t k = 0; k < width; ++k) {
            const double a = x.at(r, i * width + k), b = x.at(r, j * width + k), g = dy.at(r, pair);
            dots.at(r, pair) += a * b;
            dots_size.at(r, pair) += std::fabs(a * b);
            slope.at(r, i * width + k) += g * b;
            slope.at(r, j * width + k) += g * a;
            slope_size.at(r, i * width + k) += std::fabs(g * b);
            slope_size.at(r, j * width + k) += std::fabs(g * a);
          }
        }
      }
    }
    ExpectClose(y.Read(), dots, static_cast<double>(width + 4) * kRounding + storage_rounding_, dots_size);
    const double tolerance = static_cast<double>(n + 4) * kRounding + storage_rounding_;
    ExpectClose(fresh.Read(), slope, tolerance, slope_size);
    for (size_t i = 0; i < slope.values.size(); ++i) {
      slope.values[i] += before.values[i];
      slope_size.values[i] += std::fabs(before.values[i]);
    }
    ExpectClose(added.Read(), slope, tolerance, slope_size);
  }
}

struct Words {
  uint32_t x0, x1;
};
// Threefry-2x32 with 13 rounds, written down from the paper.
Words Threefry(uint64_t seed, uint32_t c0, uint32_t c1) {
  const uint32_t key[3] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                           static_cast<uint32_t>(seed) ^ static_cast<uint32_t>(seed >> 32) ^ 0x1BD11BDA};
  const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  Words w{c0 + key[0], c1 + key[1]};
  for (uint32_t round = 0; round < 13; ++round) {
    w.x0 += w.x1;
    w.x1 = (w.x1 << rotations[round % 8] | w.x1 >> (32 - rotations[round % 8])) ^ w.x0;
    const uint32_t fours = (round + 1) / 4;
    if (round % 4 == 3) w = {w.x0 + key[fours % 3], w.x1 + key[(fours + 1) % 3] + fours};
  }
  return w;
}

// The known answers that the paper's authors publish with their library.
TEST(ThreefryTest, KnownAnswers) {
  const Words zeros = Threefry(0, 0, 0);
  EXPECT_EQ(zeros.x0, 0x9d1c5ec6u);
  EXPECT_EQ(zeros.x1, 0x8bd50731u);
  const Words pi = Threefry(0x0370734413198a2e, 0x243f6a88, 0x85a308d3);
  EXPECT_EQ(pi.x0, 0xba3e4725u);
  EXPECT_EQ(pi.x1, 0xf27d669eu);
}

// Exact: the same mask on every device, whatever the width of its vectors.
TEST_P(BackendParityTest, Dropout) {
  for (int trial = 0; trial < 70; ++trial) {
    const bool sixteens = trial >= 60, many = trial == 60 || trial == 66, wide = trial == 67;
    const int64_t rows = many ? 5000 : wide ? 1 : random_.Between(0, 9);
    const int64_t cols = many   ? (trial == 60 ? 3 : 16)
                         : wide ? (1 << 21) + 301
                                : random_.Between(1, 140) * (sixteens ? 16 : 1);
    const uint64_t seed = 0x123456789abcdef0u * static_cast<uint64_t>(trial);
    const Buffer memory = UploadSeed(seed);
    const DropoutMask mask{static_cast<const uint64_t*>(memory.data()), trial % 11 / 11.0};
    const Numbers x = random_.Matrix(rows, cols);
    DeviceMatrix dx(*backend_, x, trial % 3), dy = Unset(rows, cols, trial % 2);
    ASSERT_TRUE(backend_->Dropout(mask, dx.view(), dy.view()).ok());
    Numbers want(rows, cols);
    const int64_t quarter = cols / 4 + (cols % 4 != 0);
    const double steps = std::floor(mask.rate * 65536);  // of the rate
    const float scale = static_cast<float>(1 / (1 - steps / 65536));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const Words w = Threefry(seed, static_cast<uint32_t>(r), static_cast<uint32_t>(c % quarter));
        const uint32_t bits[4] = {w.x0 % 65536, w.x0 / 65536, w.x1 % 65536, w.x1 / 65536};
        const bool dropped = bits[c / quarter] < steps;
        want.at(r, c) = dropped ? 0 : static_cast<float>(x.at(r, c)) * scale;
      }
    }
    EXPECT_EQ(dy.Read().values, Stored(want).values);
    ASSERT_TRUE(backend_->Dropout(mask, dx.view(), dx.view()).ok());
    EXPECT_EQ(dx.Read().values, Stored(want).values);
  }
}

TEST_P(BackendParityTest, DropoutKeepsTheMeanAndDrawsApart) {
  const int64_t rows = 100, cols = 1001;
  Numbers ones(rows, cols);
  std::fill(ones.values.begin(), ones.values.end(), 1.0);
  DeviceMatrix x(*backend_, ones);
  for (double rate : {0.1, 0.5, 0.9}) {
    std::vector<std::vector<double>> draws;
    for (uint64_t seed : {1, 2}) {
      DeviceMatrix y = Unset(rows, cols);
      const Buffer memory = UploadSeed(seed);
      ASSERT_TRUE(backend_->Dropout({static_cast<const uint64_t*>(memory.data()), rate}, x.view(), y.view()).ok());
      draws.push_back(y.Read().values);
      double sum = 0;
      for (double v : draws.back()) sum += v;
      const double n = static_cast<double>(rows * cols);
      EXPECT_NEAR(sum / n, 1.0, 5 * std::sqrt(rate / (1 - rate) / n) + storage_rounding_);
    }
    EXPECT_NE(draws[0], draws[1]);
    EXPECT_NE(std::vector<double>(draws[0].begin(), draws[0].begin() + cols),
              std::vector<double>(draws[0].begin() + cols, draws[0].begin() + 2 * cols));
  }
}

// Exact, of every byte there is.
TEST_P(BackendParityTest, WidenBytes) {
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t rows = random_.Between(0, 9), cols = trial % 4 == 0 ? 256 : random_.Between(1, 140);
    const int64_t first = trial % 3, stride = cols + trial % 5;
    const float divisor = std::vector<float>{255, 1, 3}[trial % 3];
    std::vector<uint8_t> bytes(static_cast<size_t>(first + rows * stride));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i + trial);
    const Buffer memory = std::move(*backend_->Allocate(bytes.size()));
    ASSERT_TRUE(backend_->Upload(bytes.data(), bytes.size(), memory.data()).ok());
    const ConstByteMatrix view(static_cast<const uint8_t*>(memory.data()) + first, rows, cols, stride);
    DeviceMatrix to = Unset(rows, cols, trial % 2);
    ASSERT_TRUE(backend_->WidenBytes(view, divisor, to.view()).ok());
    Numbers want(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        want.at(r, c) = static_cast<float>(bytes[static_cast<size_t>(first + r * stride + c)]) / divisor;
      }
    }
    EXPECT_EQ(to.Read().values, Stored(want).values);
  }
}

TEST_P(BackendParityTest, CopyAndAccumulate) {
  for (int trial = 0; trial < 30; ++trial) {
    const int64_t rows = random_.Between(0, 9), cols = random_.Between(1, 70);
    const Numbers from = random_.Matrix(rows, cols), to = random_.Matrix(rows, cols);
    DeviceMatrix a(*backend_, from, trial % 2), b(*backend_, to, trial % 3), c = Unset(rows, cols, trial % 3);
    ASSERT_TRUE(backend_->Accumulate(a.view(), b.view()).ok());
    ASSERT_TRUE(backend_->Copy(a.view(), c.view()).ok());
    Numbers sum = to;
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] = static_cast<float>(static_cast<float>(from.values[i]) + static_cast<float>(to.values[i]));
    }
    EXPECT_EQ(b.Read().values, Stored(sum).values);
    EXPECT_EQ(c.Read().values, a.Read().values);
  }
}

// Tolerance: gradient 16 roundings of 1 / examples; loss 16 roundings of rows times the largest logit.
TEST_P(BackendParityTest, SoftmaxCrossEntropy) {
  for (int trial = 0; trial < 60; ++trial) {
    const auto [rows, cols] = RowsAndClasses(trial);
    const int64_t examples = rows + trial % 2 * random_.Between(0, 50);
    const float scale = std::vector<float>{1, 10, 10000}[trial % 3];
    const Numbers logits = random_.Matrix(rows, cols, scale);
    std::vector<int32_t> labels = random_.Labels(rows, cols);
    labels[0] = static_cast<int32_t>(cols - 1);
    const Buffer memory = UploadLabels(labels);
    DeviceMatrix x(*backend_, logits, trial % 3), dx = Unset(rows, cols, trial % 2);
    RowWeights weights = WeightsOf(trial, rows);
    const auto run = [&](Matrix gradient) {
      return Totals([&](BatchTotals* totals) {
        return backend_->SoftmaxCrossEntropy(x.view(), LabelView(memory, labels.size()), weights.mean(examples),
                                             gradient, totals);
      });
    };
    const BatchTotals totals = run(dx.view());
    double loss = 0;
    Numbers want(rows, cols), magnitude(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      double largest = logits.at(r, 0), sum = 0;
      for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, logits.at(r, c));
      for (int64_t c = 0; c < cols; ++c) sum += std::exp(logits.at(r, c) - largest);
      loss += weights.at(r) * (std::log(sum) + largest - logits.at(r, labels[r]));
      for (int64_t c = 0; c < cols; ++c) {
        const double share = std::exp(logits.at(r, c) - largest) / sum;
        want.at(r, c) = weights.at(r) * (share - (c == labels[r] ? 1 : 0)) / static_cast<double>(examples);
        magnitude.at(r, c) = weights.at(r) / static_cast<double>(examples);
      }
    }
    EXPECT_NEAR(totals.loss, loss, 16 * kRounding * static_cast<double>(rows) * scale);
    ExpectClose(dx.Read(), want, 16 * kRounding + storage_rounding_, magnitude);
    EXPECT_EQ(run(Matrix()).loss, totals.loss);
    EXPECT_EQ(run(x.view()).loss, totals.loss);  // in place
    EXPECT_EQ(x.Read().values, dx.Read().values);
  }
}

TEST_P(BackendParityTest, SoftmaxCrossEntropyShowsNan) {
  for (int64_t cols : {3, 40}) {
    for (int64_t at = 0; at < cols; ++at) {
      Numbers logits = random_.Matrix(1, cols);
      logits.at(0, at) = kNan;
      DeviceMatrix x(*backend_, logits), dx = Unset(1, cols);
      const Buffer labels = UploadLabels({1});
      const BatchTotals totals = Totals([&](BatchTotals* sums) {
        return backend_->SoftmaxCrossEntropy(x.view(), LabelView(labels, 1), 1, dx.view(), sums);
      });
      EXPECT_TRUE(std::isnan(totals.loss)) << at;
      for (double v : dx.Read().values) EXPECT_TRUE(std::isnan(v)) << at;
    }
  }
}

// Of logits so large that exp overflows, too. Tolerance: 8 roundings of what is subtracted.
TEST_P(BackendParityTest, SigmoidCrossEntropy) {
  for (int trial = 0; trial < 30; ++trial) {
    const auto [rows, cols] = RowsAndClasses(trial);
    const int64_t examples = rows + trial % 2 * random_.Between(0, 50);
    Numbers logits = random_.Matrix(rows, cols);
    Numbers targets(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        targets.at(r, c) = static_cast<double>(random_.Between(0, 1));
        if (trial % 3 == 0) logits.at(r, c) *= 64;
      }
    }
    DeviceMatrix x(*backend_, logits, trial % 2), t(*backend_, targets, trial % 3), dx = Unset(rows, cols);
    RowWeights weights = WeightsOf(trial, rows);
    const auto run = [&](Matrix gradient) {
      return Totals([&](BatchTotals* totals) {
        return backend_->SigmoidCrossEntropy(x.view(), t.view(), weights.mean(examples), gradient, totals);
      });
    };
    const BatchTotals totals = run(dx.view());
    double loss = 0, size = 0;
    Numbers want(rows, cols), magnitude(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const double z = logits.at(r, c), target = targets.at(r, c), part = weights.at(r) / static_cast<double>(cols);
        loss += part * (std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::fabs(z))));
        size += part * (1 + std::fabs(z));
        want.at(r, c) = part * (1 / (1 + std::exp(-z)) - target) / static_cast<double>(examples);
        magnitude.at(r, c) = part / static_cast<double>(examples);
      }
    }
    EXPECT_NEAR(totals.loss, loss, 8 * kRounding * size);
    EXPECT_EQ(run(Matrix()).loss, totals.loss);
    ExpectClose(dx.Read(), want, 8 * kRounding + storage_rounding_, magnitude);
  }
}

// Tolerance: 4 roundings, and one of the weight's product.
TEST_P(BackendParityTest, MeanSquaredError) {
  for (int trial = 0; trial < 30; ++trial) {
    const auto [rows, cols] = RowsAndClasses(trial);
    const int64_t examples = rows + trial % 2 * random_.Between(0, 50);
    const Numbers outputs = random_.Matrix(rows, cols), targets = random_.Matrix(rows, cols);
    DeviceMatrix x(*backend_, outputs, trial % 2), t(*backend_, targets, trial % 3), dx = Unset(rows, cols);
    RowWeights weights = WeightsOf(trial, rows);
    const auto run = [&](Matrix gradient) {
      return Totals([&](BatchTotals* totals) {
        return backend_->MeanSquaredError(x.view(), t.view(), weights.mean(examples), gradient, totals);
      });
    };
    const BatchTotals totals = run(dx.view());
    double loss = 0;
    Numbers want(rows, cols), magnitude(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const double error = outputs.at(r, c) - targets.at(r, c);
        const double part = weights.at(r) / static_cast<double>(cols);
        loss += part * error * error;
        want.at(r, c) = 2 * part * error / static_cast<double>(examples);
        magnitude.at(r, c) = std::fabs(want.at(r, c));
      }
    }
    EXPECT_NEAR(totals.loss, loss, 4 * kRounding * loss);
    ExpectClose(dx.Read(), want, 5 * kRounding + storage_rounding_, magnitude);
    EXPECT_EQ(run(Matrix()).loss, totals.loss);
    EXPECT_EQ(run(x.view()).loss, totals.loss);  // in place
    EXPECT_EQ(x.Read().values, dx.Read().values);
  }
}

TEST_P(BackendParityTest, CountCorrect) {
  Numbers outputs(4, 3);
  outputs.values = {1, 3, 2, /**/ 5, 5, 1, /**/ -1, -2, -3, /**/ 0, 0, 7};
  DeviceMatrix x(*backend_, outputs, 2);
  const auto correct = [&](const std::vector<int32_t>& labels) {
    const Buffer memory = UploadLabels(labels);
    return Totals([&](BatchTotals* totals) {
             return backend_->CountCorrect(x.view().Rows(static_cast<int64_t>(labels.size())),
                                           LabelView(memory, labels.size()), totals);
           })
        .correct;
  };
  EXPECT_EQ(correct({1, 0, 0, 2}), 4u);
  EXPECT_EQ(correct({0, 1, 0, 2}), 2u);  // the first of equals wins
  EXPECT_EQ(correct({2, 2, 2}), 0u);

  Numbers single(3, 1);
  single.values = {0.4, 0.6, 7.3};
  DeviceMatrix y = Vector(single);
  const Buffer labels = UploadLabels({0, 0, 7});
  EXPECT_EQ(Totals([&](BatchTotals* totals) {
              return backend_->CountCorrect(y.view(), LabelView(labels, 3), totals);
            }).correct,
            2u);
}

}  // namespace
}  // namespace downpour
