// WhereJsonFails: the place and the reason for a text that is no JSON, or has numbers that are not read.
//
//   WhereJsonFails("{\"instances\": [{\"age\": 1e400}]}", 16);
//   // instances[0].age (byte 23): ...
//
// Cost: as parsing it; for errors alone.
// Tests: tests/unit/predict/predict_json_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace downpour {

// As far as `most_levels` levels.
std::string WhereJsonFails(std::string_view text, size_t most_levels);

}  // namespace downpour
