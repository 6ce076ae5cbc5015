// A context that a real GPU has lost: a kernel reads far beyond its memory, and CUDA answers nothing but errors then.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/parity/device_matrix.h"
#include "tests/parity/devices.h"

namespace downpour {
namespace {

// Exits with 0 if whatever is asked after the loss is answered by an error of one line, and if leaving is not a crash.
[[noreturn]] void LoseTheContext() {
  bool well = true;
  {
    const std::unique_ptr<Backend> backend = DevicesUnderTest().front().open();
    const auto fails = [&](const absl::Status& status) {
      const std::string said(status.message());
      std::fprintf(stderr, "%s\n", said.c_str());
      well = well && !status.ok() && !said.empty() && said.find('\n') == std::string::npos;
    };
    DeviceMatrix logits(*backend, Numbers(1, 4));
    const std::vector<int32_t> beyond = {1 << 30};  // 4 GiB on: the caller's promise is broken on purpose
    const Buffer labels = std::move(*backend->Allocate(sizeof(int32_t)));
    const Buffer totals = std::move(*backend->Allocate(sizeof(BatchTotals)));
    well = backend->Upload(beyond.data(), sizeof(int32_t), labels.data()).ok();
    (void)backend->SoftmaxCrossEntropy(logits.view(), {static_cast<const int32_t*>(labels.data()), 1}, 1,
                                       Matrix(nullptr, 0, 4), static_cast<BatchTotals*>(totals.data()));
    fails(backend->Synchronize());
    fails(backend->Upload(beyond.data(), sizeof(int32_t), labels.data()));
    fails(backend->Activate(ActivationFunction::kRelu, logits.view(), logits.view()));
    fails(backend->Gemm(Transpose::kPlain, Transpose::kTransposed, logits.view(), logits.view(), 0,
                        Matrix(static_cast<float*>(totals.data()), 1, 1)));
    fails(backend->Allocate(1024).status());
    fails(backend->Synchronize());
  }
  std::exit(well ? EXIT_SUCCESS : EXIT_FAILURE);
}

TEST(LostContextTest, EveryCallAfterItIsAnsweredByOneSentence) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fork alone would have a context that is of no use
  EXPECT_EXIT(LoseTheContext(), testing::ExitedWithCode(EXIT_SUCCESS), "cudaError");
}

}  // namespace
}  // namespace downpour
