#include "runtime/trace_record.h"

namespace downpour {

const char* NameOf(TraceRecord::Kind kind) {
  switch (kind) {
    case TraceRecord::Kind::kInstalled: return "installed";
    case TraceRecord::Kind::kKept: return "kept";
    case TraceRecord::Kind::kApplied: return "applied";
    case TraceRecord::Kind::kSkipped: return "skipped";
    case TraceRecord::Kind::kDuplicate: return "duplicate";
    case TraceRecord::Kind::kSnapshot: return "snapshot";
    case TraceRecord::Kind::kAcked: return "acked";
    case TraceRecord::Kind::kCommitted: return "committed";
    case TraceRecord::Kind::kDurable: return "durable";
    case TraceRecord::Kind::kGranted: return "granted";
  }
  return "unknown";
}

}  // namespace downpour
