// A job as its file describes it, checked and with every default filled in. docs/JOB_FILE.md lists each key.
//
// One parser (job_file.h) serves the command-line tool, the chief and, through Welcome's canonical text, ps and worker,
// so that all of them see the same job.
//
// Tests: tests/unit/job/job_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "job/data_spec.h"
#include "job/model_table.h"
#include "job/optimizer_spec.h"

namespace downpour {

struct InputSpec {
  std::string name;
  std::vector<int64_t> shape;  // of one example, without the batch
  // Of data with records: names of the columns that lie in it side by side, categories one-hot. Empty elsewhere.
  std::vector<std::string> columns = {};
  bool operator==(const InputSpec&) const = default;
};

enum class Activation { kNone, kRelu, kSigmoid, kTanh };

struct DenseSpec {
  int64_t units = 0;
  Activation activation = Activation::kNone;
  bool bias = true;
  bool operator==(const DenseSpec&) const = default;
};
struct ActivationSpec {
  Activation function = Activation::kRelu;
  bool operator==(const ActivationSpec&) const = default;
};
struct DropoutSpec {
  double rate = 0;  // share of units zeroed in training; the others are scaled by 1 / (1 - rate)
  bool operator==(const DropoutSpec&) const = default;
};
struct AddSpec {  // sum of inputs of one shape
  bool operator==(const AddSpec&) const = default;
};
struct MultiplySpec {  // product of inputs of one shape, number by number
  bool operator==(const MultiplySpec&) const = default;
};
// The dot product of each two vectors of [n, width], or of inputs of one width, stacked: of the first with the second,
// the first with the third, ..., the second with the third, and so on. Source: Naumov et al., "Deep Learning
// Recommendation Model for Personalization and Recommendation Systems", 2019.
struct DotSpec {
  bool operator==(const DotSpec&) const = default;
};
inline constexpr int64_t kMostDotVectors = 128;
struct ConcatSpec {  // inputs flattened, side by side
  bool operator==(const ConcatSpec&) const = default;
};

struct LayerSpec {
  std::string name;               // unique; the parser names an unnamed layer KIND_INDEX, such as dense_0
  std::vector<std::string> from;  // names of inputs or earlier layers; empty after parsing of an embedding alone
  std::variant<DenseSpec, ActivationSpec, DropoutSpec, AddSpec, MultiplySpec, DotSpec, ConcatSpec, EmbeddingSpec> op;
  bool operator==(const LayerSpec&) const = default;
};

enum class Loss { kSoftmaxCrossEntropy, kMeanSquaredError, kSigmoidCrossEntropy, kOwn };

// A variable of a model that the user's Python code computes.
struct OwnVariableSpec {
  std::string name;
  std::vector<int64_t> shape;  // row-major; may be empty: one number
  bool trainable = true;       // else parameter servers add what each step changed it by: statistics of batches
  bool operator==(const OwnVariableSpec&) const = default;
};

// Layers, or variables whose meaning the user's Python code alone knows; never both.
struct ModelSpec {
  std::vector<InputSpec> inputs;  // none, where embedding layers read all that there is
  std::vector<LayerSpec> layers;  // in topological order; the last one is the output
  Loss loss = Loss::kSoftmaxCrossEntropy;
  std::vector<OwnVariableSpec> variables = {};   // loss is kOwn then
  int64_t classes = 0;                           // likewise: that it tells apart; 0: it does not
  std::string initialize_from = {};              // a safetensors file, by whose names variables begin; empty: none
  std::vector<ModelTable> tables = {};           // of models with layers; each is read by one of them
  int64_t table_buckets = kDefaultTableBuckets;  // into which the rows of all tables are spread
  bool is_own() const { return !variables.empty(); }
  bool has_tables() const { return !tables.empty(); }
  bool learns_classes() const { return loss == Loss::kSoftmaxCrossEntropy || loss == Loss::kSigmoidCrossEntropy; }
  bool has_accuracy() const { return learns_classes() || classes > 0; }
  bool operator==(const ModelSpec&) const = default;
};

// What a push is worth whose gradient was computed from parameters that have changed since: docs/LEARNING.md.
enum class StalenessMethod { kAuto, kNone, kRate, kSteepRate, kSlowMomentum };

// Training ends once `patience` evaluations have not made the metric better by more than min_delta.
struct StopEarlySpec {
  std::string metric = "loss";  // or accuracy, or the name of one of the job's metrics
  int64_t patience = 3;
  double min_delta = 0;
  bool operator==(const StopEarlySpec&) const = default;
};

// Whether workers wait for each other: ps/consistency_policy.h.
enum class Consistency { kAsync, kSsp, kSync };

// What devices that are faster at less may round the factors of matrix products to.
enum class ProductPrecision { kFp32, kTf32, kBf16 };
// What numbers of gradients and parameters are on their way between worker and ps.
enum class WireFormat { kFp32, kBf16 };

// What an evaluation tells beside loss and accuracy: runtime/metrics.h.
enum class MetricKind { kTopK, kLogLoss, kRmse, kAuc, kCalibration, kCalibrationError, kMean, kRatio };
enum class Better { kUnknown, kMore, kLess };
struct MetricSpec {
  MetricKind kind = MetricKind::kTopK;
  int64_t k = 0;                     // of topK only: how many guesses an example has
  std::string name = {};             // of what the user's Python code computes only, which has the last two kinds too
  Better better = Better::kUnknown;  // likewise, of these two
  bool operator==(const MetricSpec&) const = default;
};

// The first `epochs` epochs of a job that was resumed with more of them, beyond those of the entry before.
struct EarlierEpochs {
  int64_t epochs = 0;
  uint64_t examples = 0;     // that each of them has, the first ones of the data
  uint64_t fingerprint = 0;  // of the data as they were
  bool operator==(const EarlierEpochs&) const = default;
};

struct TrainingSpec {
  Consistency consistency = Consistency::kAsync;
  int64_t group_size = 1;      // ssp and sync: leases of one group (runtime/plan.h); else 1
  int64_t ssp_bound = 3;       // ssp only: groups that may be begun before one is finished, beyond itself
  int64_t backup_workers = 0;  // sync only: leases that may be computed a second time, since their holders are slow
  std::optional<int64_t> max_staleness;  // not sync: of a push that counts; nothing: any
  int64_t batch_size = 64;
  int64_t epochs = 1;
  std::vector<EarlierEpochs> earlier = {};  // rising; the chief finds them when the job is resumed: data_plan.h
  int64_t lease_batches = 16;               // batches of one lease, see runtime/plan.h
  int64_t push_every = 1;                   // batches of one step, as is the next; at most lease_batches
  // If any, a worker takes an optimizer step for each of them alone, and pushes what became of the parameters: their
  // values before less those behind. push_every is 1 then.
  int64_t local_steps = 0;
  bool pull_ahead = false;            // parameters are pulled while the step before is computed: they lack its push
  int64_t evaluate_every_epochs = 1;  // 0: only at the end
  std::optional<StopEarlySpec> stop_early;
  int64_t max_skipped_pushes = 100;  // pushes without effect, over all slices, before the job fails
  ProductPrecision precision = ProductPrecision::kFp32;
  WireFormat wire = WireFormat::kFp32;
  StalenessMethod staleness_method = StalenessMethod::kAuto;
  OptimizerSpec optimizer;
  OptimizerSpec outer = OuterDefaultsOf(OptimizerKind::kSgd);  // what servers do with what local_steps brought
  std::vector<MetricSpec> metrics;                             // no two alike; each fits the model

