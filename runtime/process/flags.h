// Command lines of the role binaries: Abseil's flags, with the manners of the downpour tool.
//
//   ABSL_FLAG(std::string, chief, "", "where the chief listens: HOST:PORT");
//   if (auto exit_code = ParseFlags(argc, argv, {"downpour-ps", "...", "..."})) return *exit_code;
//
// Shapes: --name=value, --name value, --flag, --noflag; names with '-' or '_' alike. --set may be given several times.
// Errors: an unknown flag (with the nearest right one), a missing or bad value, and any other word end with exit code 2
//   and one sentence on stderr. --help and --version print to stdout and end with 0. Nothing here reads files or the
//   environment; what those say of a task's place in its cluster is runtime/process/cluster_environment.h's.
// Tests: tests/unit/runtime/process/flags_test.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace downpour {

struct Usage {
  std::string program;         // downpour-ps
  std::string purpose;         // one sentence
  std::string examples;        // lines, what a newcomer types first
  std::string exit_code = {};  // that not every program has, in words: "124 out of time"
};

// Key=value settings, as --set takes them: one with each flag, whose commas are the value's, as in the downpour tool.
struct Settings {
  std::vector<std::string> items;
};
bool AbslParseFlag(absl::string_view text, Settings* settings, std::string* error);
std::string AbslUnparseFlag(const Settings& settings);

// Sets the flags; the exit code if the process is to end now.
std::optional<int> ParseFlags(int argc, const char* const* argv, const Usage& usage);

// Whether the command line that was parsed last set the flag.
bool IsFlagGiven(const std::string& name);

// Sets a flag from elsewhere, to a value that fits it. Settings go before those that the command line gave, which beat
// them. Nothing happens where the program has no such flag.
void PresetFlag(const std::string& name, const std::string& value);

}  // namespace downpour
