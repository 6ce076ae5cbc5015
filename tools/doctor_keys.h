// Looks at a folder of keys with the eyes of those who would use it on this host.
//
// Errors: what LoadKeys (runtime/posix_keys.h) refuses is a problem, with what mends it.
// Tests: tests/unit/tools/doctor_keys_test.cc.
#pragma once

#include <optional>
#include <string>

#include "schema/cluster_config.h"
#include "tools/findings.h"

namespace downpour {

// `role`: of this host; none: it runs everything. Empty `folder`: there are no keys, which is well on one machine.
Findings LookAtKeys(const std::string& folder, std::optional<TaskType> role);

}  // namespace downpour
