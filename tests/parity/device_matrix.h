// A matrix in a backend's memory with sentinels before it, behind it and between its rows.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tensor/backend.h"

namespace downpour {

// What a test computes with: row-major, without gaps.
struct Numbers {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;

  Numbers(int64_t rows_in, int64_t cols_in) : rows(rows_in), cols(cols_in), values(rows_in * cols_in) {}
  double& at(int64_t r, int64_t c) { return values[r * cols + c]; }
  double at(int64_t r, int64_t c) const { return values[r * cols + c]; }
};

// Each the nearest bfloat16.
inline Numbers RoundedToBf16(Numbers numbers) {
  for (double& v : numbers.values) {
    float number = static_cast<float>(v);
    Bf16 half;
    RoundToBf16({&number, 1}, &half);
    WidenBf16({&half, 1}, &number);
    v = number;
  }
  return numbers;
}

class Random {
 public:
  // `rounded`: matrices of numbers that are bfloat16.
  explicit Random(uint32_t seed, bool rounded = false) : state_(seed), rounded_(rounded) {}
  uint32_t Next() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }
  int64_t Between(int64_t low, int64_t high) { return low + Next() % (high - low + 1); }
  float Symmetric() { return static_cast<float>(Next()) * 0x1p-23f - 1.0f; }  // in [-1, 1)
  Numbers Matrix(int64_t rows, int64_t cols, float scale = 1) {
    Numbers numbers(rows, cols);
    for (double& v : numbers.values) v = scale * Symmetric();
    return rounded_ ? RoundedToBf16(std::move(numbers)) : numbers;
  }
  std::vector<int32_t> Labels(int64_t count, int64_t classes) {
    std::vector<int32_t> labels(count);
    for (int32_t& label : labels) label = static_cast<int32_t>(Between(0, classes - 1));
    return labels;
  }

 private:
  uint32_t state_;
  bool rounded_;
};

class DeviceMatrix {
 public:
  // `gap` floats lie between two rows.
  DeviceMatrix(Backend& backend, const Numbers& numbers, int64_t gap = 0, FloatFormat format = FloatFormat::kFactor)
      : backend_(backend),
        rows_(numbers.rows),
        cols_(numbers.cols),
        stride_(numbers.cols + gap),
        image_(rows_ * stride_ + 2 * kGuard, kSentinel) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) image_[Index(r, c)] = static_cast<float>(numbers.at(r, c));
    }
    auto memory = backend_.Allocate(image_.size() * sizeof(float), format);
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = std::move(*memory);
    EXPECT_TRUE(backend_.Upload(image_.data(), image_.size() * sizeof(float), memory_.data()).ok());
  }

  Matrix view() { return {static_cast<float*>(memory_.data()) + kGuard, rows_, cols_, stride_}; }

  absl::Span<float> vector() { return {view().data, static_cast<size_t>(cols_)}; }  // of one row, of kFp32

  // Fails the test where a sentinel has changed.
  Numbers Read() {
    const size_t bytes = image_.size() * sizeof(float);
    const std::shared_ptr<void> host = backend_.AllocateHost(bytes).value();
    const Buffer floats = backend_.Allocate(bytes).value();
    const int64_t count = static_cast<int64_t>(image_.size());
    EXPECT_TRUE(backend_
                    .Copy(Matrix(static_cast<float*>(memory_.data()), 1, count),
                          Matrix(static_cast<float*>(floats.data()), 1, count))
                    .ok());
    EXPECT_TRUE(backend_.Download(floats.data(), bytes, host.get()).ok());
    EXPECT_TRUE(backend_.Synchronize().ok());
    std::vector<float> now(image_.size());
    std::memcpy(now.data(), host.get(), bytes);
    Numbers numbers(rows_, cols_);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) {
        numbers.at(r, c) = now[Index(r, c)];
        now[Index(r, c)] = kSentinel;
      }
    }
    for (size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i], kSentinel) << "written outside, at " << i;
    return numbers;
  }

 private:
  static constexpr int64_t kGuard = 16;
  static constexpr float kSentinel = 12352;  // a bfloat16
  size_t Index(int64_t r, int64_t c) const { return static_cast<size_t>(kGuard + r * stride_ + c); }

  Backend& backend_;
  int64_t rows_;
  int64_t cols_;
  int64_t stride_;
  std::vector<float> image_;
  Buffer memory_;
};

// |got - want| <= tolerance * magnitude, element by element; `magnitude` is the sum of the magnitudes that went into
// it.
inline void ExpectClose(const Numbers& got, const Numbers& want, double tolerance, const Numbers& magnitude) {
  ASSERT_EQ(got.values.size(), want.values.size());
  for (size_t i = 0; i < got.values.size(); ++i) {
    ASSERT_LE(std::fabs(got.values[i] - want.values[i]), tolerance * magnitude.values[i] + 1e-37)
        << "element " << i << ": " << got.values[i] << " for " << want.values[i];
  }
}

}  // namespace downpour
