// What a step in the process of the user's Python code costs beyond what that code computes, against a memcpy.
//
//   bench_python_child [--runs N] [--steps N] [--python PROGRAM]      PYTHONPATH has the package downpour
//
// All parameters go to the process and all gradients come back. The ceiling is one memcpy of both between warm buffers.
// The user's code is NumPy and returns a gradient that it has, so the step is all cost. Runs alternate.
#include <glog/logging.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_series.h"
#include "job/slice_grid.h"
#include "runtime/compute.h"
#include "runtime/posix/package.h"
#include "schema/sha256.h"
#include "worker/python/python_computer.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr char kTask[] = R"(
import sys, numpy, downpour
values = {"weight": numpy.zeros(int(sys.argv[1]), numpy.float32)}
gradients = {"weight": numpy.ones(int(sys.argv[1]), numpy.float32)}
downpour.fit(values, train=numpy.zeros((1024, 1)), step=lambda model, batch: (0.0, gradients), epochs=1, batch_size=1)
)";

double Milliseconds(const auto& what) {
  const auto began = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

JobSpec MakeJob(const Payload& archive, int64_t elements) {
  JobSpec job;
  job.model.loss = Loss::kOwn;
  job.model.variables = {{"weight", {elements}}};
  job.training.batch_size = 1;
  job.training.lease_batches = 1024;
  job.data.format = kPythonFormat;
  job.data.train_examples = 1024;
  job.python = {.module = "task",
                .sha256 = Sha256Of({archive}),
                .bytes = static_cast<int64_t>(archive.size()),
                .args = {std::to_string(elements)}};
  return job;
}

void Measure(const Payload& archive, const PythonOptions& options, int64_t mib, int runs, int steps) {
  const JobSpec job = MakeJob(archive, (mib << 20) / static_cast<int64_t>(sizeof(float)));
  const SliceGrid grid = GridOf(job.model).value();
  PythonComputer computer(options);
  computer.Run(Prepare{job, {archive}},
               [](const absl::Status& status, const ComputeResult&) { CHECK(status.ok()) << status; });
  TrainStep step{.lease = LeaseId{0}, .step = 0, .updates = {}};
  for (const Slice& slice : grid.slices) step.updates.emplace_back(slice.id, Payload::Zeros(grid.WireBytes(slice.id)));
  const auto bytes = static_cast<size_t>(2 * mib << 20);
  std::vector<char> from(bytes, 1), to(bytes, 2);
  Series child, copy, ratio;
  for (int run = -1; run < runs; ++run) {  // the first one warms up
    const double stepping = Milliseconds([&] {
      for (int i = 0; i < steps; ++i) {
        step.step = step.step % 1024 + 1;
        step.next = std::pair(step.lease, step.step % 1024 + 1);  // as a worker tells it
        computer.Run(step, [](const absl::Status& status, const ComputeResult&) { CHECK(status.ok()) << status; });
      }
    });
    const double copying = Milliseconds([&] {
      for (int i = 0; i < steps; ++i) std::memcpy(to.data(), from.data(), bytes);
    });
    if (run < 0) continue;
    child.values.push_back(stepping / steps);
    copy.values.push_back(copying / steps);
    ratio.values.push_back(stepping / copying);
  }
  std::printf("%4ld MiB: step %.3f [%.3f, %.3f] ms, memcpy of parameters and gradients %.3f [%.3f, %.3f] ms: ",
              static_cast<long>(mib), child.Median(), child.Smallest(), child.Largest(), copy.Median(), copy.Smallest(),
              copy.Largest());
  std::printf("%.2f [%.2f, %.2f]\n", ratio.Median(), ratio.Smallest(), ratio.Largest());
}

int Main(int argc, char** argv) {
  CLI::App app("The cost of a Python process beside a worker");
  int runs = 5, steps = 20;
  PythonOptions options{.code_folder = fs::temp_directory_path() / ("bench-python-code-" + std::to_string(getpid()))};
  app.add_option("--runs", runs)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "in a run")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--python", options.interpreter)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const fs::path package = fs::temp_directory_path() / ("bench-python-" + std::to_string(getpid()));
  fs::create_directories(package);
  std::ofstream(package / "task.py") << kTask;
  const std::string packed = PackFolder(package, "code").value();
  const Payload archive = Payload::CopyOf(packed.data(), packed.size());
  for (const int64_t mib : {1, 256}) Measure(archive, options, mib, runs, steps);
  for (const std::string& folder : {package.string(), options.code_folder}) fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) { return downpour::Main(argc, argv); }
