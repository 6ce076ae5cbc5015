// LabelKey: what makes two words one label. A number's shortest form, so that 1, +1 and 1.0 are the same; else the
// word.
//
//   LabelKey("+1") == LabelKey("1.0");
//
// Tests: tests/unit/job/job_data_test.cc.
#pragma once

#include <string>
#include <string_view>

namespace downpour {

std::string LabelKey(std::string_view word);

}  // namespace downpour
