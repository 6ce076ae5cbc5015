// How fast a cluster trains, against the same model trained in one process without any ps.
//
//   bench_train [--runs N] [--batch-size N] [--epochs N]
//
// The ceiling is one thread that reads, computes and updates in place with the same kernels: nothing is sent. The
// clusters are real processes on this machine, of 1 chief + 1 ps + 1 worker and of 1 + 2 + 2, each without and with
// training.pullAhead. Each run measures all, one after the other; rates are examples per second of training, without
// start and end.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/bench_series.h"
#include "bench/bench_tool.h"
#include "job/job_file.h"
#include "model/trainer.h"
#include "ps/optimizer.h"
#include "runtime/initial_values.h"
#include "runtime/plan.h"
#include "tensor/host_backend.h"
#include "tools/digits.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

JobSpec MakeJob(const std::string& data, int64_t batch_size, int64_t epochs) {
  JobSpec job;
  job.name = "bench-train";
  job.model.inputs = {{"image", {kDigitSide, kDigitSide, 1}}};
  job.model.layers = {{"dense_0", {"image"}, DenseSpec{256, Activation::kRelu, true}},
                      {"dense_1", {"dense_0"}, DenseSpec{128, Activation::kRelu, true}},
                      {"dense_2", {"dense_1"}, DenseSpec{10, Activation::kNone, true}}};
  job.training.batch_size = batch_size;
  job.training.epochs = epochs;
  job.training.optimizer = {.kind = OptimizerKind::kMomentum, .learning_rate = 0.02, .momentum = 0.9};
  job.data.train = {data + "/train-images-idx3-ubyte", data + "/train-labels-idx1-ubyte"};
  job.checkpoint.every = std::chrono::nanoseconds(0);
  return job;
}

// One process, one thread: a trainer, and the ps's optimizer applied to its gradients on the spot.
class OneProcess {
 public:
  explicit OneProcess(const JobSpec& job) : grid_(GridOf(job.model).value()), trainer_(MakeHostBackend({})) {
    trainer_.Run(Prepare{job}, [&](absl::Status status, ComputeResult result) {
      CHECK(status.ok()) << status;
      plan_ = Plan(job, std::get<Prepared>(result).train_examples);
      optimizer_.emplace(job, grid_, plan_);
    });
    for (const Slice& slice : grid_.slices) {
      DenseValues& served = slices_.emplace_back().dense;
      served.values = Payload::Allocate(static_cast<size_t>(slice.bytes()));
      InitialValues(job.seed, grid_, slice.id, served.values.mutable_floats().data());
      for (int slot = 0; slot < SlotCount(job.training); ++slot) {
        served.slots.push_back(Payload::Zeros(static_cast<size_t>(slice.bytes())));
      }
    }
  }

  // Trains one epoch; examples per second.
  double TrainEpoch(uint64_t epoch) {
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t split = 0; split < plan_.leases_per_epoch(); ++split) {
      const LeaseId lease{epoch * plan_.leases_per_epoch() + split};
      for (Step step = 1; step <= plan_.StepsOf(lease); ++step) TrainBatch(lease, step);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(plan_.train_examples()) / taken.count();
  }

 private:
  void TrainBatch(LeaseId lease, Step step) {
    TrainStep request{lease, step, {}};
    for (const Slice& slice : grid_.slices)
      request.updates.emplace_back(slice.id, slices_[ToNumber(slice.id)].dense.values);
    SliceValues gradients;
    trainer_.Run(request, [&](absl::Status status, ComputeResult result) {
      CHECK(status.ok()) << status;
      for (auto& gradient : std::get<Gradients>(result).slices) gradients.push_back(std::move(gradient));
    });
    request.updates.clear();  // so that the values are updated in place
    for (const auto& [slice, gradient] : gradients) {
      auto& [envelope, dense] = slices_[ToNumber(slice)];
      CHECK(optimizer_->Apply(slice, gradient.floats(), 0, envelope, dense));
    }
  }

