// Where words go: a person's terminal, or a pipe that some program reads.
//
//   Talk talk(std::cerr, ExamineTerminal(STDERR_FILENO, ColorChoice::kAuto));
//   talk.Progress("epoch 1.2/10 ...");    // terminal: drawn over the last one; pipe: a plain line
//   talk.Say("worker-2 died ...");        // a line of its own; the progress line goes on beneath it
//
// Tests: tests/unit/cluster/terminal_test.cc.
#pragma once

#include <optional>
#include <ostream>
#include <string>

namespace downpour {

enum class ColorChoice { kAuto, kAlways, kNever };
std::optional<ColorChoice> ParseColorChoice(const std::string& word);  // auto, always, never

struct TerminalTraits {
  bool redraws = false;  // a terminal that understands escapes
  bool color = false;    // never with NO_COLOR or TERM=dumb, unless asked for
  int columns = 80;
  int rows = 24;
};
TerminalTraits ExamineTerminal(int fd, ColorChoice choice);

class Talk {
 public:
  // `fd` is where `out` leads, if that is a terminal whose window may change its size.
  Talk(std::ostream& out, TerminalTraits traits, int fd = -1) : out_(out), traits_(traits), fd_(fd) {}
  ~Talk() { EndProgress(); }
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void Say(const std::string& line);
  void Progress(const std::string& line);
  void EndProgress();  // leaves the last progress line standing
  const TerminalTraits& traits() const { return traits_; }

 private:
  std::ostream& out_;
  const TerminalTraits traits_;
  const int fd_;
  std::string progress_;  // what is drawn now
};

}  // namespace downpour
