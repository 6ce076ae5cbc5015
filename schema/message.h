// Everything that is said between processes, as owned C++ structs. PROTOCOL.md tells the conversations; codec.h turns a
// Message into frames and back and is the only place that knows FlatBuffers.
//
// Rules: any message may be lost, doubled or late. Whoever needs an answer asks again; every request may be answered
//   again. Names are for people: a process is an Incarnation, a placement is a SliceEpoch.
// Bounds: codec.cc checks every count, string and payload against limits in codec.h; a decoded Message is within them
//   and finite where it says so, but what it names (slices, leases) the receiver checks against its own grid and plan.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "schema/ids.h"
#include "schema/interval_set.h"
#include "schema/payload.h"

namespace downpour {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kOldestProtocolSpoken = 1;

enum class TaskRole : uint8_t { kChief, kPs, kWorker };

// ---- Membership: ps or worker <-> chief -----------------------------------------------------------------------------

struct Join {
  uint32_t protocol = kProtocolVersion;
  uint32_t oldest_protocol = kOldestProtocolSpoken;
  TaskRole role = TaskRole::kWorker;
  int32_t index = -1;    // -1: any free one
  std::string host;      // for people
  uint32_t pid = 0;      // for people
  std::string endpoint;  // where a ps listens, as workers reach it; empty for workers
  std::string launcher;  // the same for all tasks that one supervisor started; empty: none
  uint32_t attempt = 0;  // how often that supervisor started this task before: a higher one replaces a lower at once
  uint64_t nonce = 0;    // drawn by the process at start: a repeated Join of one process is answered alike
  std::string device;    // for people: backend and kernel names
  // A process that an earlier chief of this run knew, and that kept what it held; else kNone.
  uint64_t run = 0;
  Incarnation was = Incarnation::kNone;
};

struct Welcome {
  Incarnation you = Incarnation::kNone;
  uint32_t term = 0;
  std::string name;  // ps-0, worker-3
  std::string job;   // canonical job text, see job_file.h
  uint64_t run = 0;  // drawn when the job began in its folder: tells its chiefs from those of another one
};

enum class RefusalCode : uint8_t {
  kProtocolVersion,  // for good
  kNameTaken,        // try again: the holder may be dead
  kNoSuchTask,       // for good: index beyond the job file's count
  kDataDiffers,      // for good: this worker's data is not the job's
  kUnknown,          // not, or no longer, a member: join anew
  kEjected,          // for good: broke the protocol
};
struct Refused {
  RefusalCode code{};
  bool for_good = false;
  std::string why;                          // one sentence for people
  Incarnation member = Incarnation::kNone;  // whose heartbeat is refused; kNone: a joiner is
};

struct Staleness {  // counts since the process began
  uint64_t pushes = 0;
  uint64_t unknown = 0;  // computed from a version of another epoch
  uint64_t sum = 0;
  uint64_t max = 0;
  std::vector<uint64_t> histogram;  // [i]: staleness i, the last one everything above (options.h: kStalenessBuckets)
};

// The GPU that a worker computes on.
struct GpuStats {
  std::string address;        // of PCI: tells the GPUs of one host apart; empty: there is none
  std::string name;           // empty: unknown
  int32_t utilisation = -1;   // percent of the time in which it computed anything; negative: unknown
  int32_t celsius = -1;       // negative: unknown
  uint64_t memory_used = 0;   // bytes, by whomever
  uint64_t memory_total = 0;  // 0: both are unknown
};

// Its counts begin with the process, and stand once more in membership.cc, which checks and adds them up.
struct TaskStats {
  uint64_t steps = 0;  // worker: computed, of one batch or several each; ps: pushes applied, per slice
  uint64_t examples = 0;
  uint64_t pushes_acknowledged = 0;  // per slice; worker, as is the next
  uint64_t pushes_resent = 0;        // copies beyond the first: unanswered, refused, or to a new epoch
  uint64_t pushes_duplicate = 0;     // per slice; ps, as are the next two
  uint64_t pushes_refused = 0;
  uint64_t pushes_skipped = 0;      // consumed without effect: not finite, or quarantined
  uint64_t messages_rejected = 0;   // frames that were no message, or of an unknown sender
  uint64_t handshakes_refused = 0;  // ps: at its own door, of processes without a key of this cluster
  std::string refused_from;         // the address of the last one; empty: not known
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  Staleness staleness;
  std::string waiting_for;  // one phrase for people; empty while all is well
  GpuStats gpu = {};        // worker
};

struct Heartbeat {
  Incarnation from = Incarnation::kNone;
  uint64_t placement = 0;  // the newest Placement::number seen
  TaskStats stats;
  uint64_t log_from = 0;  // number of the first of these log lines; the chief keeps them in the task's log
  std::vector<std::string> log_lines;
  std::string leaving = {};  // why it was told to stop; empty: it was not. A ps stays until it may leave
};
struct HeartbeatReply {
  uint64_t log_kept = 0;   // lines below this number need not be sent again
  bool may_leave = false;  // to a ps: a checkpoint begun after its word is durable, or there is nothing to keep
};

struct OpenBulk {  // ps -> chief, with each heartbeat, on its second connection: slice records travel on this one
  Incarnation from = Incarnation::kNone;
};

struct Leave {  // "my leases are handed back, do not wait for me"
  Incarnation from = Incarnation::kNone;
  std::string why;
};

struct JobEnd {  // also says: you may leave
  bool succeeded = false;
  std::string why;
};

// ---- Placement: chief -> ps, chief -> worker ------------------------------------------------------------------------

enum class SliceSource : uint8_t {
  kInitialValues,
  kCheckpoint,
  kHeld,  // what this ps held of it under an earlier chief
};

struct Assign {  // chief -> ps; repeated until a SliceReport of that epoch arrives
  Incarnation to = Incarnation::kNone;
  uint64_t train_examples = 0;  // with the job this makes the plan
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    SliceSource source{};
  };
  std::vector<Item> slices;
};
// chief -> ps, after an Assign with kCheckpoint: the record as it stands in the shard file (checkpoint_format.h).
struct RestoreSlice {
  Incarnation to = Incarnation::kNone;
  SliceId slice{};
  SliceEpoch epoch;
  std::vector<Payload> blocks;  // at most 1 MiB each
  Round round;                  // the checkpoint that the record is from; for the trace
};

