// The models that bench_gpu measures, and how.
//
// Errors: whatever goes wrong ends the process with its reason: there is nothing to measure then.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job.h"
#include "model/graph.h"
#include "tensor/cuda_module.h"

namespace downpour {

inline constexpr int64_t kLargeBatch = 4096;
inline constexpr int64_t kSmallBatch = 128;
inline constexpr int64_t kLargeImageSide = 64;  // its 4096 inputs as an image

ModelSpec LargeModel();
ModelSpec SquareModel(int64_t width);  // three layers, as many inputs as units
ModelSpec SmallModel();

// The matrix products of one training step of a perceptron: of each layer forward, its kernel's gradient and, but for
// the first one, its input's.
std::vector<ProductShape> ProductsOfStep(const ModelSpec& model, int64_t batch);

std::vector<float> RandomNumbers(size_t count);  // in [-1, 1)

std::unique_ptr<Backend> OpenGpu(const CudaModule& module, int device, Precision precision = Precision::kFp32,
                                 const CudaOptions& options = {});
// With random parameters and a random batch.
std::unique_ptr<Graph> LoadedGraph(const ModelSpec& model, int64_t batch, Backend& backend);
// Of `count` calls one behind the other, after as many that warm up.
double SecondsOfEach(Backend& backend, int count, const std::function<absl::Status()>& run);

inline void OrDie(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_gpu: %s\n", std::string(status.message()).c_str());
  std::exit(EXIT_FAILURE);
}
template <typename T>
T OrDie(absl::StatusOr<T> value) {
  OrDie(value.status());
  return *std::move(value);
}

}  // namespace downpour
