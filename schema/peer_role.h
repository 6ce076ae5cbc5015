// What kind of process a peer is, as its keys prove it, and what each kind may say.
//
// Errors: PERMISSION_DENIED, in one sentence for the log.
// Tests: tests/unit/schema/peer_role_test.cc.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "schema/message.h"

namespace downpour {

// kClient: a person's tool, which asks the chief for the status and gives it commands. kViewer: one that only asks, or
// reads the model's values from the ps, as nobody: it is no member.
enum class PeerRole : uint8_t { kChief, kPs, kWorker, kClient, kViewer };
inline constexpr PeerRole kAllPeerRoles[] = {PeerRole::kChief, PeerRole::kPs, PeerRole::kWorker, PeerRole::kClient,
                                             PeerRole::kViewer};

const char* NameOf(PeerRole role);  // chief, ps and so on

absl::Status CheckSpeaker(PeerRole role, const Message& message);

// As whom it is said; kNone: as nobody in particular, as are Join and what the chief says.
Incarnation SpeakerOf(const Message& message);

}  // namespace downpour