struct SliceReport {  // ps -> chief: what an assigned slice holds
  Incarnation from = Incarnation::kNone;
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    std::string error;  // not empty: could not be installed (a bad record): the chief chooses another source
    IntervalSet finished;
  };
  std::vector<Item> slices;
};

struct Placement {
  Incarnation to = Incarnation::kNone;
  uint64_t number = 0;  // rises with each change, within a term
  uint32_t term = 0;
  uint64_t train_examples = 0;
  struct Server {
    Incarnation incarnation{};
    std::string name;
    std::string endpoint;
  };
  std::vector<Server> servers;
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    uint32_t server = 0;  // index into servers
  };
  std::vector<Item> slices;
};

// ---- Work: worker <-> chief -----------------------------------------------------------------------------------------

struct DataReport {  // worker -> chief, after indexing its copy of the data; repeated until a Placement or Refused
  Incarnation from = Incarnation::kNone;
  uint64_t train_examples = 0;
  uint64_t eval_examples = 0;
  uint64_t fingerprint = 0;
  std::string error;  // not empty: the data could not be read; file and offset
};

struct WorkRequest {  // worker -> chief: "I hold these and could take more"
  Incarnation from = Incarnation::kNone;
  std::vector<LeaseId> holding;
  uint32_t wanted = 0;
  uint64_t number = 0;  // rises from 1: one that was overtaken by a later one says what is no longer so
};

struct Grant {  // chief -> worker
  Incarnation to = Incarnation::kNone;
  LeaseId lease{};
};

// Batches [first, first + count) of the eval split, on parameters pulled once per round.
struct EvalGrant {
  Incarnation to = Incarnation::kNone;
  uint64_t round = 0;
  uint64_t first_batch = 0;
  uint64_t batches = 0;
};

