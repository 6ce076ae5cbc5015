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

uint64_t LeaseField(const TraceRecord& record) {
  const auto packed = [](uint64_t term, uint32_t n) { return term << 32 | n; };
  switch (record.kind) {
    case TraceRecord::Kind::kInstalled:
    case TraceRecord::Kind::kSnapshot:
      return packed(record.round.term, record.round.n);
    case TraceRecord::Kind::kKept:
      return packed(record.before.term, record.before.n);
    case TraceRecord::Kind::kApplied:
    case TraceRecord::Kind::kSkipped:
    case TraceRecord::Kind::kDuplicate:
    case TraceRecord::Kind::kAcked:
    case TraceRecord::Kind::kCommitted:
    case TraceRecord::Kind::kDurable:
    case TraceRecord::Kind::kGranted:
      break;
  }
  return ToNumber(record.lease);
}

}  // namespace downpour
