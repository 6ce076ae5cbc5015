// Trains a job in simulated time with real arithmetic, and prints its summary.json.
//
//   sim_learning JOB.yaml [--set KEY=VALUE ...] [--draw 1] [--step-ms 20]
//
// Times in the summary are simulated. Exits 1 where the job does not end.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include "runtime/posix/job_file.h"
#include "tests/sim/learning/learning_world.h"

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  CLI::App app("Trains a job in simulated time with real arithmetic.");
  std::string file;
  std::vector<std::string> overrides;
  uint64_t plan = 1;
  int64_t step_ms = 20;
  app.add_option("job", file, "the job file")->required();
  app.add_option("--set", overrides, "override an entry of it")->allow_extra_args(false);
  app.add_option("--draw", plan, "from which times are drawn");
  app.add_option("--step-ms", step_ms, "how long a worker's step takes, on the mean");
  CLI11_PARSE(app, argc, argv);
  const downpour::JobFileResult job = downpour::LoadJobFile(file, overrides);
  for (const downpour::JobError& error : job.errors) std::cerr << ToString(error) << "\n";
  if (!job.ok()) return 1;
  if (job.job.training.wire != downpour::WireFormat::kFp32) {
    std::cerr << "training.wire: bf16 keeps residuals on each worker, and one device computes for all\n";
    return 1;
  }
  downpour::LearningWorld world({.job = job.job, .seed = plan, .step = std::chrono::milliseconds(step_ms)});
  const auto summary = world.Run();
  if (!summary.ok()) {
    std::cerr << summary.status() << "\n";
    return 1;
  }
  std::cout << summary->dump() << std::endl;
  return 0;
}