struct LeaseDone {  // worker -> chief; repeated until a LeaseDoneReply arrives
  Incarnation from = Incarnation::kNone;
  LeaseId lease{};
  struct Evidence {
    SliceId slice{};
    SliceEpoch epoch;  // in which the lease's last step was acknowledged
  };
  std::vector<Evidence> evidence;  // one for every slice of the grid
  double loss_sum = 0;             // over the examples that this worker computed; not finite if the model diverged
  uint64_t examples = 0;
};
struct LeaseDoneReply {
  LeaseId lease{};
  bool committed = false;  // false: some evidence is of an older epoch; ask those slices again
};

struct EvalDone {  // worker -> chief; repeated until an EvalDoneReply arrives
  Incarnation from = Incarnation::kNone;
  uint64_t round = 0;
  uint64_t first_batch = 0;
  uint64_t batches = 0;
  double loss_sum = 0;  // not finite if the model diverged
  uint64_t correct = 0;
  uint64_t examples = 0;
  uint64_t versions_digest = 0;  // over (slice, epoch, n) of the parameters used
  uint64_t oldest_version = 0;   // smallest and largest n of them
  uint64_t newest_version = 0;
};
struct EvalDoneReply {
  uint64_t round = 0;
  uint64_t first_batch = 0;
};

// A peer broke the protocol: who saw it, who did it.
struct Violation {
  Incarnation from = Incarnation::kNone;
  Incarnation by = Incarnation::kNone;
  std::string what;
};

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
    Payload gradient;  // SliceGrid::WireBytes of numbers, or empty
  };
  std::vector<Item> slices;
};

enum class SliceRefusal : uint8_t {
  kNone,
  kNotHere,     // this ps does not hold the slice, or not yet
  kOtherEpoch,  // the slice's epoch is not the one asked for
  kWrongShape,  // the sender is at fault and will be ejected
};

// The one answer to push, duplicate, refusal and probe. `applied` steers the sender and may point behind what was
// acknowledged; only `acked` acknowledges.
struct PushReply {
  Incarnation from = Incarnation::kNone;
  LeaseId lease{};
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;  // the answering slice's own
    SliceRefusal refusal = SliceRefusal::kNone;
    Step applied = 0;
    Step acked = 0;
    uint64_t staleness = 0;  // of this push, where it was applied now
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
    Payload values;  // SliceGrid::WireBytes of numbers; empty if unchanged or refused
  };
  std::vector<Item> slices;
  uint64_t window = 0;
};

// ---- Checkpoints: chief <-> ps --------------------------------------------------------------------------------------

// via chief: asks for the records of some slices; a ps answers each with one SliceRecord, at any apply point it likes.
struct SnapshotRequest {
  Incarnation to = Incarnation::kNone;
  Round round;
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
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
};

// via shared: the ps writes the file itself.
struct WriteShard {
  Incarnation to = Incarnation::kNone;
  Round round;
  std::string file;  // plain name inside the round's folder
  std::vector<SnapshotRequest::Item> slices;
  bool urgent = false;  // as above
};
struct ShardWritten {
  Incarnation from = Incarnation::kNone;
  Round round;
  std::string error;  // not empty: nothing of the file counts
  uint64_t bytes = 0;
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    IntervalSet finished;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t crc32c = 0;
  };
  std::vector<Item> slices;  // fewer than asked for: it lacks the next one
};

// ---- Questions: command-line tool -> chief --------------------------------------------------------------------------

struct StatusRequest {
  uint32_t protocol = kProtocolVersion;
};
struct StatusReply {
  std::string json;  // docs/STATUS.md
};

using Message =
    std::variant<Join, Welcome, Refused, Heartbeat, HeartbeatReply, OpenBulk, Leave, JobEnd, Assign, RestoreSlice,
                 SliceReport, Placement, DataReport, WorkRequest, Grant, EvalGrant, LeaseDone, LeaseDoneReply, EvalDone,
                 EvalDoneReply, Violation, Push, PushReply, Probe, Pull, PullReply, SnapshotRequest, SliceRecord,
                 WriteShard, ShardWritten, StatusRequest, StatusReply>;

// Push, PullReply and so on; for logs and counters.
const char* NameOf(const Message& message);

}  // namespace downpour
