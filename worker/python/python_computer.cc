#include "worker/python/python_computer.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/job_names.h"
#include "job/slice_grid.h"
#include "job/tf_config.h"
#include "model/gradient_slicer.h"
#include "model/local_steps.h"
#include "model/parameter_loader.h"
#include "runtime/options.h"
#include "runtime/plan.h"
#include "runtime/posix/code_cache.h"
#include "runtime/prng.h"
#include "schema/text.h"
#include "tensor/apply_kernels.h"
#include "worker/python/child_memory.h"
#include "worker/python/child_rows.h"
#include "worker/python/gradient_sets.h"
#include "worker/python/question_size.h"
#include "worker/python/ready_code.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostToTell = 400;  // bytes of what a child is at
// Sets of gradients: one is written while those of two steps (WorkerOptions::steps_in_flight) are on their way. Where a
// worker has more under way, they are copied.
constexpr size_t kGradientSets = 3;
constexpr size_t kMostNamed = 16;  // examples of a step in which the user's code raised

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// JSON has no number for what is not finite.
double NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  return value == "inf" ? kInfinity : value == "-inf" ? -kInfinity : kUndefined;
}

// What the user's code raised, with the examples that it was given.
absl::Status RaisedIn(LeaseId lease, Step step, absl::Span<const uint64_t> ids, const absl::Status& raised) {
  const absl::Span<const uint64_t> named = ids.first(std::min(ids.size(), kMostNamed));
  const size_t others = ids.size() - named.size();
  return absl::AbortedError(absl::StrCat(
      "step ", step, " of lease ", ToNumber(lease), " (examples ", absl::StrJoin(named, ", "),
      others == 0 ? "" : absl::StrCat(" and ", Counted(others, "other")), "): ", std::string(raised.message())));
}

// Its environment, with what other launchers tell their tasks.
PythonOptions OptionsOf(PythonOptions options, const Prepare& prepare) {
  options.task = prepare.task;
  options.patience = Seconds(CodePatience(prepare.job.scheduling.max_running_time));
  if (options.has_tf_config) return options;
  TfTask task{.type = TaskType::kWorker, .chief = options.chief};
  if (!absl::SimpleAtoi(prepare.task.substr(prepare.task.rfind('-') + 1), &task.index)) task.index = 0;
  if (const char* trial = std::getenv("CLOUD_ML_TRIAL_ID"); trial != nullptr) task.trial = trial;
  const std::string text = TfConfigOf(prepare.job, task);
  for (const char* name : {"TF_CONFIG", "CLUSTER_SPEC"}) options.environment.emplace_back(name, text);
  return options;
}

}  // namespace

class PythonComputer::Session {
 public:
  using Tell = std::function<void(Preparing)>;

  static absl::StatusOr<std::unique_ptr<Session>> Open(const JobSpec& job, CachedCode code,
                                                       const PythonOptions& options, const Tell& tell) {
    auto grid = GridOf(job.model, job.training.wire);
    if (!grid.ok()) return grid.status();
    std::unique_ptr<Session> session(new Session(job, *std::move(grid)));
    session->code_ = std::move(code);
    const SliceGrid& of = session->grid_;
    auto child = PythonChild::Start(options, job.python, session->code_.path,
                                    {.bytes = (1 + kGradientSets) * session->memory_.region,
                                     .row_bytes = ChildRows::BytesOf(ChildRows::MostNumbers(of))});
    if (!child.ok()) return child.status();
    session->child_ = *std::move(child);
    session->rows_ = ChildRows(&of, session->child_->row_memory());
    const std::shared_ptr<std::byte>& memory = session->child_->memory();
    session->sets_ =
        GradientSets({memory, memory.get() + session->memory_.region}, session->memory_.region, kGradientSets);
    const auto on_preparing = [&](const std::string& what, const std::string& waiting_for) {
      tell({.what = CleanText(what, kMostToTell), .waiting_for = CleanText(waiting_for, kMostToTell)});
    };
    const absl::StatusOr<Json> ready = session->child_->Receive("ready", on_preparing);
    if (absl::IsUnavailable(ready.status())) {
      const std::string what = absl::StrCat(std::string(ready.status().message()), " before it called downpour.fit");
      const int signal = session->child_->killed_by();
      if (signal == 0) return absl::InvalidArgumentError(what + "; this worker's log says why");
      return absl::CancelledError(what + (signal == SIGKILL ? "; the likely cause: out of memory" : ""));
    }
    if (!ready.ok()) return ready.status();
    if (const absl::Status status = CheckIsAsSubmitted(*ready, job); !status.ok()) return status;
    session->metric_places_ = *PlacesOf(job.training.metrics, *ready);
    for (const Json& one : ArrayOf(*ready, "dataFingerprints")) {
      const uint64_t number = one.is_number_unsigned() ? one.get<uint64_t>() : 0;
      session->of_files_ = MixAll(session->of_files_, number);
      session->has_files_ |= number != 0;
    }
    session->knows_keys_ = ready->value("knowsKeys", Json()) == true;
    const Json arithmetic = ready->value("arithmetic", Json());
    session->arithmetic_ = arithmetic.is_string() ? CleanText(arithmetic.get<std::string>(), 256) : "";
    return session;
  }

