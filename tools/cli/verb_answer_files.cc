#include <CLI/CLI.hpp>
#include <memory>

#include "service/batch_prediction.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

int AnswerPlan(const std::string& path, Streams streams) {
  const absl::StatusOr<BatchPlan> plan = ReadPlan(path);
  const absl::Status done = plan.ok() ? AnswerFiles(*plan) : plan.status();
  if (!done.ok()) return Complain(streams, "answer-files", std::string(done.message()), kExitFailed);
  const BatchProgress progress = ProgressOfBatch(path.substr(0, path.rfind("/service/")));
  streams.err << progress.predictions << " predictions, " << progress.errors << " errors, in " << plan->output << "\n";
  return kExitDone;
}

std::function<int()> SetUpAnswerFiles(CLI::App& app, Streams streams) {
  auto path = std::make_shared<std::string>();
  app.add_option("PLAN", *path, "What the job service wrote")->required()->type_name("PLAN.json");
  return [path, streams] { return AnswerPlan(*path, streams); };
}

}  // namespace

const Verb kAnswerFilesVerb = {"answer-files", "Carry out a batch prediction of the job service, which calls it",
                               "  downpour answer-files ROOT/jobs/NAME/service/plan.json\n",
                               "0 done, 1 there is no model, or a file cannot be read or written", SetUpAnswerFiles};

}  // namespace downpour
