#include <CLI/CLI.hpp>
#include <memory>

#include "tools/job_options.h"
#include "tools/job_summary.h"
#include "tools/verbs.h"

namespace downpour {
namespace {

int Run(const JobOptions& options, Streams streams) {
  const JobFileResult result = LoadChosenJob(options, "check", streams).parsed;
  const DataFacts facts = result.ok() ? LookAtData(result.job) : DataFacts();
  for (const std::string& error : facts.errors) streams.err << options.job_file << ": " << error << "\n";
  const size_t errors = result.errors.size() + facts.errors.size();
  if (errors > 0) {
    streams.err << errors << (errors == 1 ? " error" : " errors") << "; docs/JOB_FILE.md lists every key\n";
    return kExitBadJobFile;
  }
  streams.out << JobSummary(result.job, facts);
  return kExitDone;
}

std::function<int()> SetUp(CLI::App& app, Streams streams) {
  auto options = std::make_shared<JobOptions>();
  AddJobOptions(app, options.get());
  return [options, streams] { return Run(*options, streams); };
}

}  // namespace

const Verb kCheckVerb = {"check", "Say what a job file would run, or everything that is wrong with it",
                         "  downpour check job.yaml\n"
                         "  downpour check job.yaml --set training.epochs=3 --set cluster.workerCount=8\n"
                         "  downpour check job.yaml --config config.yaml --scale-tier premium-1\n",
                         "0 the job can run, 78 it cannot", SetUp};

}  // namespace downpour
