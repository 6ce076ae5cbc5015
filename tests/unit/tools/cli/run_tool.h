// The tool's verbs, run as from a command line.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tools/cli/verbs.h"

namespace downpour {

struct ToolOutcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline ToolOutcome RunDownpour(std::vector<std::string> args) {
  std::ostringstream out, err;
  const int code = RunTool(AllVerbs(), std::move(args), {out, err});
  return {code, out.str(), err.str()};
}

}  // namespace downpour
