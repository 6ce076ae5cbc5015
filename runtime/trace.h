// What happened, as plain records: written by the world, read by the ledger checker, which shares no code with us.
//
// Format of a line: KIND ACTOR LEASE STEP SLICE TERM.N COUNT, numbers in decimal, fields separated by one space.
#pragma once

#include <cstdint>

#include "schema/ids.h"

namespace downpour {

struct TraceRecord {
  enum class Kind : uint8_t {
    kInstalled,   // ps: slice serves in this epoch; count = checkpoint round (term << 32 | n), 0 for initial values
    kApplied,     // ps: the push changed the slice; count = version after it
    kSkipped,     // ps: consumed without effect (empty or not finite); count = version after it
    kSnapshot,    // ps: a record of the slice was handed out; lease = round as above; count = version in it
    kAcked,       // worker: the slice acknowledged the step
    kCommitted,   // chief: the lease is committed
    kDurable,     // chief: the manifest of round (count) is durable
    kGranted,     // chief: the lease was granted to actor
  };
  Kind kind{};
  Incarnation actor{};
  LeaseId lease{};
  Step step = 0;
  SliceId slice{};
  SliceEpoch epoch;
  uint64_t count = 0;
};

const char* NameOf(TraceRecord::Kind kind);  // installed, applied, skipped, snapshot, acked, committed, durable, granted

}  // namespace downpour
