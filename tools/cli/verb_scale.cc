#include <CLI/CLI.hpp>
#include <memory>

#include "schema/job_reader.h"
#include "tools/cli/verbs.h"
#include "tools/cluster/job_command.h"
#include "tools/cluster/status_source.h"

namespace downpour {
namespace {

struct Options {
  StatusSource source;
  uint32_t workers = 0;
};

int Scale(const Options& options, Streams streams) {
  StatusAsker asker(options.source);
  const absl::StatusOr<CommandOutcome> told = CommandJob(asker, ControlKind::kScale, options.workers);
  if (!told.ok()) return Complain(streams, "scale", std::string(told.status().message()), ExitCodeOf(told.status()));
  if (told->was_over) {
    return Complain(streams, "scale",
                    told->was_said ? "the job ended before its chief answered: a later start may have the new number"
                                   : "the job is over: nobody is left to scale",
                    kExitFailed);
  }
  streams.out << told->words << "\n";
  if (told->before.status->workers.value_or(0) >= options.workers) return kExitDone;  // no new one is to be started
  // Where nobody starts them, the chief knows what to type.
  const absl::StatusOr<Answer> now = asker.Ask();
  if (!now.ok() || !now->status) return kExitDone;
  for (const std::string& command : now->status->next) {
    if (command.starts_with("downpour-worker ")) streams.out << "start each by: " << command << "\n";
  }
  return kExitDone;
}

std::function<int()> SetUp(CLI::App& app, Streams streams) {
  auto options = std::make_shared<Options>();
  AddSourceOptions(app, &options->source);
  app.add_option("--workers", options->workers, "How many workers the job is to have from now on")
      ->required()
      ->check(CLI::Range(int64_t{1}, kMostTasks))
      ->type_name("N");
  app.footer(
      "`downpour run` starts the new ones itself. With fewer, those with the highest numbers leave in good order:\n"
      "others go on with their leases. The number outlives the chief; a job file whose workerCount is changed\n"
      "beats it at the next start. Parameter servers cannot be scaled while the job runs.\n" +
      app.get_footer());
  return [options, streams] { return Scale(*options, streams); };
}

}  // namespace

const Verb kScaleVerb = {"scale", "Give a running job more workers, or fewer",
                         "  downpour scale --workers 8 --job-dir runs/first\n"
                         "  downpour scale --workers 2 --chief h0:7000 --keys keys\n",
                         "0 the chief has accepted it, 1 it refuses or the job is over, 69 the chief cannot be reached",
                         SetUp};

}  // namespace downpour
