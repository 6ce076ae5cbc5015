#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>

#include "cluster/follow_job.h"
#include "cluster/output_options.h"
#include "cluster/progress.h"
#include "cluster/status_source.h"
#include "cluster/status_table.h"
#include "cluster/terminal.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct WatchOptions {
  StatusSource source;
  double interval = 1;  // seconds
  bool json = false;
  ColorChoice color = ColorChoice::kAuto;
};

// Draws over the table before, cut to what the terminal shows.
void Redraw(const std::string& table, const TerminalTraits& terminal, std::ostream& out) {
  std::istringstream lines(table);
  std::string line;
  out << "\x1b[H";
  for (int row = 1; row < terminal.rows && std::getline(lines, line); ++row) {
    out << FitLine(line, terminal.columns) << "\x1b[K\n";
  }
  out << "\x1b[J" << std::flush;
}

// One object on one line, however the chief breaks them. JSON has line breaks only between its words.
std::string OneLine(std::string json) {
  json.erase(std::remove(json.begin(), json.end(), '\n'), json.end());
  return json + "\n";
}

// What there is to see of one answer.
absl::Status Show(const Answer& answer, const WatchOptions& options, Streams streams) {
  const TerminalTraits terminal = ExamineTerminal(STDOUT_FILENO, options.color);
  if (options.json) {
    streams.out << OneLine(answer.json) << std::flush;
  } else if (answer.summary) {
    streams.out << SummaryTable(*answer.summary, terminal.color);
  } else if (terminal.redraws) {
    Redraw(StatusTable(*answer.status, terminal.color, answer.is_elsewhere), terminal, streams.out);
  } else {
    streams.out << ProgressLine(*answer.status) << "\n";
    if (IsOver(answer)) streams.out << EndLine(answer) << "\n";  // which says why
    streams.out << std::flush;
  }
  return streams.out ? absl::OkStatus() : absl::CancelledError("whoever read has gone");
}

int Watch(const WatchOptions& options, Streams streams) {
  StatusAsker asker(options.source, std::chrono::milliseconds(static_cast<int64_t>(1000 * options.interval)));
  if (!options.json && ExamineTerminal(STDOUT_FILENO, options.color).redraws) streams.out << "\x1b[2J";
  const absl::StatusOr<Answer> end = FollowToEnd(asker, {.verb = "watch", .err = streams.err},
                                                 [&](const Answer& answer) { return Show(answer, options, streams); });
  if (absl::IsCancelled(end.status())) return kExitDone;
  if (!end.ok()) return Complain(streams, "watch", std::string(end.status().message()), ExitCodeOf(end.status()));
  return ExitCodeOfEnd(EndingOf(*end).state, EndingOf(*end).exit_code);
}

std::function<int()> SetUpWatch(CLI::App& app, Streams streams) {
  auto options = std::make_shared<WatchOptions>();
  AddSourceOptions(app, &options->source);
  app.add_option("-n,--interval", options->interval, "Seconds between looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  AddFormatOption(app, "table, or json: one object on each line", &options->json);
  AddColorOption(app, &options->color);
  return [options, streams] { return Watch(*options, streams); };
}

}  // namespace

const Verb kWatchVerb = {
    "watch", "Show the status again and again, until the job ends",
    "  downpour watch --job-dir runs/first\n"
    "  downpour watch --chief h0:7000 --interval 5 | tee progress.log\n",
    "0 the job succeeded, 1 it did not, 124 its scheduling.maxRunningTime was over, 69 the chief cannot be reached, "
    "has not answered for 30 s, or another run is there in its place",
    SetUpWatch};

}  // namespace downpour
