// How every log line begins, whoever writes it: "I 2024-11-20 10:43:05.123". Times are UTC, so that lines of several
// machines can be put in order.
//
// Tests: tests/unit/runtime/log_line_test.cc.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace downpour {

// `severity` is I, W, E or F.
std::string LogPrefix(char severity, int64_t unix_ms);

// Of a line that begins so, the time, in letters that sort by time, and what stands behind; of any other, nothing and
// all.
std::string TimeOfLine(const std::string& line);
std::string WordsOfLine(const std::string& line);

// Of one line, whoever is quoted in it.
inline constexpr size_t kMaxLogBytes = 4096;

// Whether the `count`th time that a peer causes something gets a line: a log that fills is an offence's second victim.
inline bool WorthALine(uint64_t count) { return std::has_single_bit(count); }

}  // namespace downpour