  Prepared prepared() const {
    const auto train = static_cast<uint64_t>(job_.data.train_examples);
    const uint64_t counts = MixAll(train, eval_examples());
    return {train, eval_examples(), has_files_ ? MixAll(counts, of_files_) : counts, arithmetic_};
  }

  // Of a step, or of one batch of an evaluation. Code without a function of keys finds out amid that.
  absl::StatusOr<ComputeResult> Find(const FindKeys& request) {
    rows_.Begin();
    if (!knows_keys_) return KeysFound();
    at_hand_ = AtHand();
    Json find;
    if (request.step) {
      const auto [lease, step] = *request.step;
      if (const absl::Status status = CheckStep(lease, step); !status.ok()) return status;
      at_hand_ = AtHand{.lease = lease, .step = step, .ids = ExamplesOf(lease, step)};
      find["batches"] = BatchesOf(lease, step, at_hand_->ids);
    } else {
      const absl::StatusOr<Json> batches = EvalBatches(request.first_batch, request.batches);
      if (!batches.ok()) return batches.status();
      at_hand_->evaluates = true;
      find["evaluate"] = *batches;
    }
    return Take(child_->Ask({{"find", std::move(find)}}, "found"));
  }

  absl::StatusOr<ComputeResult> Train(const TrainStep& request) {
    if (const absl::Status status = CheckStep(request.lease, request.step); !status.ok()) return status;
    if (const absl::Status status = Load(request.updates); !status.ok()) return status;
    slicer_.Settle(request.settled);
    at_hand_ = AtHand{.lease = request.lease, .step = request.step, .ids = ExamplesOf(request.lease, request.step)};
    const Json batches = BatchesOf(request.lease, request.step, at_hand_->ids);
    const Json next = BatchAfter(request);
    if (local_) return TakeTrained(ComputeLocalSteps(request, batches, next));
    return Take(AskToTrain(batches, next));
  }

  absl::StatusOr<ComputeResult> Evaluate(const EvalStep& request) {
    if (const absl::Status status = Load(request.updates); !status.ok()) return status;
    if (local_) {
      local_->Reset();
      LayParameters();
    }
    absl::StatusOr<Json> batches = EvalBatches(request.first_batch, request.batches);
    if (!batches.ok()) return batches.status();
    at_hand_ = AtHand{.evaluates = true};
    for (const Json& batch : *batches) at_hand_->examples += batch.size();
    return Take(child_->Ask({{"evaluate", {{"batches", *std::move(batches)}}}}, "evaluated"));
  }

  absl::StatusOr<ComputeResult> GoOn(const MoreRows& more) {
    if (!at_hand_) return absl::FailedPreconditionError("rows amid no step");
    const absl::Status status = more.in_vain ? absl::OkStatus() : rows_.Lay(more.rows);
    if (!status.ok()) return status;
    if (more.in_vain) rows_.LayNothing();
    return Take(child_->Ask({{"rows", Json::object()}}, at_hand_->evaluates ? "evaluated" : "trained"));
  }

