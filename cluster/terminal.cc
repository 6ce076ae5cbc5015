#include "cluster/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "cluster/progress.h"

namespace downpour {
namespace {

std::optional<winsize> WindowOf(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? std::optional(size) : std::nullopt;
}

}  // namespace

std::optional<ColorChoice> ParseColorChoice(const std::string& word) {
  if (word == "auto") return ColorChoice::kAuto;
  if (word == "always") return ColorChoice::kAlways;
  if (word == "never") return ColorChoice::kNever;
  return std::nullopt;
}

TerminalTraits ExamineTerminal(int fd, ColorChoice choice) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const bool redraws = isatty(fd) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
  const bool unwanted = no_color != nullptr && no_color[0] != '\0';
  const std::optional<winsize> size = WindowOf(fd);
  return {.redraws = redraws,
          .color = choice == ColorChoice::kAlways || (choice == ColorChoice::kAuto && redraws && !unwanted),
          .columns = size ? size->ws_col : 80,
          .rows = size ? size->ws_row : 24};
}

void Talk::Say(const std::string& line) {
  if (!progress_.empty()) out_ << "\r\x1b[K";
  out_ << line << "\n" << progress_ << std::flush;
}

void Talk::Progress(const std::string& line) {
  if (traits_.redraws) {
    const std::optional<winsize> now = WindowOf(fd_);
    progress_ = FitLine(line, (now ? now->ws_col : traits_.columns) - 1);
    out_ << "\r\x1b[K" << progress_ << std::flush;
  } else {
    out_ << line << std::endl;
  }
}

void Talk::EndProgress() {
  if (!progress_.empty()) out_ << std::endl;
  progress_.clear();
}

}  // namespace downpour
