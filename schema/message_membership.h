// Who is there, and what a person asks: messages between members or the command-line tool and the chief (message.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/ids.h"

namespace downpour {

// 2: every message names its run. A process that speaks 1 names none, and nobody would listen to it.
inline constexpr uint32_t kProtocolVersion = 2;
inline constexpr uint32_t kOldestProtocolSpoken = 2;

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
  uint64_t number = 0;  // of this Join among those of its process, from 0: the answer echoes it
};

struct Welcome {
  Incarnation you = Incarnation::kNone;
  uint32_t term = 0;
  std::string name;    // ps-0, worker-3
  std::string job;     // canonical job text, see job_file.h
  uint64_t run = 0;    // drawn when the job began in its folder: tells its chiefs from those of another one
  uint64_t nonce = 0;  // of the Join that this answers, as is the next
  uint64_t number = 0;
};

enum class RefusalCode : uint8_t {
  kProtocolVersion,  // for good
  kNameTaken,        // try again: the holder may be dead
  kNoSuchTask,       // for good: index beyond the job file's count
  kDataDiffers,      // for good: this worker's data is not the job's
  kUnknown,          // not, or no longer, a member of the chief's run: join again
  kEjected,          // for good: broke the protocol
  kSecretWanted,     // to a tool: it has not said the chief's secret
};
struct Refused {
  RefusalCode code{};
  bool for_good = false;
  std::string why;                          // one sentence for people
  Incarnation member = Incarnation::kNone;  // who is refused; kNone: a joiner is
  uint64_t run = 0;                         // of that member: its incarnation alone does not name it; else the chief's
  uint64_t number = 0;                      // of the Join that is refused
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

// Its counts begin with the process. Those of pushes stand once more in kPushCounts, the others in
// chief/known/membership.cc, which checks and adds up all of them.
struct TaskStats {
  uint64_t steps = 0;  // worker: computed, of one batch or several each; ps: pushes consumed and not skipped, per slice
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
  std::string waiting_for;      // one phrase for people; empty while all is well
  GpuStats gpu = {};            // worker
  std::string warning = {};     // the newest one that the process logged; empty: none
  uint32_t warned_ms_ago = 0;   // when it logged that
  uint64_t pushes_dropped = 0;  // ps: not consumed, since too stale or too early; to be computed again
  uint64_t table_rows = 0;      // ps, of all tables: rows that take memory
  uint64_t table_bytes = 0;     // likewise: the memory that tables take
  uint64_t keys_unborn = 0;     // likewise: pushes of keys for which there was no room (maxRows)
};

// What people read of pushes: counts that the chief adds up over the tasks of one role. Status, summary.json and tables
// go by these rows, tables in their order.
struct PushCount {
  TaskRole role;
  uint64_t TaskStats::*count;
  const char* in_status;      // its key in `pushes` (docs/STATUS.md)
  const char* in_summary;     // and in summary.json
  const char* words;          // after the number, in tables
  bool shown_if_any = false;  // tables leave out 0
};
inline constexpr PushCount kPushCounts[] = {
    {TaskRole::kPs, &TaskStats::steps, "applied", "pushesApplied", "consumed"},
    {TaskRole::kWorker, &TaskStats::pushes_acknowledged, "acknowledged", "pushesAcknowledged", "acknowledged"},
    {TaskRole::kWorker, &TaskStats::pushes_resent, "resent", "pushesResent", "retried"},
    {TaskRole::kPs, &TaskStats::pushes_refused, "refused", "pushesRefused", "refused for now"},
    {TaskRole::kPs, &TaskStats::pushes_duplicate, "duplicate", "pushesDuplicate", "duplicate"},
    {TaskRole::kPs, &TaskStats::pushes_dropped, "dropped", "pushesDropped", "dropped", /*shown_if_any=*/true},
    {TaskRole::kPs, &TaskStats::pushes_skipped, "skipped", "pushesSkipped", "skipped"},
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
  bool retired = false;    // to a worker: the job needs fewer now, so it is to leave in good order
  Incarnation to = Incarnation::kNone;
};

struct OpenBulk {  // ps -> chief, with each heartbeat, on its second connection: slice records travel on this one
  Incarnation from = Incarnation::kNone;
};

struct Leave {  // "my leases are handed back, do not wait for me"
  Incarnation from = Incarnation::kNone;
  std::string why;
  // The job's own code raised, in a step of `lease` or, without one, in an evaluation; or its process was killed before
  // it had made the model, as for lack of memory.
  bool code_failed = false;
  LeaseId lease{};
  bool code_ended = false;  // likewise, but it ended in good order, and would do so wherever it runs
};

struct JobEnd {  // also says: you may leave
  bool succeeded = false;
  std::string why;
  bool cancelled = false;  // as somebody asked, or its time was over: nothing failed
};

// ---- Memory that two processes of one host share: said by their drivers, of which roles know nothing ----------------

struct ShareMemory {  // worker, reader -> ps: "may we, if we are on one host?"
  std::string boot;   // of the kernel (Started in runtime/role.h)
};

struct MemoryDoor {     // "come to this door"
  std::string address;  // of a socket in this host's abstract namespace
  std::string ticket;   // lets in whoever shows it first
  std::string proof;    // by which the door shows that it is this process's
};

// ---- Questions: command-line tool -> chief --------------------------------------------------------------------------

struct StatusRequest {
  uint32_t protocol = kProtocolVersion;
  // Of a watcher, when it will ask again: the chief tells it how the job ended before it exits. 0: it asks once.
  uint64_t again_in_ms = 0;
  bool knows_end = false;   // a watcher has heard how the job ended; there is no answer
  std::string secret = {};  // of the chief, as its chief.json says it; empty: there is none
};
struct StatusReply {
  std::string json;  // docs/STATUS.md
};

enum class ControlKind : uint8_t {
  kStop,        // end the job as CANCELLED after one last checkpoint
  kScale,       // to `workers`
  kCheckpoint,  // begin a round at once
};
// A command, named (term, number): a copy that comes late finds another chief, or another command in its place.
struct Control {        // tool -> chief; repeated until its ControlReply arrives
  uint32_t term = 0;    // of the chief that is meant
  uint64_t number = 0;  // the next one: one more than the status counts as `commands`
  uint64_t nonce = 0;   // drawn by the tool: tells its command from another tool's of the same name
  ControlKind kind{};
  uint32_t workers = 0;     // kScale
  std::string secret = {};  // as in StatusRequest
};

enum class ControlVerdict : uint8_t {
  kRefused,   // it cannot be done; nothing changed
  kOutdated,  // another chief leads, or another command came first: look at the status, then say it again
  kAccepted,  // it is done, or on its way, and no chief will forget it
};
struct ControlReply {
  uint64_t nonce = 0;
  ControlVerdict verdict{};
  std::string why;  // one sentence for people; of what is accepted, what happens next
};

}  // namespace downpour
