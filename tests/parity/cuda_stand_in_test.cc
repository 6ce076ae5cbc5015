// The stand-in notices what it is for; and the CUDA backend turns whatever CUDA may answer into a Status.
#include "tests/parity/cuda_stand_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model/parameter_loader.h"
#include "tensor/cuda_backend.h"
#include "tensor/cuda_memory.h"
#include "tests/parity/device_matrix.h"
#include "tests/unit/model/model_cases.h"

namespace downpour {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Up by one stream and down by another; true: what came up comes down.
bool ArrivesThroughTwoStreams(uint64_t seed, bool with_event) {
  ResetCudaStandIn(seed);
  cudaSetDevice(1);
  const CudaStream up = *MakeCudaStream(), down = *MakeCudaStream();
  const CudaEvent event = *MakeCudaEvent();
  const auto from = *MakePinnedMemory(sizeof(int)), to = *MakePinnedMemory(sizeof(int));
  const CudaMemory memory = *MakeCudaMemory(sizeof(int));
  *static_cast<int*>(from.get()) = 7;
  cudaMemcpyAsync(memory.get(), from.get(), sizeof(int), cudaMemcpyHostToDevice, up.get());
  cudaEventRecord(event.get(), up.get());
  if (with_event) cudaStreamWaitEvent(down.get(), event.get());
  cudaMemcpyAsync(to.get(), memory.get(), sizeof(int), cudaMemcpyDeviceToHost, down.get());
  cudaStreamSynchronize(down.get());
  return *static_cast<int*>(to.get()) == 7;
}

TEST(CudaStandInTest, WhatLacksAnEventGoesWrongForSomeSeed) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(ArrivesThroughTwoStreams(seed, true)) << seed;
    wrong += !ArrivesThroughTwoStreams(seed, false);
  }
  EXPECT_GT(wrong, 0);
}

TEST(CudaStandInTest, NothingHappensSilently) {
  ResetCudaStandIn(1);
  cudaSetDevice(1);
  const CudaStream stream = *MakeCudaStream();
  const CudaMemory memory = *MakeCudaMemory(8);
  const auto pinned = *MakePinnedMemory(16);
  int64_t pageable = 0;
  const auto upload = [&](const void* from, size_t bytes) {
    return cudaMemcpyAsync(memory.get(), from, bytes, cudaMemcpyHostToDevice, stream.get());
  };
  EXPECT_EQ(upload(pinned.get(), 8), cudaSuccess);
  EXPECT_NE(upload(pinned.get(), 9), cudaSuccess);
  EXPECT_NE(upload(&pageable, 8), cudaSuccess);
  const auto download = [&](void* to) {
    return cudaMemcpyAsync(to, memory.get(), 8, cudaMemcpyDeviceToHost, stream.get());
  };
  EXPECT_EQ(download(pinned.get()), cudaSuccess);
  EXPECT_NE(download(&pageable), cudaSuccess);
  cudaSetDevice(0);
  EXPECT_NE(upload(pinned.get(), 8), cudaSuccess);
  cudaSetDevice(1);
}

// Ones beside a factor of so many bits after the point, of which each precision keeps its own.
TEST(CudaPrecisionTest, FactorsAreRoundedAsAsked) {
  const auto product = [](Precision precision, double factor) {
    ResetCudaStandIn(1);
    const std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
    backend->UsePrecision(precision);
    Numbers one(1, 1), x(1, 1);
    one.at(0, 0) = 1;
    x.at(0, 0) = factor;
    DeviceMatrix a(*backend, one), b(*backend, x), c(*backend, one);
    EXPECT_TRUE(backend->Gemm(Transpose::kPlain, Transpose::kPlain, a.view(), b.view(), 0, c.view()).ok());
    return c.Read().at(0, 0);
  };
  const double seven = 1 + 0x1p-7, ten = 1 + 0x1p-10, all = 1 + 0x1p-23;
  EXPECT_EQ(product(Precision::kFp32, all), all);
  EXPECT_EQ(product(Precision::kTf32, ten), ten);
  EXPECT_EQ(product(Precision::kTf32, 1 + 0x1p-11), 1) << "nobody asked for the faster units";
  EXPECT_EQ(product(Precision::kBf16, seven), seven);
  EXPECT_EQ(product(Precision::kBf16, 1 + 0x1p-8), 1) << "likewise";
}

TEST(CudaDeviceTest, AnotherMayHaveBecomeTheThreadsOwnMeanwhile) {
  ResetCudaStandIn(1);
  const std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
  cudaSetDevice(0);
  EXPECT_TRUE(backend->Allocate(8).ok());
}