  // What the program does behind its fit(). Its end is the session's, too.
  absl::StatusOr<EpilogueEnded> Finish(const EpilogueStep& request) {
    for (const auto& [id, values] : request.values) {
      std::memcpy(PlaceOf(id), values.data(), std::min(values.size(), static_cast<size_t>(grid_.at(id).bytes())));
    }
    Json history = Json::parse(request.history, nullptr, /*allow_exceptions=*/false);
    if (!history.is_array()) history = Json::array();
    const absl::Status ended = child_->Finish({{"finish", {{"history", std::move(history)}}}});
    if (absl::IsUnavailable(ended)) return ended;
    return EpilogueEnded{.error = std::string(ended.message())};
  }

 private:
  Session(const JobSpec& job, SliceGrid grid)
      : job_(job),
        plan_(job, static_cast<uint64_t>(job.data.train_examples)),
        batch_size_(static_cast<size_t>(job.training.batch_size)),
        grid_(std::move(grid)),
        memory_(grid_.variables),
        slicer_(&grid_, job.training.servers_optimizer()) {
    if (job.training.local_steps > 0) local_.emplace(job, &grid_, plan_);
    for (size_t slice = 0; slice < grid_.dense(); ++slice) missing_.insert(grid_.slices[slice].id);
  }

  struct Trained {
    VariableGradients gradients;
    double loss_sum = 0;
    uint64_t examples = 0;
  };

  // What the child was asked for last, and has not ended yet.
  struct AtHand {
    bool evaluates = false;
    LeaseId lease{};
    Step step = 0;
    std::vector<uint64_t> ids = {};  // of the step
    uint64_t examples = 0;           // of the evaluation
    size_t set = 0;                  // of gradients
  };

  uint64_t eval_examples() const { return static_cast<uint64_t>(job_.data.eval_examples); }

  // Whether the user's code raised, or ended its process, as a crash does. A kill says nothing of the code.
  bool HasFailedByItself(const absl::Status& said) const {
    return absl::IsAborted(said) || (absl::IsUnavailable(said) && child_->killed_by() == 0);
  }

