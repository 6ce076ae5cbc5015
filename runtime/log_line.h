// How every log line begins, whoever writes it: "I 2024-11-20 10:43:05.123". Times are UTC, so that lines of several
// machines can be put in order.
//
// Tests: tests/unit/runtime/log_line_test.cc.
#pragma once

#include <cstdint>
#include <string>

namespace downpour {

// `severity` is I, W, E or F.
std::string LogPrefix(char severity, int64_t unix_ms);

}  // namespace downpour
