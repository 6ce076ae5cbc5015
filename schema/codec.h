// Frames <-> Message: the only place that knows FlatBuffers.
//
// Shapes: frame 0 is a FlatBuffers header (schema/downpour.fbs); each further frame is one raw payload, in the order in
//   which the header names them. Payload frames are used in place, never copied.
// Order: the header is copied into aligned memory before it is verified, because frames arrive misaligned and the
//   Verifier does not notice.
// Cost: a few small allocations; Decode is linear in the header.
// Errors: INVALID_ARGUMENT with one sentence for anything that is not a message within the limits below; never a crash.
//   UNIMPLEMENTED for a well-formed header of a kind this build does not know. EncodeWithinLimits notices at the sender
//   what Decode would refuse at the receiver, where nobody could say what was lost.
// Tests: tests/unit/schema/codec_test.cc, codec_limits_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/limits.h"
#include "schema/message.h"

namespace downpour {

// `run` is the one in which it is said; 0: in none, or by a release that named none.
// INVALID_ARGUMENT names the message and the limit that it exceeds.
absl::StatusOr<std::vector<Payload>> EncodeWithinLimits(const Message& message, uint64_t run = 0);
// Of any message, also of one that no receiver takes: for tests and for who plays a hostile peer.
std::vector<Payload> Encode(const Message& message, uint64_t run = 0);
absl::StatusOr<Message> Decode(const std::vector<Payload>& frames, uint64_t* run = nullptr);

}  // namespace downpour