  // Whether a worker keeps something that moves on only with gradients that counted.
  bool has_worker_state() const { return wire == WireFormat::kBf16 || local_steps > 0; }
  int64_t step_batches() const { return local_steps > 0 ? local_steps : push_every; }
  // With local steps a worker has `optimizer`, and the servers another one.
  OptimizerSpec servers_optimizer() const;
  bool operator==(const TrainingSpec&) const = default;
};

// The job's method, or what auto is for it: never kAuto. docs/research/staleness.md says how it was chosen.
StalenessMethod MethodOf(const TrainingSpec& training);

// Those of the servers' optimizer; with sync one more, the last, that sums up a group's gradients.
std::vector<std::string> SlotNames(const TrainingSpec& training);
int SlotCount(const TrainingSpec& training);

enum class CheckpointVia { kChief, kShared };

inline constexpr char kNoBest[] = "none";

struct CheckpointSpec {
  std::optional<std::chrono::nanoseconds> every;  // 0: only the one that ends the job; nothing: as the chief finds best
  int64_t keep = 3;
  std::string best = "loss";  // the value that chooses it: of training.stopEarly too; kNoBest: none is kept apart
  CheckpointVia via = CheckpointVia::kChief;
  bool operator==(const CheckpointSpec&) const = default;
};

struct SchedulingSpec {
  std::chrono::nanoseconds max_running_time{};  // from RUNNING on; 0: no limit
  bool operator==(const SchedulingSpec&) const = default;
};

// How long what is gone is waited for.
struct TimingSpec {
  std::chrono::nanoseconds server_wait = std::chrono::minutes(10);  // for a ps, by the chief
  std::chrono::nanoseconds chief_wait = std::chrono::minutes(10);   // for the chief, by ps and workers
  bool operator==(const TimingSpec&) const = default;
};

struct ClusterSpec {
  std::string scale_tier = "CUSTOM";
  int64_t worker_count = 1;
  int64_t parameter_server_count = 1;
  bool operator==(const ClusterSpec&) const = default;
};

inline constexpr int64_t kMostCodeBytes = int64_t{64} << 20;
inline constexpr char kCodeFile[] = "python/code.tar.gz";  // in the job folder

// The user's Python code, that each worker runs beside itself: docs/PYTHON.md.
struct PythonSpec {
  std::string module;                    // trainer.task; empty: the job has none
  std::string sha256;                    // of the archive that holds it (runtime/posix/package.h)
  int64_t bytes = 0;                     // likewise, at most kMostCodeBytes
  std::vector<std::string> args;         // its own, as sys.argv has them
  std::vector<MetricSpec> metrics = {};  // that it computes: no two of one name
  bool operator==(const PythonSpec&) const = default;
};

struct JobSpec {
  std::string name;
  uint64_t seed = 1;
  ClusterSpec cluster;
  PythonSpec python;
  ModelSpec model;
  TrainingSpec training;
  DataSpec data;
  CheckpointSpec checkpoint;
  SchedulingSpec scheduling;
  TimingSpec timing;
  bool operator==(const JobSpec&) const = default;
};

// The keys of the job file that make batches and state mean something else, and in which the two jobs differ. More
// epochs, other rates and other clusters go on with the same plan.
std::vector<std::string> PlanDifferences(const JobSpec& job, const JobSpec& before);

}  // namespace downpour
