// What a worker makes of its GPU, against what the chip can do; ceilings and figures are measured in the same run.
//
//   bench_gpu [--device N] [--runs N] [--only elementwise|parameters|step|small|cluster] [--torch COMMAND]
//
// A part that cannot be measured says why, and the others go on; then the exit code is 1.
//
// elementwise: bytes per second of the backend's own kernels, over a copy on the device.
// parameters:  all of the large step's on their way to the device, rounded to bf16 as the step begins or ahead of it,
//              and how much of that goes by before an operation can be given; one plain copy of as many bytes over the
//              latter.
// step:        a step of a multilayer perceptron 4096-8192-8192-4096 on batches of 4096, gradients left on the device,
//              over its products done by cuBLAS alone.
// small:       steps per second of 784-256-128-10 on batches of 128, without CUDA graphs and with them, and these over
//              PyTorch's with CUDA graphs where it is there; what graphs bring as layers grow.
// cluster:     the large step with a ps in between, pushed every batch and every 16th, that also with
//              parameters pulled ahead, over the slowest of its parts.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/bench_gpu_cluster.h"
#include "bench/bench_gpu_model.h"
#include "bench/bench_series.h"
#include "bench/bench_tool.h"
#include "job/slice_grid.h"
#include "model/parameter_loader.h"
#include "runtime/posix/process.h"
#include "tensor/cuda_module.h"

namespace downpour {
namespace {

struct Options {
  int device = 0;
  int runs = 5;
  std::string only;
  std::string torch;
  std::string downpour;
};

const char* NameOf(Precision precision) {
  return precision == Precision::kFp32 ? "fp32" : precision == Precision::kTf32 ? "tf32" : "bf16";
}

// ---- Elementwise ----------------------------------------------------------------------------------------------------

constexpr int64_t kSide = 8192;

struct Elementwise {
  const char* name;
  double arrays;  // how many the kernel reads or writes once
  std::function<absl::Status()> run;
};

// With bf16 on matrices that are kept in it.
void MeasureElementwise(const CudaModule& module, const Options& options, Precision precision) {
  const auto backend = OpenGpu(module, options.device, precision);
  const size_t bytes = kSide * kSide * sizeof(float);
  const size_t kept = precision == Precision::kBf16 ? bytes / 2 : bytes;
  const std::vector<float> numbers = RandomNumbers(kSide * kSide);
  std::vector<Buffer> memory;
  std::vector<Matrix> m;
  for (int i = 0; i < 3; ++i) {
    memory.push_back(OrDie(backend->Allocate(bytes, FloatFormat::kFactor)));
    m.emplace_back(static_cast<float*>(memory.back().data()), kSide, kSide);
    OrDie(backend->Upload(numbers.data(), bytes, memory.back().data()));
  }
  const Buffer row = OrDie(backend->Allocate(kSide * sizeof(float)));
  OrDie(backend->Upload(numbers.data(), kSide * sizeof(float), row.data()));
  const Buffer seed = OrDie(backend->Allocate(sizeof(uint64_t)));
  OrDie(backend->Upload(numbers.data(), sizeof(uint64_t), seed.data()));
  const Buffer pixels = OrDie(backend->Allocate(kSide * kSide));
  OrDie(backend->Upload(numbers.data(), kSide * kSide, pixels.data()));
  const ConstByteMatrix image(static_cast<const uint8_t*>(pixels.data()), kSide, kSide);
  const absl::Span<float> vector(static_cast<float*>(row.data()), kSide);
  constexpr ActivationFunction kRelu = ActivationFunction::kRelu;
  const std::vector<Elementwise> kernels = {
      {"bias and relu", 2, [&] { return backend->AddBiasActivate(vector, kRelu, m[0]); }},
      {"relu", 2, [&] { return backend->Activate(kRelu, m[0], m[1]); }},
      {"tanh", 2, [&] { return backend->Activate(ActivationFunction::kTanh, m[0], m[1]); }},
      {"relu backward", 3, [&] { return backend->ActivateBackward(kRelu, m[0], m[1], m[2]); }},
      {"dropout", 2,
       [&] {
         return backend->Dropout({static_cast<const uint64_t*>(seed.data()), 0.5}, m[0], m[1]);
       }},
      {"widen bytes", 1 + static_cast<double>(kSide * kSide) / static_cast<double>(kept),
       [&] { return backend->WidenBytes(image, 255, m[1]); }},
      {"accumulate", 3, [&] { return backend->Accumulate(m[0], m[1]); }},
      {"sum of rows", 1, [&] { return backend->SumRows(m[0], 0, vector); }},
  };
  std::printf("elementwise, %ld x %ld in %s: GB/s, and of a copy on the device\n", static_cast<long>(kSide),
              static_cast<long>(kSide), NameOf(precision));
  constexpr int kTimes = 20;
  std::vector<Series> rates(kernels.size()), ratios(kernels.size());
  for (int run = 0; run < options.runs; ++run) {
    const double copied = OrDie(module.time_copy(options.device, CopyPath::kOnDevice, kept, kTimes));
    for (size_t i = 0; i < kernels.size(); ++i) {
      const double arrays = kernels[i].arrays / SecondsOfEach(*backend, kTimes, kernels[i].run);
      rates[i].values.push_back(arrays * static_cast<double>(kept));
      ratios[i].values.push_back(arrays * copied / 2);  // a copy reads one and writes one
    }
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::printf("  %-16s %8.0f  %5.2f [%4.2f, %4.2f]\n", kernels[i].name, rates[i].Median() * 1e-9, ratios[i].Median(),
                ratios[i].Smallest(), ratios[i].Largest());
  }
}

void MeasureElementwiseInBoth(const CudaModule& module, const Options& options) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    MeasureElementwise(module, options, precision);
  }
}

