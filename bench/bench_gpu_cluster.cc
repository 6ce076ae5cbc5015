#include "bench/bench_gpu_cluster.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/bench_gpu_model.h"
#include "bench/bench_series.h"
#include "bench/wire_sides.h"
#include "bench/wire_transfer.h"
#include "data/idx.h"
#include "job/job_file.h"
#include "job/slice_grid.h"
#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int kServers = 4;
constexpr int64_t kBatches = 16;  // of an epoch
constexpr size_t kSliceBytes = size_t{1} << 20;
constexpr float kLearningRate = 0.001f;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Pushing and pulling every slice once over one bare connection.
class Wire {
 public:
  Wire() : load_{kSliceBytes, 64}, server_(BareZmqSides(), load_, "127.0.0.1:0") {}

  double Seconds(double model_bytes) {
    if (client_ == nullptr) client_ = BareZmqSides().dial(load_, server_.endpoint());
    const size_t units = 512;
    Transfer(*client_, load_, 64, 4);
    const auto begin = std::chrono::steady_clock::now();
    Transfer(*client_, load_, units, 4);
    return SecondsSince(begin) / static_cast<double>(units * kSliceBytes) * model_bytes;
  }

 private:
  WireLoad load_;
  ServerProcess server_;
  std::unique_ptr<WireClient> client_;
};

// Updating every slice in place on kServers cores, if they share the work evenly.
double SecondsOfUpdates(double model_bytes) {
  const size_t floats = size_t{64} << 18;  // beyond any cache
  std::vector<float> values = RandomNumbers(floats), gradient = RandomNumbers(floats);
  std::vector<Magnitudes> bounds(floats * sizeof(float) / kSliceBytes, kUnknownMagnitudes);
  const auto pass = [&] {
    for (size_t at = 0; at < floats; at += kSliceBytes / sizeof(float)) {
      const size_t n = kSliceBytes / sizeof(float);
      float* const slice = values.data() + at;
      CHECK(ApplyUpdate(SgdUpdate{kLearningRate}, {gradient.data() + at, n}, {{slice, slice}}, &bounds[at / n]));
    }
  };
  pass();
  const auto begin = std::chrono::steady_clock::now();
  pass();
  return SecondsSince(begin) / static_cast<double>(floats * sizeof(float)) * model_bytes / kServers;
}

struct DeviceParts {
  double compute = 0;
  double copies = 0;  // gradients down beside parameters up
};

// In this process: nothing forks any more.
DeviceParts MeasureDevice(int device, double model_bytes) {
  const CudaModule& module = *OrDie(LoadCudaModule());
  DeviceParts parts;
  {
    const auto backend = OpenGpu(module, device, Precision::kBf16);
    const auto graph = LoadedGraph(LargeModel(), kLargeBatch, *backend);
    parts.compute = SecondsOfEach(*backend, 10, [&] { return graph->Train(1, nullptr).status(); });
  }
  const size_t bytes = size_t{256} << 20;
  const double up = OrDie(module.time_copy(device, CopyPath::kToDevice, bytes, 5));
  const double down = OrDie(module.time_copy(device, CopyPath::kToHost, bytes, 5));
  parts.copies = std::max(up, down) / static_cast<double>(bytes) * model_bytes;
  return parts;
}

void WriteData(const std::string& folder) {
  const uint32_t count = static_cast<uint32_t>(kBatches * kLargeBatch), side = kLargeImageSide;
  std::vector<uint8_t> pixels(size_t{count} * side * side), labels(count);
  uint32_t state = 1;
  for (std::vector<uint8_t>* bytes : {&pixels, &labels}) {
    for (uint8_t& byte : *bytes) {
      state = state * 1664525u + 1013904223u;
      byte = static_cast<uint8_t>(state >> 24);
    }
  }
  OrDie(WriteIdx(folder + "/images", {count, side, side}, pixels));
  OrDie(WriteIdx(folder + "/labels", {count}, labels));
}

// What the driver calls the GPU that is number `device` to this process.
std::string VisibleDevice(int device) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return absl::StrCat(device);
  const std::vector<std::string> names = absl::StrSplit(visible, ',');
  CHECK_LT(static_cast<size_t>(device), names.size()) << "CUDA_VISIBLE_DEVICES=" << visible;
  return names[static_cast<size_t>(device)];
}

