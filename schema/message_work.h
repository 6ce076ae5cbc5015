// Who holds which slice, and who computes which lease: messages between members and the chief (message.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/data_file.h"
#include "schema/guess.h"
#include "schema/ids.h"
#include "schema/interval_set.h"
#include "schema/payload.h"

namespace downpour {

// ---- Placement: chief -> ps, worker, reader -------------------------------------------------------------------------

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
// The record as it stands in the shard file (checkpoint_format.h): chief -> ps, after an Assign with kCheckpoint; or
// chief -> worker, after a RecordRequest, and then of no epoch.
struct RestoreSlice {
  Incarnation to = Incarnation::kNone;
  SliceId slice{};
  SliceEpoch epoch;
  std::vector<Payload> blocks;  // at most 1 MiB each
  Round round;                  // the checkpoint that the record is from
  // Of a bucket, whose record is cut anywhere.
  uint32_t piece = 0;
  bool more = false;  // pieces follow
};

struct SliceReport {  // ps -> chief: what assigned slices hold; several messages where they are many
  Incarnation from = Incarnation::kNone;
  struct Item {
    SliceId slice{};
    SliceEpoch epoch;
    std::string error;  // not empty: could not be installed (a bad record): the chief chooses another source
    IntervalSet finished;
    uint32_t pieces = 0;  // above 0: of a bucket's record so many are here, and more are wanted
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
  std::string job = {};  // to a reader: the job's canonical text, which a worker has from its Welcome
};

// A reader, which is no member, asks where the slices are, again and again: reader -> chief. The answer is a Placement
// to nobody, or a JobEnd. It names no slice where it says nothing new, and has no number before there is a placement.
struct PlacementRequest {
  uint32_t term = 0;  // of the newest Placement that it has, as is the next; 0: none
  uint64_t number = 0;
  std::string secret = {};  // as in StatusRequest
};

// ---- Work: worker <-> chief -----------------------------------------------------------------------------------------

struct DataReport {  // worker -> chief, after indexing its copy of the data; repeated until a Placement or Refused
  Incarnation from = Incarnation::kNone;
  uint64_t train_examples = 0;
  uint64_t eval_examples = 0;
  uint64_t fingerprint = 0;
  std::string error;  // not empty: the data could not be read; file and offset
  Guesses guesses = {};
  uint64_t eval_fingerprint = 0;     // of the evaluation set alone; 0: there is none
  std::vector<DataFile> files = {};  // of the training set, if it can grow by further files
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
  double weight = 0;  // of those examples, where the job's data have weights; then each loss is times its own
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
  std::vector<double> metric_sums = {};  // of the job's metrics, in their order: runtime/metrics.h
  double weight = 0;                     // of the examples, where the job's data count weights
  double right = 0;                      // likewise, of those that are right
};
struct EvalDoneReply {
  uint64_t round = 0;
  uint64_t first_batch = 0;
};

// The user's Python code, a piece at a time: worker -> chief, as long as the worker lacks the code.
struct CodeRequest {
  Incarnation from = Incarnation::kNone;
  std::string sha256;  // of the whole, as the job names it
  uint64_t block = 0;  // kCodeBlockBytes each, but for the last
};
struct CodeBlock {
  Incarnation to = Incarnation::kNone;
  std::string sha256;
  uint64_t block = 0;
  Payload bytes;
};

// The rest of the user's program, behind its fit(): chief -> worker, once the job is trained; repeated until an
// EpilogueDone of that attempt arrives.
struct EpilogueGrant {
  Incarnation to = Incarnation::kNone;
  uint64_t attempt = 0;  // rises within a run, also from chief to chief
  std::string history;   // JSON: what fit() returns of each epoch
};
// worker -> chief, one for each slice; repeated until its record arrives, in a RestoreSlice to this worker.
struct RecordRequest {
  Incarnation from = Incarnation::kNone;
  uint64_t attempt = 0;
  SliceId slice{};
};
struct EpilogueDone {  // worker -> chief; repeated until the job ends
  Incarnation from = Incarnation::kNone;
  uint64_t attempt = 0;
  std::string error;  // not empty: what the program raised, and where, or how it ended
};

// A peer broke the protocol: who saw it, who did it.
struct Violation {
  Incarnation from = Incarnation::kNone;
  Incarnation by = Incarnation::kNone;
  std::string what;
};

}  // namespace downpour