// ---- The large step's parameters ------------------------------------------------------------------------------------

void MeasureParameters(const CudaModule& module, const Options& options) {
  const auto backend = OpenGpu(module, options.device, Precision::kBf16);
  const auto graph = LoadedGraph(LargeModel(), 1, *backend);
  const SliceGrid grid = OrDie(GridOf(LargeModel()));
  ParameterLoader loader;
  OrDie(loader.Open(grid, *graph, *backend));
  std::vector<Payload> values;
  size_t kept = 0;
  for (const Slice& slice : grid.slices) {
    values.push_back(Payload::Zeros(grid.WireBytes(slice.id)));
    kept += static_cast<size_t>(slice.bytes()) / (graph->keeps_rounded(slice.variable) ? 2 : 1);
  }
  const auto load = [&](Series* asked, Series* there) {
    const auto begin = std::chrono::steady_clock::now();
    const auto note = [&](Series* series) {
      const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
      series->values.push_back(taken.count());
    };
    for (const Slice& slice : grid.slices) OrDie(loader.Load(slice.id, values[ToNumber(slice.id)]));
    note(asked);
    OrDie(backend->Synchronize());
    note(there);
  };
  Series by_step_asked, by_step, ahead_asked, ahead, ratio;
  for (int run = -1; run < options.runs; ++run) {
    if (run == 0) by_step_asked = by_step = ahead_asked = ahead = ratio = {};  // the first one touched all memory
    load(&by_step_asked, &by_step);
    for (const Slice& slice : grid.slices) loader.Pack(slice.id, values[ToNumber(slice.id)]);
    load(&ahead_asked, &ahead);
    loader.EndStep(/*awaited=*/true);
    const double copied = 1e3 * OrDie(module.time_copy(options.device, CopyPath::kToDevice, kept, 5));
    ratio.values.push_back(copied / ahead.values.back());
  }
  std::printf("parameters of 4096-8192-8192-4096, kept as %.0f MB: ms till asked for, ms in all, and one plain copy\n",
              static_cast<double>(kept) / 1e6);
  std::printf("  %-16s %8.1f %8.1f\n", "staged by a step", by_step_asked.Median(), by_step.Median());
  std::printf("  %-16s %8.1f %8.1f  %5.2f [%4.2f, %4.2f]\n", "staged ahead", ahead_asked.Median(), ahead.Median(),
              ratio.Median(), ratio.Smallest(), ratio.Largest());
}

// ---- The large step, nothing sent -----------------------------------------------------------------------------------

void MeasureStep(const CudaModule& module, const Options& options) {
  constexpr int kSteps = 40;  // long enough for the clocks to settle
  const std::vector<ProductShape> products = ProductsOfStep(LargeModel(), kLargeBatch);
  double operations = 0;
  for (const ProductShape& shape : products) {
    operations += 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  }
  std::printf("step of 4096-8192-8192-4096 on batches of %ld, nothing sent: TFLOP/s, and of cuBLAS alone\n",
              static_cast<long>(kLargeBatch));
  for (const Precision precision : {Precision::kTf32, Precision::kBf16}) {
    const auto backend = OpenGpu(module, options.device, precision);
    const auto graph = LoadedGraph(LargeModel(), kLargeBatch, *backend);
    Series rate, ratio;
    for (int run = 0; run < options.runs; ++run) {
      const double alone = OrDie(module.time_products(options.device, precision, products, kSteps));
      const double step = SecondsOfEach(*backend, kSteps, [&] { return graph->Train(1, nullptr).status(); });
      rate.values.push_back(operations / step);
      ratio.values.push_back(alone / step);
    }
    std::printf("  %-16s %8.0f  %5.2f [%4.2f, %4.2f]\n", NameOf(precision), rate.Median() * 1e-12, ratio.Median(),
                ratio.Smallest(), ratio.Largest());
  }
}

// ---- The small step -------------------------------------------------------------------------------------------------

