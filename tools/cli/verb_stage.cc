#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <utility>

#include "checkpoint/checkpoint_reader.h"
#include "cluster/job_folder.h"
#include "cluster/private_folder.h"
#include "tools/cli/job_options.h"
#include "tools/cli/python_code.h"
#include "tools/cli/staged_code.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

struct StageOptions {
  JobOptions job;
  PythonCode code;
  std::string out;
};

int Stage(StageOptions options, Streams streams) {
  const auto complain = [&](const absl::Status& status) {
    return Complain(streams, "stage", std::string(status.message()), ExitCodeOfCode(status));
  };
  const absl::StatusOr<PrivateFolder> scratch = PrivateFolder::Make();
  if (!scratch.ok()) return complain(scratch.status());
  const std::string out = fs::absolute(options.out).lexically_normal();
  absl::StatusOr<CodeOfFiles> of_files = AddCodeOfFiles(options.job, options.code, Store::kNone);
  if (!of_files.ok()) return complain(of_files.status());
  PythonCode& code = of_files->code;
  if (const std::string why = WhyNoCode(code); !why.empty())
    return Complain(streams, "stage", why, kExitBadCommandLine);
  if (of_files->has_job_dir && !of_files->job_dir.empty()) {
    code.args.insert(code.args.end(), {"--job-dir", fs::absolute(of_files->job_dir).lexically_normal()});
  }
  if (!code.module.empty()) {
    absl::StatusOr<PythonJob> python = DescribePythonCode(code, KnownOf(options.job), scratch->path(), out);
    if (!python.ok()) return complain(python.status());
    options.job.of_code = *std::move(python);
  }
  const ChosenJob chosen = LoadChosenJob(options.job, "stage", streams);
  if (!chosen.parsed.ok()) return kExitBadJobFile;
  const absl::StatusOr<UniqueFd> claim = ClaimJobFolder(out);
  if (!claim.ok()) return complain(claim.status());
  if (const absl::Status same = CheckPlanIn(out, chosen.parsed.job); !same.ok()) return complain(same);
  const auto staged = code.module.empty() ? StageJob(chosen.parsed.job, out)
                                          : StagePythonCode(options.job.of_code.archive, chosen.parsed.job,
                                                            scratch->path(), out, Accepted::kAtOnce);
  if (!staged.ok()) return complain(staged.status());
  SettlePythonCode(out);
  streams.out << *staged << "\n";
  return kExitDone;
}

std::function<int()> SetUpStage(CLI::App& app, Streams streams) {
  auto options = std::make_shared<StageOptions>();
  AddJobOptions(app, &options->job);
  AddPythonOptions(app, &options->code);
  app.add_option("--job-dir", options->out, "The job folder of the chief that will lead it")->required();
  return [options, streams] { return Stage(*options, streams); };
}

}  // namespace

const Verb kStageVerb = {
    "stage", "Put a job and its Python code, if it has some, into a job folder, for a chief started by hand",
    "  downpour stage job.yaml --job-dir /jobs/a --package-path trainer --module-name trainer.task\n"
    "  downpour-chief --job=/jobs/a/python/job.json --job_dir=/jobs/a --listen=10.0.0.1:7000\n",
    "0 done, 1 the code failed, 78 bad job file or code", SetUpStage};

}  // namespace downpour
