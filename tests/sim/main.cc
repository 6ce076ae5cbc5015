// Runs the simulated cluster for one seed or for many.
//
//   sim --seed 4711 [--verbose] [--traces DIR]   one run; the draw, every event, the trace records
//   sim --seeds 250 --first 1                    many; the last line counts them; stops at the first finding
//
// Exits 1 at a finding, after printing it with seed and draw.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/sim/crash_scenario.h"
#include "tests/sim/fault_plan.h"

namespace downpour {
namespace {

uint64_t seed_under_way = 0;

// A CHECK of a role is a finding too: say what to run again.
void SayWhereItFailed(int) {
  std::cerr << "a check failed; repeat with: sim --seed " << seed_under_way << " --verbose\n"
            << FaultPlanOf(seed_under_way).ToString() << std::endl;
}

RunResult RunSeed(uint64_t seed, const RunOptions& options) {
  seed_under_way = seed;
  return CrashScenario(FaultPlanOf(seed), options).Run();
}

void PrintFinding(uint64_t seed, const RunResult& result) {
  std::cerr << "FINDING: " << result.finding << "\n"
            << FaultPlanOf(seed).ToString() << "\n"
            << "repeat with: sim --seed " << seed << " --verbose" << std::endl;
}

int RunOne(uint64_t seed, bool verbose, const std::string& traces) {
  if (verbose) std::cerr << FaultPlanOf(seed).ToString() << "\n";
  const RunResult result = RunSeed(seed, {verbose ? &std::cerr : nullptr, traces});
  std::cout << absl::StreamFormat(
      "seed %d digest %016x steps %d faults %d pushes %d duplicates %d stops %d failures %d "
      "sets %d rows %d simulated %.1f s calm %.1f s (%.2f of its time)\n",
      seed, result.digest, result.steps, Total(result.faults), result.pushes, result.duplicates, result.stops,
      result.failures, result.sets, result.rows, Seconds(result.took), Seconds(result.calm_took), result.calm_share);
  if (!result.ok()) PrintFinding(seed, result);
  return result.ok() ? 0 : 1;
}

int RunMany(uint64_t first, uint64_t count) {
  RunResult sum;
  uint64_t slowest = first;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RunResult result = RunSeed(seed, {});
    if (!result.ok()) {
      PrintFinding(seed, result);
      return 1;
    }
    sum.steps += result.steps;
    Add(result.faults, sum.faults);
    sum.pushes += result.pushes;
    sum.duplicates += result.duplicates;
    sum.sets += result.sets;
    sum.rows += result.rows;
    sum.stops += result.stops;
    sum.failures += result.failures;
    if (result.calm_share > sum.calm_share) slowest = seed;
    sum.calm_share = std::max(sum.calm_share, result.calm_share);
  }
  std::cout << absl::StreamFormat(
      "seeds %d first %d steps %d faults %d stops %d failures %d pushes %d duplicates %d "
      "sets %d rows %d slowest %d (%.2f of its time) lost: 0 doubled: 0\n",
      count, first, sum.steps, Total(sum.faults), sum.stops, sum.failures, sum.pushes, sum.duplicates, sum.sets,
      sum.rows, slowest, sum.calm_share);
  return 0;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  std::signal(SIGABRT, &downpour::SayWhereItFailed);
  CLI::App app("Simulates a whole cluster from a seed.");
  uint64_t seed = 0, first = 1, seeds = 0;
  bool verbose = false;
  std::string traces;
  app.add_option("--seed", seed, "run this one");
  app.add_option("--seeds", seeds, "run this many");
  app.add_option("--first", first, "beginning with this one");
  app.add_flag("--verbose", verbose, "print every event (with --seed)");
  app.add_option("--traces", traces, "write trace files into this folder (with --seed)")->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  return seeds > 0 ? downpour::RunMany(first, seeds) : downpour::RunOne(seed, verbose, traces);
}
