// What slices take and give: pushes, pulls and the records of checkpoints (message.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/ids.h"
#include "schema/interval_set.h"
#include "schema/payload.h"

namespace downpour {

// ---- Data plane: worker <-> ps --------------------------------------------------------------------------------------

// One step's gradient for some slices of one ps: at most kMaxMessagePayload bytes, so that one message is one bounded
// piece of work. An entry without payload is an empty push: it counts, and changes nothing else.
struct Push {
  Incarnation from = Incarnation::kNone;
  LeaseId lease{};
  Step step = 0;
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    Version computed_from;
    Payload gradient;  // SliceGrid::WireBytes of numbers, or empty; of a bucket keys and rows (runtime/row_frames.h)
  };
  std::vector<Item> slices;
};

enum class SliceRefusal : uint8_t {
  kNone,
  kNotHere,     // this ps does not hold the slice, or not yet, or the slice has no room for the lease yet
  kOtherEpoch,  // the slice's epoch is not the one asked for
  kWrongShape,  // the sender is at fault and will be ejected
  kTooStale,    // of a push: its gradient is to be computed again, from newer parameters
  kTooEarly,    // of a push: leases before its own are unfinished here, and its worker gives it back
};

// The one answer to push, duplicate, refusal and probe. `consumed` steers the sender and may point behind what was
// acknowledged; only `acked` acknowledges.
struct PushReply {
  Incarnation from = Incarnation::kNone;
  LeaseId lease{};
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;  // the answering slice's own
    SliceRefusal refusal = SliceRefusal::kNone;
    Step consumed = 0;
    Step acked = 0;
    uint64_t staleness = 0;  // of this push, where it was applied now
    bool counted = false;    // the slice took this very copy of the push now, and did not skip it
  };
  std::vector<Item> slices;
  uint64_t window = 0;  // bytes this worker may have unanswered at this ps
};

struct Probe {  // "what do you have of this lease?"
  Incarnation from = Incarnation::kNone;
  LeaseId lease{};
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
  };
  std::vector<Item> slices;
};

struct Pull {
  Incarnation from = Incarnation::kNone;
  uint64_t request = 0;  // echoed
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    Version have;  // an unchanged slice is answered without payload
    Payload keys = {};  // of a bucket: which rows (runtime/row_frames.h); it answers with them whatever `have` says
  };
  std::vector<Item> slices;  // at most kMaxMessagePayload bytes of values
};

struct PullReply {
  Incarnation from = Incarnation::kNone;
  uint64_t request = 0;
  struct Item {
    SliceId slice{};
    SliceRefusal refusal = SliceRefusal::kNone;
    Version version;
    Payload values;  // SliceGrid::WireBytes of numbers, or a bucket's rows; empty if unchanged or refused
  };
  std::vector<Item> slices;
  uint64_t window = 0;
};

// ---- Checkpoints: chief <-> ps --------------------------------------------------------------------------------------

// via chief: asks for the records of some slices; a ps answers each with one SliceRecord, at any apply point it likes,
// and a bucket with several: the parts of one scan.
struct SnapshotRequest {
  Incarnation to = Incarnation::kNone;
  Round round;
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    uint32_t parts = 0;  // of a bucket, via chief: so many of its parts are here, and the next ones may come
  };
  std::vector<Item> slices;
  bool urgent = false;  // workers are not spared: the job, or a ps, ends with this round
};
struct SliceRecord {
  Incarnation from = Incarnation::kNone;
  Round round;
  SliceId slice{};
  SliceEpoch epoch;
  IntervalSet finished;         // so that the chief need not parse the record
  std::vector<Payload> blocks;  // the record, checksummed, ready to be written (checkpoint_format.h)
  uint64_t skipped = 0;         // as the record has it (SliceState::skipped)
  uint64_t version = 0;         // likewise
  // Of a bucket. All but the blocks is of the first part alone, which has the state without its rows.
  uint64_t scan = 0;  // never reused by the process: parts of two scans are of two points (T4)
  uint32_t part = 0;
  bool more = false;  // parts follow
};

// via shared: the ps writes the file itself. Asked again, it is for the slices whose report is lacking.
struct WriteShard {
  Incarnation to = Incarnation::kNone;
  Round round;
  std::string file;  // plain name inside the round's folder
  std::vector<SnapshotRequest::Item> slices;
  bool urgent = false;  // as above
};
struct ShardWritten {  // several messages where slices are many: each item stands for itself
  Incarnation from = Incarnation::kNone;
  Round round;
  std::string error;   // not empty: nothing of the file counts
  uint64_t bytes = 0;  // of the whole file
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    IntervalSet finished;
    uint64_t offset = 0;
    uint64_t bytes = 0;  // 0: it lacks this slice in that epoch, and the file ends before it
    uint32_t crc32c = 0;
  };
  std::vector<Item> slices;
  uint64_t skipped = 0;         // sum of what the records of the whole file have, in each part
  uint64_t oldest_version = 0;  // likewise the smallest and the largest
  uint64_t newest_version = 0;
};

}  // namespace downpour
