// What reading its examples costs a worker that computes on the host: training from CSV, against reading the same rows
// and doing nothing else, and against training on rows that are decoded already.
//
//   bench_input [--runs N] [--rows N] [--units N]
//
// read:    batches as the plan draws them, in the thread that asks for them, each piece once.
// compute: steps on the rows of one lease, which are decoded.
// train:   steps on all rows, decoded ahead on threads of the data set's own (data/piece_cache.h).
// One after the other, reading and computing would have the rate 1 / (1 / read + 1 / compute).
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/bench_series.h"
#include "job/job_file.h"
#include "job/slice_grid.h"
#include "model/batch_reader.h"
#include "model/trainer.h"
#include "runtime/plan.h"
#include "runtime/prng.h"
#include "tensor/host_backend.h"

namespace downpour {
namespace {

constexpr int kColumns = 40;
constexpr int64_t kBatch = 256;

JobSpec WriteRowsAndJob(const std::string& folder, uint64_t rows, int units) {
  std::string text = "y", columns;
  for (int i = 0; i < kColumns; ++i) absl::StrAppend(&text, ",f", i);
  for (int i = 0; i < kColumns; ++i) absl::StrAppend(&columns, i == 0 ? "" : ", ", "f", i);
  Prng draw(1);
  for (uint64_t row = 0; row < rows; ++row) {
    absl::StrAppend(&text, "\n", draw.Below(2));
    for (int i = 0; i < kColumns; ++i) absl::StrAppendFormat(&text, ",%.6f", draw.Uniform() * 2 - 1);
  }
  std::ofstream(folder + "/rows.csv", std::ios::binary) << text << "\n";
  JobFileResult parsed = ParseJob(
      absl::StrCat("name: bench\nmodel: {inputs: [{name: x, columns: all}], layers: [{dense: {units: ", units,
                   ", activation: relu}}, {dense: {units: 2}}]}\ntraining: {batchSize: ", kBatch,
                   "}\ndata: {format: csv, train: ", folder, "/rows.csv, label: y, columns: [", columns, "]}\n"),
      "bench");
  CHECK(parsed.errors.empty()) << ToString(parsed.errors.front());
  return std::move(parsed.job);
}

template <class Run>
double Seconds(const Run& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double ReadRate(const JobSpec& job, const Plan& plan) {
  const absl::StatusOr<Examples> train = Examples::Open(job.data, job.data.train, job.model);
  CHECK(train.ok()) << train.status();
  BatchReader reader;
  std::vector<uint64_t> ids;
  const double took = Seconds([&] {
    for (uint64_t lease = 0; lease < plan.total_leases(); ++lease) {
      for (Step step = 1; step <= plan.StepsOf(LeaseId{lease}); ++step) {
        plan.Examples(LeaseId{lease}, step, &ids);
        const absl::Status read = reader.ReadNow(*train, ids);
        CHECK(read.ok()) << read;
      }
    }
  });
  return static_cast<double>(plan.train_examples()) / took;
}

class Training {
 public:
  explicit Training(const JobSpec& job) : trainer_(MakeHostBackend({})) {
    Run(Prepare{job});
    const SliceGrid grid = GridOf(job.model).value();
    for (const Slice& slice : grid.slices) values_.emplace_back(slice.id, Payload::Zeros(grid.WireBytes(slice.id)));
  }

  // Examples per second over these leases, one behind the other.
  double Rate(const Plan& plan, const std::vector<LeaseId>& leases) {
    uint64_t examples = 0;
    const double took = Seconds([&] {
      for (size_t i = 0; i < leases.size(); ++i) {
        for (Step step = 1; step <= plan.StepsOf(leases[i]); ++step) {
          TrainStep request{.lease = leases[i], .step = step, .updates = values_};
          if (i + 1 < leases.size()) request.lease_behind = leases[i + 1];
          examples += plan.ExamplesOf(leases[i], step);
          Run(request);
        }
      }
    });
    return static_cast<double>(examples) / took;
  }

 private:
  void Run(const ComputeRequest& request) {
    trainer_.Run(request, [](const absl::Status& status, const ComputeResult&) { CHECK(status.ok()) << status; });
  }

  Trainer trainer_;
  SliceValues values_;
};

void Measure(const JobSpec& job, uint64_t rows, int runs) {
  const Plan plan(job, rows);
  std::vector<LeaseId> all, one;
  for (uint64_t lease = 0; lease < plan.leases_per_epoch(); ++lease) all.push_back(LeaseId{lease});
  one.assign(all.size(), LeaseId{0});
  Series read, compute, train, of_reading, of_slower, of_both;
  for (int run = 0; run < runs; ++run) {
    const double reading = ReadRate(job, plan);
    const double training = Training(job).Rate(plan, all);
    Training decoded(job);
    decoded.Rate(plan, {LeaseId{0}});
    const double computing = decoded.Rate(plan, one);
    read.values.push_back(reading);
    compute.values.push_back(computing);
    train.values.push_back(training);
    of_reading.values.push_back(training / reading);
    of_slower.values.push_back(training / std::min(reading, computing));
    of_both.values.push_back(training * (1 / reading + 1 / computing));
  }
  for (const auto& [what, series] : {std::pair("read", &read), {"compute", &compute}, {"train", &train}}) {
    std::printf("%-8s %8.0f [%.0f, %.0f] examples/s\n", what, series->Median(), series->Smallest(), series->Largest());
  }
  const auto ratio = [](const char* what, const Series& of) {
    std::printf("train is %.2f [%.2f, %.2f] of %s\n", of.Median(), of.Smallest(), of.Largest(), what);
  };
  ratio("reading alone", of_reading);
  ratio("the slower of both", of_slower);
  ratio("one after the other", of_both);
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("What reading its examples costs a worker that computes on the host");
  int runs = 5, units = 64;
  uint64_t rows = 300'000;
  app.add_option("--runs", runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--rows", rows, "Of the CSV file")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--units", units, "Of the hidden layer")->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "bench_input_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  downpour::Measure(downpour::WriteRowsAndJob(folder, rows, units), rows, runs);
  std::filesystem::remove_all(folder);
}
