// What a reader of the status may type next: `next` in docs/STATUS.md.
//
// Order: first what starts whom no supervisor starts, then a look into the last failure, then what goes on or looks on.
// Tests: tests/unit/chief/status_test.cc.
#pragma once

#include <string>
#include <vector>

#include "chief/chief_view.h"

namespace downpour {

std::vector<std::string> NextCommands(const ChiefView& chief);

}  // namespace downpour