// All parameters up, most of them staged ahead, a batch, its gradients down.
absl::Status TrainOnce(const SliceGrid& grid, Graph& graph, ParameterLoader& loader) {
  absl::Status status;
  for (const Slice& slice : grid.slices) {
    const Payload values = Payload::Zeros(grid.WireBytes(slice.id));
    if (ToNumber(slice.id) != 1) loader.Pack(slice.id, values);
    status.Update(loader.Load(slice.id, values));
  }
  status.Update(graph.LoadBatch(std::vector<uint8_t>(static_cast<size_t>(graph.input_width()), 127), {0}));
  if (status.ok()) status = graph.Train(kDrawSeed, [](const VariableGradients&) {}).status();
  loader.EndStep(status.ok());
  return status;
}

// A backend, a graph and two steps on it.
absl::Status TrainTwice(const ModelSpec& model, Precision precision) {
  auto backend = MakeCudaBackend(1, {.graphs = false});  // without one, steps go on
  if (!backend.ok()) return backend.status();
  (*backend)->UsePrecision(precision);
  auto graph = Graph::Create(model, kMaxBatch, **backend, {InputType::kBytes});
  if (!graph.ok()) return graph.status();
  const SliceGrid grid = GridOf(model).value();
  ParameterLoader loader;
  absl::Status status = loader.Open(grid, **graph, **backend);
  for (int step = 0; step < 2 && status.ok(); ++step) status = TrainOnce(grid, **graph, loader);
  return status;
}

// Each call in turn, once and from then on: the GPU that is lost.
TEST(CudaFailureTest, WhateverFailsIsAStatusThatNamesStatementFileAndLine) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(4, Activation::kRelu)), Layer("b", {"a"}, Dense(3))});
  uint64_t failures = 0;
  for (bool for_good : {false, true}) {
    absl::Status status;
    for (uint64_t call = 1;; ++call) {
      ResetCudaStandIn(call);
      FailCudaCall(call, for_good);
      status = TrainTwice(model, Precision::kBf16);
      if (CudaCallsThatFailed() == 0) break;
      ++failures;
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << call;
      EXPECT_THAT(
          std::string(status.message()),
          ContainsRegex("(cudaError|CUBLAS_STATUS_)OfStandIn.* from [cC]u[a-zA-Z_0-9]+\\(.*\\), .*cuda_.*:[0-9]+"));
    }
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_GT(failures, 100u);
}

// Some memory is taken by the first step alone: still the batch that would have fitted is named, and fits.
TEST(CudaFailureTest, WithoutRoomTheBatchThatWouldFitIsNamed) {
  const ModelSpec wide = Model({Layer("a", {"x"}, Dense(300)), Layer("b", {"a"}, Dense(300))});
  const auto create = [&](int64_t batch) {
    ResetCudaStandIn(1, size_t{36} << 20);  // 32 of them for what each backend has
    const std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
    backend->UsePrecision(Precision::kBf16);
    return Graph::Create(wide, batch, *backend).status();
  };
  const absl::Status status = create(900);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("training.batchSize 900 needs 4 MiB: a batchSize of 659 would fit"));
  EXPECT_TRUE(create(659).ok());
}

// It is as large as the model, whatever the batch.
TEST(CudaFailureTest, WithoutMemoryForGradientsNoBatchIsBlamed) {
  const ModelSpec wide = Model({Layer("a", {"x"}, Dense(1000)), Layer("b", {"a"}, Dense(300))});
  ResetCudaStandIn(1, size_t{1} << 30, 1, size_t{17} << 20);  // 16 of them for what each backend has
  const std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
  const absl::Status status = Graph::Create(wide, kMaxBatch, *backend).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaHostAlloc"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("batchSize")));
}

// It is of the host, which has no more of it: a job can do without.
TEST(CudaFailureTest, WithoutMemoryForFramesParametersAreStagedByTheStep) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(1000)), Layer("b", {"a"}, Dense(300))});
  ResetCudaStandIn(1, size_t{1} << 30, 1, size_t{20} << 20);  // 16 of them for what each backend has
  const std::unique_ptr<Backend> backend = MakeCudaBackend(1, {.graphs = false}).value();
  const std::unique_ptr<Graph> graph = std::move(*Graph::Create(model, kMaxBatch, *backend, {InputType::kBytes}));
  const SliceGrid grid = GridOf(model).value();
  ParameterLoader loader;
  ASSERT_TRUE(loader.Open(grid, *graph, *backend).ok());
  const Payload values = Payload::Zeros(grid.WireBytes(SliceId{0}));
  loader.Pack(SliceId{0}, values);
  EXPECT_TRUE(values.unique()) << "there was room for frames";
  EXPECT_TRUE(TrainOnce(grid, *graph, loader).ok());
}