  SliceGrid grid_;
  Plan plan_;
  std::optional<Optimizer> optimizer_;
  Trainer trainer_;
  struct DenseSlice {
    SliceEnvelope envelope;
    DenseValues dense;
  };
  std::vector<DenseSlice> slices_;
};

struct Cluster {
  const char* name;
  int servers = 1;
  int workers = 1;
  bool pull_ahead = false;
  bool shares_memory = true;
  Series rate = {}, ratio = {};
};

double TrainCluster(const std::string& downpour, const std::string& folder, JobSpec job, const Cluster& cluster) {
  job.cluster.parameter_server_count = cluster.servers;
  job.cluster.worker_count = cluster.workers;
  job.training.pull_ahead = cluster.pull_ahead;
  const std::string job_file = folder + "/job.json";
  const std::string job_dir = folder + "/job";
  fs::remove_all(job_dir);
  std::ofstream(job_file) << CanonicalJob(job);
  const std::string command = absl::StrCat("DOWNPOUR_SHARE_MEMORY=", cluster.shares_memory ? 1 : 0, " '", downpour,
                                           "' run '", job_file, "' --job-dir '", job_dir, "' >'", folder, "/log' 2>&1");
  CHECK_EQ(std::system(command.c_str()), 0) << "see " << folder << "/log";
  return nlohmann::json::parse(std::ifstream(job_dir + "/summary.json")).at("examplesPerSecond");
}

void Print(const Cluster& cluster) {
  const Series &rate = cluster.rate, &ratio = cluster.ratio;
  std::printf("%-36s %8.0f examples/s  [%8.0f, %8.0f]   %5.2f of one process  [%4.2f, %4.2f]\n", cluster.name,
              rate.Median(), rate.Smallest(), rate.Largest(), ratio.Median(), ratio.Smallest(), ratio.Largest());
}

void Measure(const std::string& downpour, int runs, int64_t batch_size, int64_t epochs) {
  std::string folder = (fs::temp_directory_path() / "bench_train_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  CHECK(WriteDigits(folder, 1, Difficulty::kUsual).ok());
  const JobSpec job = MakeJob(folder, batch_size, epochs);
  OneProcess one_process(job);
  one_process.TrainEpoch(0);  // warms up

  Series alone;
  std::vector<Cluster> clusters = {{"1 chief, 1 ps, 1 worker", 1, 1, false},
                                   {"the same without shared memory", 1, 1, false, false},
                                   {"1 chief, 1 ps, 1 worker, pullAhead", 1, 1, true},
                                   {"1 chief, 2 ps, 2 workers", 2, 2, false},
                                   {"the same without shared memory", 2, 2, false, false},
                                   {"1 chief, 2 ps, 2 workers, pullAhead", 2, 2, true}};
  for (int run = 0; run < runs; ++run) {
    alone.values.push_back(one_process.TrainEpoch(0));
    for (Cluster& cluster : clusters) {
      cluster.rate.values.push_back(TrainCluster(downpour, folder, job, cluster));
      cluster.ratio.values.push_back(cluster.rate.values.back() / alone.values.back());
    }
  }
  std::printf("784-256-128-10, momentum, batches of %ld, %ld epochs of 60,000, %d runs: median [smallest, largest]\n",
              static_cast<long>(batch_size), static_cast<long>(epochs), runs);
  std::printf("%-36s %8.0f examples/s  [%8.0f, %8.0f]\n", "one process", alone.Median(), alone.Smallest(),
              alone.Largest());
  for (const Cluster& cluster : clusters) Print(cluster);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("Examples per second of a cluster, against one process without any ps");
  int runs = 5;
  int64_t batch_size = 256;
  int64_t epochs = 3;
  std::string downpour = downpour::DownpourOfThisBuild();
  app.add_option("--runs", runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--batch-size", batch_size, "Examples in a batch")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--epochs", epochs, "Epochs that a cluster trains")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--downpour", downpour, "The command-line tool")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  downpour::Measure(downpour, runs, batch_size, epochs);
}
