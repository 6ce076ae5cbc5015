#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cluster/follow_job.h"
#include "cluster/output_options.h"
#include "cluster/status_source.h"
#include "cluster/status_table.h"
#include "cluster/terminal.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct StatusOptions {
  StatusSource source;
  bool json = false;
  ColorChoice color = ColorChoice::kAuto;
};

int Status(const StatusOptions& options, Streams streams) {
  const absl::StatusOr<Answer> answer = StatusAsker(options.source).Ask();
  if (!answer.ok()) {
    return Complain(streams, "status", std::string(answer.status().message()), ExitCodeOf(answer.status()));
  }
  const bool color = ExamineTerminal(STDOUT_FILENO, options.color).color;
  if (options.json) {
    streams.out << answer->json << (answer->json.ends_with('\n') ? "" : "\n");
  } else {
    streams.out << (answer->status ? StatusTable(*answer->status, color, answer->is_elsewhere)
                                   : SummaryTable(*answer->summary, color));
  }
  if (IsOver(*answer)) return ExitCodeOfEnd(EndingOf(*answer).state, EndingOf(*answer).exit_code);
  return IsHealthy(*answer->status) ? kExitDone : kExitFailed;
}

std::function<int()> SetUpStatus(CLI::App& app, Streams streams) {
  auto options = std::make_shared<StatusOptions>();
  AddSourceOptions(app, &options->source);
  AddFormatOption(app, "table, or json as docs/STATUS.md has it", &options->json);
  AddColorOption(app, &options->color);
  return [options, streams] { return Status(*options, streams); };
}

}  // namespace

const Verb kStatusVerb = {"status", "Say how a job goes: who is healthy, who is pending and why, what failed",
                          "  downpour status --job-dir runs/first\n"
                          "  downpour status --chief h0:7000 -o json\n",
                          "0 healthy, 1 degraded or failed, 124 its scheduling.maxRunningTime was over, 69 the chief "
                          "cannot be reached",
                          SetUpStatus};

}  // namespace downpour