  absl::Status CheckStep(LeaseId lease, Step step) const {
    if (plan_.Contains(lease) && step >= 1 && step <= plan_.StepsOf(lease)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step, " of lease ", ToNumber(lease), " is not in the plan"));
  }

  absl::StatusOr<Json> EvalBatches(uint64_t first, uint64_t count) const {
    const uint64_t total = eval_examples() / batch_size_ + (eval_examples() % batch_size_ != 0);
    if (first > total || count > total - first) {
      return absl::OutOfRangeError(absl::StrCat("eval batches ", first, " to ", first + count, " of ", total));
    }
    Json batches = Json::array();
    for (uint64_t batch = first; batch < first + count; ++batch) {
      std::vector<uint64_t> ids(std::min(batch_size_, eval_examples() - batch * batch_size_));
      std::iota(ids.begin(), ids.end(), batch * batch_size_);
      batches.push_back(std::move(ids));
    }
    return batches;
  }

  // What the user's code raised, with the step in which it did.
  absl::Status FailureOf(const absl::Status& said) const {
    if (!HasFailedByItself(said)) return said;
    if (at_hand_->evaluates) return absl::AbortedError(said.message());
    return child_->failed_unasked() ? said : RaisedIn(at_hand_->lease, at_hand_->step, at_hand_->ids, said);
  }

  // The child's answer. It may need rows before it can go on.
  absl::StatusOr<ComputeResult> Take(const absl::StatusOr<Json>& said) {
    if (!said.ok()) return FailureOf(said.status());
    if (const auto needs = said->find("needs"); needs != said->end() && child_->row_memory() != nullptr) {
      absl::StatusOr<SliceValues> keys = rows_.Ask(*needs);
      if (!keys.ok()) return FailureOf(keys.status());
      return KeysFound{*std::move(keys)};
    }
    return at_hand_->evaluates ? TakeEvaluated(*said) : TakeTrained(TrainedOf(*said));
  }

  absl::StatusOr<ComputeResult> TakeTrained(absl::StatusOr<Trained> trained) {
    if (!trained.ok()) return FailureOf(trained.status());
    const AtHand step = *at_hand_;
    if (trained->examples != step.ids.size()) {
      return FailureOf(absl::AbortedError(
          absl::StrCat("the Python process trained ", trained->examples, " examples of ", step.ids.size())));
    }
    at_hand_.reset();
    Gradients gradients{.slices = slicer_.SliceGradients({step.lease, step.step}, std::move(trained->gradients)),
                        .last = true,
                        .loss_sum = trained->loss_sum,
                        .examples = step.ids.size()};
    rows_.AppendGradients(&gradients.slices);
    return gradients;
  }

  ComputeResult TakeEvaluated(const Json& said) {
    const uint64_t examples = std::exchange(at_hand_, std::nullopt)->examples;
    Evaluated evaluated{.loss_sum = NumberOf(said.value("lossSum", Json())),
                        .correct = std::min(CountOf(said, "correct"), examples),
                        .examples = examples};
    const Json sums = ArrayOf(said, "metricSums");
    for (const MetricPlace& place : metric_places_) {
      for (size_t i = place.first; i < place.first + place.sums; ++i) {
        evaluated.metric_sums.push_back(i < sums.size() ? NumberOf(sums[i]) : kUndefined);
      }
    }
    return evaluated;
  }

  std::vector<uint64_t> ExamplesOf(LeaseId lease, Step step) const {
    std::vector<uint64_t> ids;
    plan_.Examples(lease, step, &ids);
    return ids;
  }

  Json BatchesOf(LeaseId lease, Step step, absl::Span<const uint64_t> ids) const {
    Json batches = Json::array();
    for (size_t begin = 0; begin < ids.size(); begin += batch_size_) {
      const auto batch = ids.subspan(begin, batch_size_);
      batches.push_back({{"examples", Json(std::vector<uint64_t>(batch.begin(), batch.end()))},
                         {"seed", plan_.DrawSeed(lease, step, batches.size())}});
    }
    return batches;
  }

  // What the child may make before it is asked for: the first batch of the next step. Null: it is told of none.
  Json BatchAfter(const TrainStep& request) const {
    if (!request.next || batch_size_ > kMostAhead) return Json();
    const auto [lease, step] = *request.next;
    if (!plan_.Contains(lease) || step < 1 || step > plan_.StepsOf(lease)) return Json();
    const std::vector<uint64_t> ids = ExamplesOf(lease, step);
    return BatchesOf(lease, step, absl::MakeConstSpan(ids).first(std::min(ids.size(), batch_size_)))[0];
  }

  // The child is to compute the mean gradient over these batches.
  absl::StatusOr<Json> AskToTrain(const Json& batches, const Json& next) {
    at_hand_->set = sets_.Free();
    Json train = {{"batches", batches}, {"set", at_hand_->set}};
    if (!next.is_null()) train["next"] = next;
    return child_->Ask({{"train", std::move(train)}}, "trained");
  }

  Trained TrainedOf(const Json& said) {
    Trained trained = {
        .gradients = {}, .loss_sum = NumberOf(said.value("lossSum", Json())), .examples = CountOf(said, "examples")};
    const size_t set = at_hand_->set;
    Payload all = sets_.Lend(set);
    if (all.empty()) all = Payload::CopyOf(sets_.at(set), memory_.region);
    for (size_t i = 0; i < grid_.variables.size(); ++i) {
      const auto bytes = static_cast<size_t>(grid_.variables[i].elements()) * sizeof(float);
      trained.gradients.emplace_back(i, all.Sub(memory_.offsets[i], bytes));
    }
    return trained;
  }

  // Each of them by itself, on what the ones before it made of the parameters.
  absl::StatusOr<Trained> ComputeLocalSteps(const TrainStep& request, const Json& batches, const Json& next) {
    local_->Begin(request);
    Trained all;
    for (size_t i = 0; i < batches.size(); ++i) {
      LayParameters();
      const auto said = AskToTrain(Json::array({batches[i]}), i + 1 < batches.size() ? batches[i + 1] : next);
      if (!said.ok()) return said.status();
      Trained trained = TrainedOf(*said);
      all.loss_sum += trained.loss_sum;
      all.examples += trained.examples;
      local_->Take(std::move(trained.gradients));
    }
    all.gradients = local_->End();
    return all;
  }

  // Before the child, as local steps left them.
  void LayParameters() {
    for (size_t i = 0; i < grid_.variables.size(); ++i) {
      const absl::Span<const float> values = local_->values(i);
      std::memcpy(child_->memory().get() + memory_.offsets[i], values.data(), values.size() * sizeof(float));
    }
  }

  // Among the parameters that the child sees.
  std::byte* PlaceOf(SliceId id) const {
    const Slice& slice = grid_.at(id);
    return child_->memory().get() + memory_.offsets[slice.variable] + static_cast<size_t>(slice.offset) * sizeof(float);
  }

  absl::Status Load(const SliceValues& updates) {
    if (child_->row_memory() != nullptr) {
      if (absl::Status status = rows_.Lay(updates); !status.ok()) return status;
    }
    for (const auto& [id, values] : updates) {
      if (grid_.Contains(id) && grid_.IsBucket(id)) continue;
      if (absl::Status status = CheckValues(grid_, id, values); !status.ok()) return status;
      missing_.erase(id);
      if (local_) {
        local_->Set(id, values);
        continue;
      }
      std::byte* to = PlaceOf(id);
      if (grid_.wire == WireFormat::kBf16) {
        WidenBf16(values.as<Bf16>(), reinterpret_cast<float*>(to));
      } else {
        std::memcpy(to, values.data(), values.size());
      }
    }
    if (missing_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("a step before ", missing_.size(), " slices were loaded"));
  }

  const JobSpec job_;
  const Plan plan_;
  const size_t batch_size_;
  const SliceGrid grid_;
  const ChildMemory memory_;
  GradientSlicer slicer_;
  std::optional<LocalSteps> local_;         // where the job has them
  std::vector<MetricPlace> metric_places_;  // of the job's metrics, in their order
  std::string arithmetic_;
  uint64_t of_files_ = 0;      // a fingerprint of the data,
  bool has_files_ = false;     // which counts where some of them are rows of files
  std::set<SliceId> missing_;  // never loaded
  CachedCode code_;            // which stays as long as this
  GradientSets sets_;
  std::unique_ptr<PythonChild> child_;
  ChildRows rows_;  // where the job has tables
  bool knows_keys_ = false;
  std::optional<AtHand> at_hand_;
};