// How a step's parts may overlap.
struct Overlap {
  int64_t push_every = 1;
  bool pull_ahead = false;
};

double SecondsOfClusterStep(const GpuClusterOptions& options, const std::string& folder, const Overlap& overlap) {
  JobSpec job;
  job.name = "bench-gpu";
  job.model = LargeModel();
  job.cluster.parameter_server_count = kServers;
  job.training.batch_size = kLargeBatch;
  job.training.epochs = overlap.push_every == 1 ? 2 : 12;  // some steps in any case
  job.training.lease_batches = kBatches;
  job.training.push_every = overlap.push_every;
  job.training.pull_ahead = overlap.pull_ahead;
  job.training.precision = ProductPrecision::kBf16;
  job.training.optimizer.learning_rate = kLearningRate;
  job.data.train = {folder + "/images", folder + "/labels"};
  job.checkpoint.every = std::chrono::nanoseconds(0);
  const std::string job_dir = folder + "/job";
  fs::remove_all(job_dir);
  std::ofstream(folder + "/job.json") << CanonicalJob(job);
  const std::string command =
      absl::StrCat("CUDA_VISIBLE_DEVICES='", VisibleDevice(options.device), "' '", options.downpour, "' run '", folder,
                   "/job.json' --job-dir '", job_dir, "' >'", folder, "/log' 2>&1");
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "bench_gpu: downpour run failed; its last words:\n");
    std::system(absl::StrCat("tail -n 20 '", folder, "/log' >&2").c_str());
    fs::remove_all(folder);
    std::exit(EXIT_FAILURE);
  }
  const double examples = nlohmann::json::parse(std::ifstream(job_dir + "/summary.json")).at("examplesPerSecond");
  return static_cast<double>(kLargeBatch * overlap.push_every) / examples;
}

// Of a step and of each of its parts alone.
struct StepTimes {
  Series compute, copies, wire, updates, step, ratio;

  void Add(double whole, double batches, const DeviceParts& device, double on_wire, double updating) {
    compute.values.push_back(batches * device.compute);
    copies.values.push_back(device.copies);
    wire.values.push_back(on_wire);
    updates.values.push_back(updating);
    step.values.push_back(whole);
    ratio.values.push_back(std::max({batches * device.compute, device.copies, on_wire, updating}) / whole);
  }

  void Print(const Overlap& overlap) const {
    std::printf("  a push for every %ld batches%s\n", static_cast<long>(overlap.push_every),
                overlap.pull_ahead ? ", parameters pulled ahead" : "");
    for (const auto& [what, series] : {std::pair<const char*, const Series&>{"computing", compute},
                                       {"copies", copies},
                                       {"wire", wire},
                                       {"updates", updates},
                                       {"a whole step", step}}) {
      std::printf("    %-14s %8.1f [%.1f, %.1f]\n", what, series.Median() * 1e3, series.Smallest() * 1e3,
                  series.Largest() * 1e3);
    }
    std::printf("    the slowest part is %.2f [%.2f, %.2f] of the whole step\n", ratio.Median(), ratio.Smallest(),
                ratio.Largest());
  }
};

}  // namespace

void MeasureCluster(const GpuClusterOptions& options) {
  Wire wire;  // forks: comes first
  double model_bytes = 0;
  for (const Slice& slice : MakeSliceGrid(OrDie(InferVariables(LargeModel()))).slices) {
    model_bytes += static_cast<double>(slice.bytes());
  }
  std::string folder = (fs::temp_directory_path() / "bench_gpu_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  WriteData(folder);

  std::printf("the same step with 1 worker and %d ps on this host, bf16, fp32 on the wire: ms\n", kServers);
  for (const Overlap& overlap : {Overlap{1, false}, Overlap{16, false}, Overlap{16, true}}) {
    StepTimes times;
    for (int run = 0; run < options.runs; ++run) {
      const double step = SecondsOfClusterStep(options, folder, overlap);
      const DeviceParts device = MeasureDevice(options.device, model_bytes);
      times.Add(step, static_cast<double>(overlap.push_every), device, wire.Seconds(model_bytes),
                SecondsOfUpdates(model_bytes));
    }
    times.Print(overlap);
  }
  fs::remove_all(folder);
}

}  // namespace downpour
