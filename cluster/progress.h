// The one line that says how a job goes.
//
// Tests: tests/unit/cluster/progress_test.cc.
#pragma once

#include <string>

#include "cluster/status_view.h"

namespace downpour {

//   epoch 3.2/10 (32 %) | 48,211 examples/s | loss 0.0912 | staleness 2.9 | 4/4 workers | 40 s left |
//     chief waits for ps-1: has not reported slice 4 (and 2 more)
//
// Before it runs: the state and all who wait or are waited for. What the chief did not say is left out.
std::string ProgressLine(const StatusReport& status);

// Cut to `columns` characters, so that a terminal does not wrap it and the next one can be drawn over it. UTF-8 is
// never cut within a character; colors take no column and end with the line.
std::string FitLine(std::string line, int columns);

}  // namespace downpour