PythonComputer::PythonComputer(PythonOptions options) : options_(std::move(options)) {}
PythonComputer::~PythonComputer() = default;

void PythonComputer::Run(const ComputeRequest& request, const Done& done) {
  if (const auto* prepare = std::get_if<Prepare>(&request)) {
    session_.reset();
    const CodeCache cache(options_.code_folder);
    const PythonSpec& code = prepare->job.python;
    auto cached = prepare->code.empty() ? cache.Find(code) : cache.Keep(code, prepare->code);
    if (absl::IsNotFound(cached.status())) return done(absl::OkStatus(), Prepared{.needs_code = true});
    if (!cached.ok()) return done(cached.status(), {});
    const auto tell = [&](Preparing preparing) { done(absl::OkStatus(), std::move(preparing)); };
    auto session = Session::Open(prepare->job, *std::move(cached), OptionsOf(options_, *prepare), tell);
    if (!session.ok()) return done(session.status(), {});
    session_ = *std::move(session);
    return done(absl::OkStatus(), session_->prepared());
  }
  if (session_ == nullptr) return done(absl::FailedPreconditionError("nothing is prepared"), {});
  const auto tell = [&](auto result) {
    result.ok() ? done(absl::OkStatus(), *std::move(result)) : done(result.status(), {});
  };
  if (const auto* find = std::get_if<FindKeys>(&request)) return tell(session_->Find(*find));
  if (const auto* train = std::get_if<TrainStep>(&request)) return tell(session_->Train(*train));
  if (const auto* more = std::get_if<MoreRows>(&request)) return tell(session_->GoOn(*more));
  if (const auto* rest = std::get_if<EpilogueStep>(&request)) {
    const std::unique_ptr<Session> last = std::move(session_);
    return tell(last->Finish(*rest));
  }
  tell(session_->Evaluate(std::get<EvalStep>(request)));
}

}  // namespace downpour
