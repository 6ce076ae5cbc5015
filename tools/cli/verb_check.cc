#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cluster/output_options.h"
#include "cluster/private_folder.h"
#include "tools/cli/job_options.h"
#include "tools/cli/job_summary.h"
#include "tools/cli/job_warnings.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

using nlohmann::json;

struct CheckOptions {
  JobOptions job;
  PythonCode code;
  bool json = false;
};

json ErrorsJson(const std::vector<JobError>& errors) {
  json list = json::array();
  for (const JobError& error : errors) {
    list.push_back({{"place", PlaceOf(error)},
                    {"key", error.key},
                    {"what", error.what},
                    {"remedy", error.remedy.empty() ? "see docs/JOB_FILE.md for what is allowed" : error.remedy}});
  }
  return list;
}

int RunCheck(CheckOptions options, Streams streams) {
  const absl::StatusOr<PrivateFolder> scratch = PrivateFolder::Make();
  if (!scratch.ok()) return Complain(streams, "check", std::string(scratch.status().message()), kExitFailed);
  const int described = DescribeCode("check", scratch->path(), options.code, &options.job, streams);
  if (described != kExitDone) return described;
  JobFileResult result = LoadChosenJob(options.job, "check", streams).parsed;
  const DataFacts facts = LookAtData(result);
  for (JobError& warning : TellWarnings("check", result, facts, streams)) result.warnings.push_back(std::move(warning));
  for (const JobError& error : facts.errors) {
    streams.err << ToString(error) << "\n";
    result.errors.push_back(error);
  }
  if (options.json) {
    json document = result.ok() ? JobSummaryJson(result.job, facts) : json::object();
    document["errors"] = ErrorsJson(result.errors);
    document["warnings"] = ErrorsJson(result.warnings);
    streams.out << document.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
  }
  if (!result.ok()) {
    const size_t errors = result.errors.size();
    streams.err << errors << (errors == 1 ? " error" : " errors") << "; docs/JOB_FILE.md lists every key\n";
    return kExitBadJobFile;
  }
  if (!options.json) streams.out << JobSummary(result.job, facts);
  return kExitDone;
}

std::function<int()> SetUpCheck(CLI::App& app, Streams streams) {
  auto options = std::make_shared<CheckOptions>();
  AddJobOptions(app, &options->job);
  AddPythonOptions(app, &options->code);
  AddFormatOption(app, "table, or json as docs/JOB_FILE.md has it", &options->json);
  return [options, streams] { return RunCheck(*options, streams); };
}

}  // namespace

const Verb kCheckVerb = {"check", "Say what a job file would run, or everything that is wrong with it",
                         "  downpour check job.yaml\n"
                         "  downpour check job.yaml --set training.epochs=3 --set cluster.workerCount=8\n"
                         "  downpour check job.yaml --config config.yaml --scale-tier premium-1\n"
                         "  downpour check job.yaml --package-path trainer --module-name trainer.task\n",
                         "0 the job can run, 1 its Python code raised, 78 it cannot run", SetUpCheck};

}  // namespace downpour
