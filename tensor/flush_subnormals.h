// FlushSubnormals: while it lives, its thread takes numbers below 2^-126 for 0, as operands and as results.
//
//   const FlushSubnormals flush;
//
// Why: a CPU needs a hundred cycles or more for an operation on a subnormal number (Intel's optimization manual, on
//   FTZ and DAZ). A velocity whose gradients have become 0 shrinks to such numbers, and stays there for thousands of
//   updates. Squares of small gradients are such numbers too. Beside values none of them counts.
// Order: the same bits on every x86-64 CPU. Others that are told the same may take a result just below 2^-126 for 0
//   where x86-64 rounds it up. A CPU that knows no such mode computes as it does.
// Cost: some 10 ns.
// Tests: tests/unit/tensor/flush_subnormals_test.cc.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace downpour {

class FlushSubnormals {
 public:
  FlushSubnormals() : before_(Mode()) { SetMode(before_ | kFlush); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
  ~FlushSubnormals() { SetMode(before_); }

 private:
#if defined(__SSE2__)
  static constexpr uint64_t kFlush = 0x8040;  // FTZ and DAZ of MXCSR
  static uint64_t Mode() { return _mm_getcsr(); }
  static void SetMode(uint64_t mode) { _mm_setcsr(static_cast<uint32_t>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FZ of FPCR
  static uint64_t Mode() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void SetMode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kFlush = 0;
  static uint64_t Mode() { return 0; }
  static void SetMode(uint64_t) {}
#endif
  const uint64_t before_;
};

}  // namespace downpour
