// Looks at a folder of keys with the eyes of those who would use it on this host.
//
// Errors: what LoadKeys (runtime/posix/keys.h) refuses is a problem, with what mends it.
// Tests: tests/unit/tools/cli/doctor_keys_test.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/peer_role.h"
#include "tools/cli/findings.h"

namespace downpour {

// `role`: what this host is for; none: it says for which roles the folder will do. Empty `folder`: there
// are no keys, which is well on one machine.
Findings LookAtKeys(const std::string& folder, std::optional<PeerRole> role);

// As whom this host, for that role, can go to a chief: as a client or a viewer, who may ask it how it goes; as a
// worker or a ps, who sees by the handshake whether it is let in. Each has its secret there; without keys a client
// needs none.
std::vector<PeerRole> VisitorsOf(const std::string& folder, std::optional<PeerRole> role);

}  // namespace downpour
