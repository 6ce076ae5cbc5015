#include <poll.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tools/cli/verbs.h"
#include "tools/cluster/job_command.h"
#include "tools/cluster/status_source.h"

namespace downpour {
namespace {

// One last round has 20 s, the goodbyes 3 s; a disk that is slow may take the rest.
constexpr auto kEndsWithin = std::chrono::seconds(60);
constexpr int kLookEveryMs = 200;

int ReportEnd(const Answer& end, Streams streams) {
  const std::string& job = end.status ? end.status->job : end.summary->job;
  const std::string& state = end.status ? end.status->state : end.summary->state;
  const std::string& error = end.status ? end.status->error : end.summary->error;
  streams.out << job << " " << state << (error.empty() ? "" : ": " + error) << "\n";
  return state == "FAILED" ? kExitFailed : kExitDone;
}

int Stop(const StatusSource& source, Streams streams) {
  StatusAsker asker(source);
  const absl::StatusOr<CommandOutcome> told = CommandJob(asker, ControlKind::kStop);
  if (!told.ok()) return Complain(streams, "stop", std::string(told.status().message()), ExitCodeOf(told.status()));
  if (told->was_over) {
    streams.err << "downpour stop: the job was over already\n";
    return ReportEnd(told->before, streams);
  }
  streams.err << "downpour stop: " << told->words << std::endl;
  const auto until = std::chrono::steady_clock::now() + kEndsWithin;
  while (std::chrono::steady_clock::now() < until) {
    const absl::StatusOr<Answer> answer = asker.Ask();
    if (answer.ok() && IsOver(*answer)) return ReportEnd(*answer, streams);
    if (!answer.ok()) {  // it has gone, and its summary is out of reach from here
      streams.out << "the chief has ended; its log and its summary.json say how to go on\n";
      return kExitDone;
    }
    poll(nullptr, 0, kLookEveryMs);
  }
  return Complain(streams, "stop", "the job has not ended yet, though its chief is about to end it; see its status",
                  kExitFailed);
}

std::function<int()> SetUp(CLI::App& app, Streams streams) {
  auto source = std::make_shared<StatusSource>();
  AddSourceOptions(app, source.get());
  app.footer(
      "The job ends as CANCELLED, as if its chief got SIGTERM: every task leaves in good order. What to type to\n"
      "go on from the last checkpoint is printed.\n" +
      app.get_footer());
  return [source, streams] { return Stop(*source, streams); };
}

}  // namespace

const Verb kStopVerb = {"stop", "End a running job after one last checkpoint, and say how to go on",
                        "  downpour stop --job-dir runs/first\n"
                        "  downpour stop --chief h0:7000 --keys keys\n",
                        "0 the job is over, 1 it failed or goes on, 69 the chief cannot be reached", SetUp};

}  // namespace downpour
