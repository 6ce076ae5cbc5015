#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/checkpoint_reader.h"
#include "cluster/job_command.h"
#include "cluster/job_folder.h"
#include "cluster/status_source.h"
#include "job/job_file.h"
#include "job/job_reader.h"
#include "runtime/posix/process.h"
#include "tools/cli/doctor_job.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct ScaleOptions {
  StatusSource source;
  uint32_t workers = 0;
};

// Of new workers that `downpour run` would start on this host, beside those that the job wants already. Empty: they
// have room, or are started elsewhere.
std::string WhyNoRoom(const ScaleOptions& options, StatusAsker& asker) {
  const std::string& job_dir = options.source.job_dir;
  if (job_dir.empty() || !HasRun(job_dir)) return "";
  const absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir);
  if (!chief.ok() || chief->host != HostName()) return "";
  const absl::StatusOr<Answer> now = asker.Ask();
  if (!now.ok() || !now->status) return "";
  const uint64_t wanted = now->status->workers.wanted.value_or(options.workers);
  const JobRecord record = NewestJournalEntry(job_dir).record;
  const absl::StatusOr<JobSpec> job = ParseCanonicalJob(record.job);
  if (wanted >= options.workers || !job.ok() || !record.data) return "";
  DataFacts facts;
  facts.train_examples = record.data->train_examples;
  facts.eval_examples = record.data->eval_examples;
  return WhyNoRoomFor(static_cast<uint32_t>(options.workers - wanted), *job, facts, LookAtHost(job_dir));
}

int Scale(const ScaleOptions& options, Streams streams) {
  StatusAsker asker(options.source);
  if (const std::string why = WhyNoRoom(options, asker); !why.empty()) {
    return Complain(streams, "scale", why, kExitFailed);
  }
  const absl::StatusOr<CommandOutcome> told = CommandJob(asker, ControlKind::kScale, options.workers);
  if (!told.ok()) return Complain(streams, "scale", std::string(told.status().message()), ExitCodeOf(told.status()));
  if (told->was_over) {
    return Complain(streams, "scale",
                    told->was_said ? "the job ended before its chief answered: a later start may have the new number"
                                   : "the job is over: nobody is left to scale",
                    kExitFailed);
  }
  streams.out << told->words << "\n";
  if (told->before.status->workers.wanted.value_or(0) >= options.workers)
    return kExitDone;  // no new one is to be started
  // Where nobody starts them, the chief knows what to type.
  const absl::StatusOr<Answer> now = asker.Ask();
  if (!now.ok() || !now->status) return kExitDone;
  for (const std::string& command : now->status->next) {
    if (command.starts_with("downpour-worker ")) streams.out << "start each by: " << command << "\n";
  }
  return kExitDone;
}

std::string WhyNoCount(const std::string& word) {
  int64_t count = 0;
  const bool is_one = absl::SimpleAtoi(word, &count) && count >= 1 && count <= kMostTasks;
  return is_one ? ""
                : absl::StrCat(word, " is no whole number from 1 to ", kMostTasks, ": how many workers are wanted");
}

std::function<int()> SetUpScale(CLI::App& app, Streams streams) {
  auto options = std::make_shared<ScaleOptions>();
  AddSourceOptions(app, &options->source);
  app.add_option("--workers", options->workers, "How many workers the job is to have from now on")
      ->required()
      ->check(WhyNoCount, "")
      ->type_name("N");
  app.footer(
      "`downpour run` starts the new ones itself. With fewer, those with the highest numbers leave in good order:\n"
      "others go on with their leases. The number outlives the chief; a job file whose workerCount is changed\n"
      "beats it at the next start. Of a `downpour run` of this host it is refused where new ones lack memory. "
      "Parameter servers cannot be scaled while the job runs.\n" +
      app.get_footer());
  return [options, streams] { return Scale(*options, streams); };
}

}  // namespace

const Verb kScaleVerb = {"scale", "Give a running job more workers, or fewer",
                         "  downpour scale --workers 8 --job-dir runs/first\n"
                         "  downpour scale --workers 2 --chief h0:7000 --keys keys\n",
                         "0 the chief has accepted it, 1 it refuses, this host lacks memory or the job is over, 69 the "
                         "chief cannot be reached",
                         SetUpScale};

}  // namespace downpour
