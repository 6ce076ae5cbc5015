// Trace records as files, the way real processes write them: one file per life of a process, and the plan as flags.
#pragma once

#include <string>

#include "tests/sim/invariant_checker.h"
#include "tests/sim/oracle.h"
#include "tests/sim/world.h"

namespace downpour {

// Writes DIR/NAME-LIFE.trace and DIR/plan.
void WriteTraces(const std::string& dir, const World& world, const InvariantChecker& checker, const Oracle& oracle);

}  // namespace downpour
