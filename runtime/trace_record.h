// What happened, as plain records: written by the world, read by the ledger checker, which shares no code with us.
//
// Format of a line: KIND ACTOR LEASE STEP SLICE TERM.N COUNT PEER, numbers in decimal, fields separated by one space.
//   Where a record names a round or an earlier epoch that stands in the place of LEASE, as term << 32 | n.
// Order: a process writes its own records, in the order in which they happened, into a file of its own life.
#pragma once

#include <cstdint>

#include "schema/ids.h"

namespace downpour {

struct TraceRecord {
  enum class Kind : uint8_t {
    kInstalled,  // ps: slice serves in this epoch what `round` had of it; count = version
    kKept,       // ps: slice serves in this epoch what it held in the epoch `before`; count = version
    kApplied,    // ps: the push of worker `peer` changed the slice; count = version after it
    kSkipped,    // ps: the push of worker `peer` was consumed without effect (empty, not finite or quarantined);
                 //     count as above
    kDuplicate,  // ps: the push of worker `peer` changed nothing, because it had been consumed before
    kSnapshot,   // ps: a record of the slice was handed out for `round`; count = version in it
    kAcked,      // worker: the slice acknowledged the step
    kCommitted,  // chief: the lease is committed
    kDurable,    // chief: the manifest of round (count) is durable
    kGranted,    // chief: the lease was granted to worker `peer`
  };
  Kind kind{};
  Incarnation actor{};
  LeaseId lease{};
  Step step = 0;
  SliceId slice{};
  SliceEpoch epoch = {};
  uint64_t count = 0;
  Incarnation peer{};
  Round round = {};        // {0, 0}: initial values, not a checkpoint's
  SliceEpoch before = {};  // of the same slice
};

// What stands in the place of LEASE.
uint64_t LeaseField(const TraceRecord& record);
const char* NameOf(TraceRecord::Kind kind);  // installed, applied, and so on

}  // namespace downpour
