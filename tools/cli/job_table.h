// The jobs of a service as a table, a line each. Of why a job is not further, or how it ended, it has the first
// sentence, as far as that fits.
//
// Shapes: `jobs` as the service lists them (service/openapi.json); lines of `columns`, or more where names are long.
// Tests: tests/unit/tools/cli/job_table_test.cc.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace downpour {

std::string JobTable(const nlohmann::json& jobs, size_t columns);

}  // namespace downpour
