#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <utility>

#include "tools/cli/verbs.h"
#include "tools/cluster/human_units.h"
#include "tools/cluster/output_options.h"
#include "tools/cluster/progress.h"
#include "tools/cluster/status_source.h"
#include "tools/cluster/status_table.h"
#include "tools/cluster/terminal.h"

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

// A chief that has answered before may have died and be back in a moment.
class Patience {
 public:
  void Answered() {
    heard_ = true;
    silent_ = false;
  }
  // Whether to ask again; says so once.
  bool Lasts(const absl::Status& status, std::ostream& err) {
    if (!heard_ || !absl::IsUnavailable(status)) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!std::exchange(silent_, true)) {
      until_ = now + std::chrono::seconds(30);
      err << "downpour watch: no answer, and asks again for 30 s: " << Printable(std::string(status.message()))
          << std::endl;
    }
    return now < until_;
  }

 private:
  bool heard_ = false;
  bool silent_ = false;
  std::chrono::steady_clock::time_point until_;
};

int Watch(const Options& options, Streams streams) {
  StatusAsker asker(options.source, std::chrono::milliseconds(static_cast<int64_t>(1000 * options.interval)));
  Patience patience;
  if (!options.json && ExamineTerminal(STDOUT_FILENO, options.color).redraws) streams.out << "\x1b[2J";
  while (true) {
    const absl::StatusOr<Answer> answer = asker.Ask();
    const TerminalTraits terminal = ExamineTerminal(STDOUT_FILENO, options.color);
    if (!answer.ok() && patience.Lasts(answer.status(), streams.err)) {
      asker.Pause();
      continue;
    }
    if (!answer.ok()) {
      return Complain(streams, "watch", std::string(answer.status().message()), ExitCodeOf(answer.status()));
    }
    patience.Answered();
    if (options.json) streams.out << OneLine(answer->json) << std::flush;
    if (answer->summary) {
      if (!options.json) streams.out << SummaryTable(*answer->summary, terminal.color);
      return ExitCodeOfEnd(answer->summary->state, answer->summary->exit_code);
    }
    const StatusView& status = *answer->status;
    if (!options.json && terminal.redraws) {
      Redraw(StatusTable(status, terminal.color), terminal, streams.out);
    } else if (!options.json) {
      streams.out << ProgressLine(status) << std::endl;
    }
    if (!streams.out) return kExitDone;  // whoever read has gone
    if (HasEnded(status)) return ExitCodeOfEnd(status.state, status.exit_code);
    asker.Pause();
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

const Verb kWatchVerb = {
    "watch", "Show the status again and again, until the job ends",
    "  downpour watch --job-dir runs/first\n"
    "  downpour watch --chief h0:7000 --interval 5 | tee progress.log\n",
    "0 the job succeeded, 1 it did not, 124 its scheduling.maxRunningTime was over, 69 the chief cannot be reached, or "
    "has not answered for 30 s",
    SetUp};

}  // namespace downpour