// Steps per second, as the command prints them; 0 where there is no PyTorch, as it says itself.
double TorchSteps(const std::string& command) {
  if (command.empty()) return 0;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  double steps = 0;
  const bool read = std::fscanf(pipe, "%lf", &steps) == 1;
  return pclose(pipe) == 0 && read ? steps : 0;
}

double StepsPerSecond(const CudaModule& module, const Options& options, const ModelSpec& model, int64_t batch,
                      bool graphs) {
  const auto backend = OpenGpu(module, options.device, Precision::kTf32, {.graphs = graphs});
  const auto graph = LoadedGraph(model, batch, *backend);
  return 1 / SecondsOfEach(*backend, 500, [&] { return graph->Train(1, nullptr).status(); });
}

// As far as steps are repeated by graphs: StepRecordings::kLaunchBound.
void MeasureGraphsOfWiderLayers(const CudaModule& module, const Options& options) {
  std::printf("what CUDA graphs bring to three layers on batches of 256: operations of the largest product, steps/s\n");
  for (const int64_t width : {128, 256, 512, 1024, 2048, 3072}) {
    const ModelSpec model = SquareModel(width);
    Series rate, ratio;
    for (int run = 0; run < options.runs; ++run) {
      rate.values.push_back(StepsPerSecond(module, options, model, 256, true));
      ratio.values.push_back(rate.values.back() / StepsPerSecond(module, options, model, 256, false));
    }
    std::printf("  %-16.1e %8.0f  %5.2f [%4.2f, %4.2f]\n", 2.0 * 256 * static_cast<double>(width * width),
                rate.Median(), ratio.Median(), ratio.Smallest(), ratio.Largest());
  }
}

void MeasureSmall(const CudaModule& module, const Options& options) {
  const auto steps = [&](bool graphs) {
    return StepsPerSecond(module, options, SmallModel(), kSmallBatch, graphs);
  };
  Series plain, rate, ratio;
  for (int run = 0; run < options.runs; ++run) {
    plain.values.push_back(steps(false));
    rate.values.push_back(steps(true));
    if (const double torch = TorchSteps(options.torch); torch > 0) {
      ratio.values.push_back(rate.values.back() / torch);
    }
  }
  std::printf("step of 784-256-128-10 on batches of %ld, nothing sent, tf32: steps/s\n",
              static_cast<long>(kSmallBatch));
  std::printf("  %-16s %8.0f [%.0f, %.0f]\n", "without graphs", plain.Median(), plain.Smallest(), plain.Largest());
  std::printf("  %-16s %8.0f [%.0f, %.0f]", "with CUDA graphs", rate.Median(), rate.Smallest(), rate.Largest());
  if (ratio.values.empty()) {
    std::printf("   there is no PyTorch to compare with\n");
  } else {
    std::printf("   %.2f [%.2f, %.2f] of PyTorch's with CUDA graphs\n", ratio.Median(), ratio.Smallest(),
                ratio.Largest());
  }
  MeasureGraphsOfWiderLayers(module, options);
}

// In a process of its own: what forks later must not have touched the device before, and what fails fails alone.
bool Apart(const char* what, const std::function<void()>& measure) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    measure();
    std::fflush(stdout);
    std::_Exit(0);
  }
  int ended = 0;
  const bool done = child > 0 && waitpid(child, &ended, 0) == child && ended == 0;
  if (!done) std::fprintf(stderr, "bench_gpu: FAILED: %s\n", what);
  return done;
}

bool Measure(const Options& options) {
  bool all = true;
  const auto part = [&](const char* what, const std::function<void()>& measure) {
    if (options.only.empty() || options.only == what) all = Apart(what, measure) && all;
  };
  const auto on_device = [&](void (*measure)(const CudaModule&, const Options&)) {
    return [measure, &options] { measure(*OrDie(LoadCudaModule()), options); };
  };
  part("elementwise", on_device(MeasureElementwiseInBoth));
  part("parameters", on_device(MeasureParameters));
  part("step", on_device(MeasureStep));
  part("small", on_device(MeasureSmall));
  part("cluster", [&] { MeasureCluster({options.device, options.runs, options.downpour}); });
  return all;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("What a worker makes of its GPU, against what the chip can do");
  downpour::Options options;
  options.downpour = downpour::DownpourOfThisBuild();
  app.add_option("--device", options.device, "Number of the GPU")->capture_default_str();
  app.add_option("--runs", options.runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--only", options.only, "One part alone")
      ->check(CLI::IsMember({"elementwise", "parameters", "step", "small", "cluster"}));
  app.add_option("--torch", options.torch, "What prints PyTorch's steps per second: python3 bench/bench_gpu_torch.py");
  app.add_option("--downpour", options.downpour, "The command-line tool")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was measured is told, whatever comes next
  downpour::KeepFreedMemory();
  return downpour::Measure(options) ? EXIT_SUCCESS : EXIT_FAILURE;
}
