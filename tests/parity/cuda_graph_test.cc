// Steps as CUDA graphs: that they become some, that nothing is lost where they cannot, and that the stand-in is as
// strict about captures as CUDA. That they give the same bits is model_parity_test.cc's.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/cuda_backend.h"
#include "tensor/cuda_memory.h"
#include "tensor/cuda_recording.h"
#include "tests/parity/cuda_stand_in.h"
#include "tests/unit/model/model_cases.h"

namespace downpour {
namespace {

ModelSpec TwoLayers() {
  return Model({Layer("a", {"x"}, Dense(4, Activation::kRelu)), Layer("d", {"a"}, DropoutSpec{0.5}),
                Layer("b", {"d"}, Dense(3))});
}

// Whatever is done while `stream` captures, nothing comes of the capture, and the stream goes on afterwards.
bool Spoils(const std::function<void(cudaStream_t, cudaStream_t)>& what) {
  const CudaStream stream = *MakeCudaStream(), other = *MakeCudaStream();
  EXPECT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  what(stream.get(), other.get());
  cudaGraph_t captured = nullptr;
  const bool spoilt = cudaStreamEndCapture(stream.get(), &captured) != cudaSuccess;
  const CudaGraph graph(captured);
  bool done = false;
  EXPECT_EQ(LaunchOnStandIn(stream.get(), [&] { done = true; }), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_TRUE(done);
  return spoilt;
}

TEST(CudaStandInTest, ACaptureDoesNotAllowWhatItCouldNotRepeat) {
  ResetCudaStandIn(1);
  cudaSetDevice(1);
  const CudaEvent event = *MakeCudaEvent();
  EXPECT_FALSE(Spoils([](cudaStream_t, cudaStream_t) {}));
  EXPECT_FALSE(Spoils([&](cudaStream_t stream, cudaStream_t) { cudaEventRecord(event.get(), stream); }));
  EXPECT_TRUE(Spoils([](cudaStream_t, cudaStream_t) { EXPECT_FALSE(MakeCudaMemory(8).ok()); }));
  EXPECT_TRUE(Spoils([](cudaStream_t, cudaStream_t) { EXPECT_FALSE(MakePinnedMemory(8).ok()); }));
  EXPECT_TRUE(Spoils([](cudaStream_t stream, cudaStream_t) { cudaStreamSynchronize(stream); }));
  EXPECT_TRUE(Spoils([](cudaStream_t, cudaStream_t) { cudaDeviceSynchronize(); }));
  EXPECT_TRUE(Spoils([](cudaStream_t, cudaStream_t) { cudaSetDevice(1); }));
  EXPECT_TRUE(Spoils([&](cudaStream_t stream, cudaStream_t other) {
    cudaEventRecord(event.get(), other);
    EXPECT_EQ(cudaStreamWaitEvent(stream, event.get(), 0), cudaErrorStreamCaptureIsolation);
  }));
  EXPECT_TRUE(Spoils([&](cudaStream_t stream, cudaStream_t other) {
    cudaEventRecord(event.get(), stream);
    EXPECT_EQ(cudaStreamWaitEvent(other, event.get(), 0), cudaErrorStreamCaptureUnjoined);
  }));
  EXPECT_TRUE(Spoils([&](cudaStream_t stream, cudaStream_t) {
    cudaEventRecord(event.get(), stream);
    EXPECT_EQ(cudaEventSynchronize(event.get()), cudaErrorCapturedEvent);
  }));
}

TEST(CudaStandInTest, ACaptureDoesNothingAndItsGraphAllOfItEachTime) {
  ResetCudaStandIn(1);
  cudaSetDevice(1);
  const CudaStream stream = *MakeCudaStream();
  int done = 0;
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(LaunchOnStandIn(stream.get(), [&] { ++done; }), cudaSuccess);
  cudaGraph_t captured = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &captured), cudaSuccess);
  const CudaGraph graph(captured);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, captured, 0), cudaSuccess);
  const CudaGraphExec owned(executable);
  ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(done, 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(executable, stream.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(done, 6);
}

TEST(CudaRecordingTest, ACaptureThatFailsLeavesItsStreamAsItWas) {
  ResetCudaStandIn(1);
  cudaSetDevice(1);
  const CudaStream stream = *MakeCudaStream();
  CudaRecording recording(stream.get());
  EXPECT_EQ(recording.Capture([] { return absl::UnavailableError("no"); }).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(recording.captured());
  bool done = false;
  EXPECT_EQ(LaunchOnStandIn(stream.get(), [&] { done = true; }), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_TRUE(done);
}

// Recordings may be of it.
TEST(CudaScratchTest, WhatWasGivenStaysWhereMoreIsWanted) {
  ResetCudaStandIn(1);
  cudaSetDevice(1);
  CudaScratch scratch;
  const double* const first = *scratch.Get(8);
  EXPECT_EQ(*scratch.Get(5), first);
  EXPECT_NE(*scratch.Get(100), first);
  EXPECT_TRUE(StandInHolds(first, 8 * sizeof(double), /*pinned=*/false));
}

struct Trained {
  std::vector<VariableGradients> gradients;
  absl::Status status;
};

// Steps of one full batch each, of which every second lies in the same place.
Trained TrainSteps(int steps, const CudaOptions& options = {}) {
  Trained trained;
  auto backend = MakeCudaBackend(1, options);
  if (!backend.ok()) return {{}, backend.status()};
  const ModelSpec model = TwoLayers();
  auto graph = Graph::Create(model, kMaxBatch, **backend);
  if (!graph.ok()) return {{}, graph.status()};
  for (int step = 0; step < steps && trained.status.ok(); ++step) {
    const std::vector<VariableSpec> variables = VariablesOf(model);
    for (size_t v = 0; v < variables.size(); ++v) {
      const std::vector<float> values(static_cast<size_t>(variables[v].elements()), 0.1f * static_cast<float>(step));
      trained.status.Update((*graph)->SetParameters(v, 0, values));
    }
    const std::vector<float> inputs(static_cast<size_t>(kMaxBatch * (*graph)->input_width()), 0.5f);
    trained.status.Update((*graph)->LoadBatch(inputs, std::vector<int32_t>(kMaxBatch, step % 3)));
    if (!trained.status.ok()) break;
    VariableGradients& all = trained.gradients.emplace_back();
    auto result = (*graph)->Train(static_cast<uint64_t>(step), [&](const VariableGradients& ready) {
      all.insert(all.end(), ready.begin(), ready.end());
    });
    trained.status = result.status();
    if (result.ok()) all.insert(all.end(), result->last.begin(), result->last.end());
  }
  return trained;
}

// The first in each place is given, in one of them while the graph was made; the second is captured. A step is one
// graph for each layer whose gradients leave.
TEST(CudaGraphTest, StepsBecomeGraphsUnlessTheyAreTurnedOff) {
  for (const auto& [steps, graphs] : {std::pair(1, 1u), std::pair(2, 1u), std::pair(6, 5u)}) {
    ResetCudaStandIn(1);
    EXPECT_TRUE(TrainSteps(steps).status.ok());
    EXPECT_EQ(CudaGraphsLaunched(), 2 * graphs) << steps;
  }
  ResetCudaStandIn(1);
  EXPECT_TRUE(TrainSteps(6, {.graphs = false}).status.ok());
  EXPECT_EQ(CudaGraphsLaunched(), 0u);
}

// Each call in turn fails once. If it was one that graphs alone need, the steps go on without graphs, and with the same
// bits.
TEST(CudaGraphTest, WhereAGraphCannotBeHadStepsGoOnWithoutAny) {
  constexpr int kSteps = 6;
  ResetCudaStandIn(0);
  const Trained want = TrainSteps(kSteps);
  ASSERT_TRUE(want.status.ok());
  const uint64_t all = CudaGraphsLaunched();
  int survived = 0;
  for (uint64_t call = 1;; ++call) {
    ResetCudaStandIn(0);
    FailCudaCall(call, /*for_good=*/false);
    const Trained got = TrainSteps(kSteps);
    if (CudaCallsThatFailed() == 0) break;
    if (!got.status.ok()) {
      EXPECT_EQ(got.status.code(), absl::StatusCode::kInternal);
      continue;
    }
    survived += CudaGraphsLaunched() < all;
    for (size_t step = 0; step < kSteps; ++step) EXPECT_TRUE(SameBits(got.gradients[step], want.gradients[step]));
  }
  // Of each of four captures its begin, what is given in between, its end and instantiation; each graph's launch.
  EXPECT_GT(survived, 4 * 3 + 8);
}

}  // namespace
}  // namespace downpour
