#include <CLI/CLI.hpp>
#include <memory>

#include "runtime/posix_job_file.h"
#include "tools/job_summary.h"
#include "tools/verbs.h"

namespace downpour {
namespace {

struct Options {
  std::string job_file;
  std::vector<std::string> overrides;
};

int Run(const Options& options, Streams streams) {
  JobFileResult result = LoadJobFile(options.job_file, options.overrides);
  const DataFacts facts = result.ok() ? LookAtData(result.job) : DataFacts();
  for (const JobError& error : result.errors) streams.err << ToString(error) << "\n";
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
  auto options = std::make_shared<Options>();
  app.add_option("job", options->job_file, "The job file")->required()->type_name("JOB.yaml");
  app.add_option("--set", options->overrides, "Override an entry of the job file: training.epochs=3")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  return [options, streams] { return Run(*options, streams); };
}

}  // namespace

const Verb kCheckVerb = {"check", "Say what a job file would run, or everything that is wrong with it",
                         "  downpour check job.yaml\n"
                         "  downpour check job.yaml --set training.epochs=3 --set cluster.workerCount=8\n",
                         SetUp};

}  // namespace downpour
