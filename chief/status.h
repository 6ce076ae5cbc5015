// What people and tools are told: docs/STATUS.md has every field.
//
// Cost: linear in tasks and failures.
// Errors: none; what is unknown is absent, and no number is infinite.
// Tests: tests/unit/chief/status_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "chief/chief_view.h"

namespace downpour {

inline constexpr char kSummaryFile[] = "summary.json";

std::string NameOfRun(uint64_t run);  // as `run` in both
std::string StatusText(const ChiefView& chief);
std::string SummaryText(const ChiefView& chief);

}  // namespace downpour
