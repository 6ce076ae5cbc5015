// What a worker asks of its device, and the interface behind which the device stands.
//
// The device is I/O to the role: a request goes out as an effect, its completions come back as inputs. It keeps the
// current parameters; each request brings the slices that changed since.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "job/job.h"
#include "schema/data_file.h"
#include "schema/guess.h"
#include "schema/ids.h"
#include "schema/payload.h"

namespace downpour {

// Opens and fingerprints the data, builds the model. Comes first.
struct Prepare {
  JobSpec job;
  std::vector<Payload> code = {};  // the archive of job.python, one after the other; empty: see Prepared::needs_code
  std::string task = {};           // which one prepares: worker-2
};

using SliceValues = std::vector<std::pair<SliceId, Payload>>;  // as they travel: SliceGrid::WireBytes each; of a bucket
                                                               // as runtime/row_frames.h lays them out

// What became of a gradient that the device computed: its slice took it from this worker and did not skip it, or it was
// in vain.
struct Settled {
  LeaseId lease{};
  Step step = 0;
  SliceId slice{};
  bool counted = false;
  bool operator==(const Settled&) const = default;
};

struct TrainStep {
  LeaseId lease{};
  Step step = 0;
  SliceValues updates;  // new values of slices, loaded before the step
  // What will be asked for next, as far as can be told: a device may read its examples meanwhile.
  std::optional<std::pair<LeaseId, Step>> next = {};
  // Of gradients of this device, each once, where it keeps something that moves on only with those that counted.
  std::vector<Settled> settled = {};
  std::optional<LeaseId> lease_behind = {};  // this step's, as far as can be told: its examples may be read meanwhile
};

struct EvalStep {
  uint64_t first_batch = 0;
  uint64_t batches = 0;
  SliceValues updates;
};

// The rest of the user's program, behind its fit(), with these values. It may take hours. Then the device is to be
// prepared again before it can do anything else.
struct EpilogueStep {
  SliceValues values;   // of all slices of variables, float32 whatever the wire is
  std::string history;  // JSON, as EpilogueGrant has it
};

// Which rows of tables a step needs, or part of an evaluation: comes right before its TrainStep or EvalStep, whose
// updates then have them, where the model has tables. A device that cannot know ahead names none, and ends that step by
// KeysFound once it comes to them.
struct FindKeys {
  std::optional<std::pair<LeaseId, Step>> step;  // nothing: it is the evaluation's
  uint64_t first_batch = 0;
  uint64_t batches = 0;
};

// The rows of the KeysFound that ended a TrainStep or an EvalStep: it goes on where it stopped, and ends as that would.
struct MoreRows {
  SliceValues rows;      // of each bucket that was named
  bool in_vain = false;  // nobody wants what becomes of it, and rows do not come: any will do
};

using ComputeRequest = std::variant<Prepare, TrainStep, EvalStep, EpilogueStep, FindKeys, MoreRows>;

struct Prepared {
  uint64_t train_examples = 0;
  uint64_t eval_examples = 0;
  uint64_t fingerprint = 0;
  std::string arithmetic = {};    // for people: what is computed in what precision; may be empty
  bool needs_code = false;        // the device lacks the code of job.python: it is to be prepared again, with the code
  Guesses guesses = {};           // of a loss that is no code of the user's
  uint64_t eval_fingerprint = 0;  // this and the next as DataReport has them
  std::vector<DataFile> files = {};
};

// Before a Prepared that takes long, any number of times: what the device is at. Nothing is prepared yet.
struct Preparing {
  std::string what = {};         // for people: "installs the packages of requirements.txt"
  std::string waiting_for = {};  // likewise: "the packages of its Python code"
};

// One or several per TrainStep: slices leave as soon as their gradient is ready, the last one has `last`.
struct Gradients {
  SliceValues slices;  // mean over the step; with training.localSteps what it took from the parameters
  bool last = false;
  double loss_sum = 0;  // over the step, in the last one; of each example times its weight
  uint64_t examples = 0;
  double weight = 0;  // of all of them, where the job's data have weights
  // In the last one: how long the device did nothing but read examples, for this step and for what was found for it.
  std::chrono::nanoseconds reading{};
};

// Of each bucket in which keys fall, those keys, each once (runtime/row_frames.h). In a step also what is needed beyond
// what came before; then no part of its gradients has come yet.
struct KeysFound {
  SliceValues keys;
};

struct Evaluated {
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t examples = 0;
  std::vector<double> metric_sums = {};  // of the job's metrics, in their order: runtime/metrics.h
  double weight = 0;                     // of all examples, where the job's data count weights
  double right = 0;                      // likewise, of those that `correct` would count

  // That of other batches.
  void Add(const Evaluated& other) {
    loss_sum += other.loss_sum;
    correct += other.correct;
    examples += other.examples;
    weight += other.weight;
    right += other.right;
    metric_sums.resize(other.metric_sums.size());
    for (size_t i = 0; i < metric_sums.size(); ++i) metric_sums[i] += other.metric_sums[i];
  }
};

struct EpilogueEnded {
  std::string error = {};  // not empty: what the program raised, and where, or how it ended
};

using ComputeResult = std::variant<std::monostate, Prepared, Gradients, Evaluated, Preparing, EpilogueEnded, KeysFound>;

// Order: Run has one request at a time, from one thread. It calls `done` at least once; the last call is the request's
//   end (an error, Prepared, Evaluated, EpilogueEnded, KeysFound, or Gradients with `last`). Where KeysFound ends a
//   step the next request is MoreRows or Prepare.
class Computer {
 public:
  using Done = std::function<void(absl::Status, ComputeResult)>;
  virtual ~Computer() = default;
  virtual void Run(const ComputeRequest& request, const Done& done) = 0;

  // Whether it gains by PrefetchParameters; always the same.
  virtual bool loads_ahead() const { return false; }
  // Values that the next request will most likely bring, in the same payloads: they may be taken up meanwhile, instead
  // of what was given for those slices before. Results do not depend on it, nor may Run wait for it. One call at a
  // time, from another thread than Run's and beside it, whatever Run is at.
  virtual void PrefetchParameters(const SliceValues&) {}
};

}  // namespace downpour
