#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>

#include "tools/output_options.h"
#include "tools/progress.h"
#include "tools/status_source.h"
#include "tools/status_table.h"
#include "tools/terminal.h"
#include "tools/verbs.h"

namespace downpour {
namespace {

struct Options {
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

int Watch(const Options& options, Streams streams) {
  StatusAsker asker(options.source);
  if (!options.json && ExamineTerminal(STDOUT_FILENO, options.color).redraws) streams.out << "\x1b[2J";
  while (true) {
    const absl::StatusOr<Answer> answer = asker.Ask();
    const TerminalTraits terminal = ExamineTerminal(STDOUT_FILENO, options.color);
    if (!answer.ok()) {
      return Complain(streams, "watch", std::string(answer.status().message()), ExitCodeOf(answer.status()));
    }
    if (options.json) streams.out << OneLine(answer->json) << std::flush;
    if (answer->summary) {
      if (!options.json) streams.out << SummaryTable(*answer->summary, terminal.color);
      return answer->summary->state == "SUCCEEDED" ? kExitDone : kExitFailed;
    }
    const StatusView& status = *answer->status;
    if (!options.json && terminal.redraws) {
      Redraw(StatusTable(status, terminal.color), terminal, streams.out);
    } else if (!options.json) {
      streams.out << ProgressLine(status) << std::endl;
    }
    if (!streams.out) return kExitDone;  // whoever read has gone
    if (HasEnded(status)) return status.state == "SUCCEEDED" ? kExitDone : kExitFailed;
    poll(nullptr, 0, static_cast<int>(1000 * options.interval));
  }
}

std::function<int()> SetUp(CLI::App& app, Streams streams) {
  auto options = std::make_shared<Options>();
  AddSourceOptions(app, &options->source);
  app.add_option("-n,--interval", options->interval, "Seconds between looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  AddFormatOption(app, "table, or json: one object on each line", &options->json);
  AddColorOption(app, &options->color);
  return [options, streams] { return Watch(*options, streams); };
}

}  // namespace

const Verb kWatchVerb = {"watch", "Show the status again and again, until the job ends",
                         "  downpour watch --job-dir runs/first\n"
                         "  downpour watch --chief h0:7000 --interval 5 | tee progress.log\n",
                         "0 the job succeeded, 1 it did not, 69 the chief cannot be reached", SetUp};

}  // namespace downpour