TEST(CudaStepTest, OnceWarmMakesAndFreesNothingAndNeverWaitsForTheDevice) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(4, Activation::kRelu)), Layer("b", {"a"}, Dense(3))});
  for (Precision precision : {Precision::kFp32, Precision::kBf16}) {
    ResetCudaStandIn(1);
    const std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
    backend->UsePrecision(precision);
    const std::unique_ptr<Graph> graph = std::move(*Graph::Create(model, kMaxBatch, *backend, {InputType::kBytes}));
    const SliceGrid grid = GridOf(model).value();
    ParameterLoader loader;
    ASSERT_TRUE(loader.Open(grid, *graph, *backend).ok());
    const uint64_t cold = CudaCallsThatStall();
    for (int step = 0; step < 4; ++step) ASSERT_TRUE(TrainOnce(grid, *graph, loader).ok());
    const uint64_t warm = CudaCallsThatStall();
    EXPECT_GT(warm, cold);  // frames for the gradients, graphs for batches in both places
    for (int step = 0; step < 10; ++step) ASSERT_TRUE(TrainOnce(grid, *graph, loader).ok());
    EXPECT_EQ(CudaCallsThatStall(), warm);
  }
}

// Whoever sends a step's gradients holds them while the next step is computed.
TEST(CudaStepTest, TheGradientsOfTwoStepsFindTheirMemory) {
  ResetCudaStandIn(1);
  const std::unique_ptr<Backend> backend = MakeCudaBackend(1, {.graphs = false}).value();
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(4, Activation::kRelu)), Layer("b", {"a"}, Dense(3))});
  const std::unique_ptr<Graph> graph = std::move(*Graph::Create(model, kMaxBatch, *backend, {InputType::kBytes}));
  ASSERT_TRUE(graph->LoadBatch(std::vector<uint8_t>(static_cast<size_t>(graph->input_width()), 127), {0}).ok());
  const uint64_t before = CudaCallsThatStall();
  std::vector<VariableGradients> held;
  for (int step = 0; step < 2; ++step) {
    auto trained = graph->Train(kDrawSeed, [&](VariableGradients ready) { held.push_back(std::move(ready)); });
    ASSERT_TRUE(trained.ok()) << trained.status();
    held.push_back(std::move(trained->last));
  }
  EXPECT_EQ(CudaCallsThatStall(), before);
}

// For some seed: were the upload behind what was given to compute, it would wait for that in every case, since it is
// larger than what it is staged in.
TEST(CudaStepTest, ABatchComesUpBesideTheComputingOfTheOneBeforeIt) {
  constexpr int64_t kWidth = 2400000;
  std::vector<LayerSpec> layers = {Layer("0", {"x"}, Dense(2))};
  for (int i = 1; i < 12; ++i) layers.push_back(Layer(std::to_string(i), {std::to_string(i - 1)}, Dense(2)));
  const ModelSpec model = Model(std::move(layers), Loss::kSoftmaxCrossEntropy, {{"x", {kWidth}}});
  const std::vector<uint8_t> inputs(kMaxBatch * kWidth, 127);
  const std::vector<int32_t> labels(kMaxBatch);
  int beside = 0;
  for (uint64_t seed = 0; beside == 0 && seed < 5; ++seed) {
    ResetCudaStandIn(seed);
    const std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
    const std::unique_ptr<Graph> graph = std::move(*Graph::Create(model, kMaxBatch, *backend, {InputType::kBytes}));
    const Buffer memory = backend->Allocate(sizeof(int)).value();
    const auto done = std::static_pointer_cast<int>(backend->AllocateHost(sizeof(int)).value());
    const auto load_next = [&] {
      *done = 7;
      ASSERT_TRUE(backend->Download(memory.data(), sizeof(int), done.get()).ok());
      ASSERT_TRUE(graph->LoadBatch(inputs, labels).ok());
      beside += *done == 7;
    };
    ASSERT_TRUE(graph->LoadBatch(inputs, labels).ok());
    for (int batch = 0; batch < 2; ++batch) ASSERT_TRUE(graph->Train(kDrawSeed, nullptr, {}, load_next).ok());
  }
  EXPECT_GT(beside, 0);
}

// Where all bits are meant, and what cuBLAS has no product for.
TEST(CudaStorageTest, RoundedMemoryIsRefusedWhereItCannotBeMeant) {
  ResetCudaStandIn(1);
  const std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
  backend->UsePrecision(Precision::kBf16);
  const auto matrix = [&](FloatFormat format) { return DeviceMatrix(*backend, Numbers(4, 4), 0, format); };
  DeviceMatrix rounded = matrix(FloatFormat::kFactor), exact = matrix(FloatFormat::kFp32),
               result = matrix(FloatFormat::kFactor);
  const auto multiply = [&](DeviceMatrix& a, DeviceMatrix& b) {
    return backend->Gemm(Transpose::kPlain, Transpose::kPlain, a.view(), b.view(), 0, result.view());
  };
  EXPECT_TRUE(multiply(rounded, rounded).ok());
  const auto pinned = backend->AllocateHost(4).value();
  for (const absl::Status& status :
       {multiply(rounded, exact), multiply(exact, rounded), multiply(exact, exact),
        backend->AddBias(rounded.vector(), exact.view()), backend->SumRows(exact.view(), 0, rounded.vector()),
        backend->Download(rounded.view().data, 4, pinned.get()),
        backend->BeginDownload(rounded.view().data, 4, pinned.get())}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

}  // namespace
}  // namespace downpour
