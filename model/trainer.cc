#include "model/trainer.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "data/dataset.h"
#include "job/job_names.h"
#include "job/slice_grid.h"
#include "model/examples.h"
#include "model/gradient_slicer.h"
#include "model/graph.h"
#include "model/local_steps.h"
#include "runtime/metrics.h"
#include "runtime/plan.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

// Two parties that must agree before a step makes sense.
absl::Status CheckModelFits(const char* key, const Examples& examples, const ModelSpec& model, const Graph& graph) {
  const int64_t width = examples.width(), classes = examples.classes();
  if (width != graph.input_width()) {
    std::string inputs;
    for (const InputSpec& input : model.inputs) absl::StrAppend(&inputs, inputs.empty() ? "" : ", ", input.name);
    return absl::InvalidArgumentError(absl::StrCat(key, " has ", width, " values per example, but the model's inputs (",
                                                   inputs, ") take ", graph.input_width(), "; correct model.inputs or ",
                                                   key));
  }
  const bool classes_matter = model.loss == Loss::kSoftmaxCrossEntropy || graph.output_width() > 1;
  if (classes_matter && classes > graph.output_width()) {
    return absl::InvalidArgumentError(absl::StrCat(key, " has ", classes, " classes, but the model's output (",
                                                   model.layers.back().name, ") has ", graph.output_width(),
                                                   " units; correct model.layers or ", key));
  }
  return absl::OkStatus();
}

Precision PrecisionOf(ProductPrecision wish) {
  switch (wish) {
    case ProductPrecision::kTf32:
      return Precision::kTf32;
    case ProductPrecision::kBf16:
      return Precision::kBf16;
    case ProductPrecision::kFp32:
      break;
  }
  return Precision::kFp32;
}

std::string Arithmetic(const TrainingSpec& training, const Backend& backend) {
  const std::string wish = NameIn(kPrecisions, training.precision);
  std::string text = "all in fp32";
  if (backend.precision() != Precision::kFp32) {
    const bool rounds_all = backend.precision() == Precision::kBf16;
    text = absl::StrCat("matrix products", rounds_all ? " and what layers hand on" : "", " in ", wish,
                        ", all else in fp32");
  } else if (training.precision != ProductPrecision::kFp32) {
    absl::StrAppend(&text, ", since this device has no faster units for ", wish);
  }
  if (training.wire != WireFormat::kFp32) {
    absl::StrAppend(&text, "; pushes and pulls in ", NameIn(kWireFormats, training.wire));
  }
  return text;
}

}  // namespace

class Trainer::Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Open(const JobSpec& job, Backend& backend,
                                                       ParameterLoader& parameters) {
    backend.UsePrecision(PrecisionOf(job.training.precision));
    std::unique_ptr<Session> session(new Session(parameters));
    absl::Status status = session->OpenData(job);
    if (status.ok()) status = session->BuildModel(job, backend);
    if (!status.ok()) return status;
    session->arithmetic_ = Arithmetic(job.training, backend);
    session->plan_ = Plan(job, session->train_->size());
    if (job.training.local_steps > 0) session->local_.emplace(job, &session->grid_, session->plan_);
    session->batch_size_ = static_cast<size_t>(job.training.batch_size);
    session->metrics_ = job.training.metrics;
    session->model_ = job.model;
    return session;
  }
  ~Session() { parameters_.Close(); }

  Prepared prepared() const {
    const auto guess_of = [this](const std::optional<Examples>& examples) {
      return examples ? examples->GuessOf(model_, graph_->output_width()) : Guess();
    };
    return {.train_examples = train_->size(),
            .eval_examples = eval_size(),
            .fingerprint = FingerprintOf(train_->data(), eval_ ? &eval_->data() : nullptr),
            .arithmetic = arithmetic_,
            .guesses = {guess_of(train_), guess_of(eval_)}};
  }

  void Train(const TrainStep& request, const Done& done) {
    auto last = local_ ? ComputeLocalSteps(request) : ComputeStep(request, done);
    parameters_.EndStep(last.ok());
    last.ok() ? done(absl::OkStatus(), *std::move(last)) : done(last.status(), {});
  }

  absl::StatusOr<Evaluated> Evaluate(const EvalStep& request) {
    auto evaluated = ComputeEvaluation(request);
    parameters_.EndStep(evaluated.ok() && request.batches > 0);
    return evaluated;
  }

 private:
  explicit Session(ParameterLoader& parameters) : parameters_(parameters) {}

  absl::StatusOr<Evaluated> ComputeEvaluation(const EvalStep& request) {
    if (absl::Status status = Load(request.updates); !status.ok()) return status;
    if (local_) {
      local_->Reset();
      if (absl::Status status = SetParameters(); !status.ok()) return status;
    }
    const uint64_t total = eval_size() / batch_size_ + (eval_size() % batch_size_ != 0);
    if (request.first_batch > total || request.batches > total - request.first_batch) {
      return absl::OutOfRangeError(absl::StrCat("eval batches ", request.first_batch, " to ",
                                                request.first_batch + request.batches, " of ", total));
    }
    Evaluated evaluated;
    evaluated.metric_sums.resize(CountMetricSums(metrics_));
    const uint64_t end = request.first_batch + request.batches;
    for (uint64_t batch = request.first_batch; batch < end; ++batch) {
      ids_ = EvalBatch(batch);
      if (absl::Status status = LoadBatch(*eval_, ids_); !status.ok()) return status;
      const std::vector<float> labels = metrics_.empty() ? std::vector<float>() : Labels();  // before the next ones
      auto totals = graph_->Evaluate([&] {
        if (batch + 1 < end) PrefetchBatch(*eval_, EvalBatch(batch + 1));
      });
      if (!totals.ok()) return totals.status();
      evaluated.loss_sum += totals->loss;
      evaluated.correct += totals->correct;
      evaluated.examples += ids_.size();
      if (metrics_.empty()) continue;
      outputs_.resize(ids_.size() * static_cast<size_t>(graph_->output_width()));
      if (absl::Status status = graph_->ReadOutputs(absl::MakeSpan(outputs_)); !status.ok()) return status;
      AddMetricSums(metrics_, model_.loss, outputs_, labels, absl::MakeSpan(evaluated.metric_sums));
    }
    return evaluated;
  }

  absl::Status OpenData(const JobSpec& job) {
    auto train = Examples::Open(job.data, job.data.train, job.model);
    if (!train.ok()) return train.status();
    train_ = *std::move(train);
    if (job.data.eval.empty()) return absl::OkStatus();
    auto eval = Examples::Open(job.data, job.data.eval, job.model);
    if (!eval.ok()) return eval.status();
    eval_ = *std::move(eval);
    return absl::OkStatus();
  }

  absl::Status BuildModel(const JobSpec& job, Backend& backend) {
    auto grid = GridOf(job.model, job.training.wire);
    if (!grid.ok()) return grid.status();
    grid_ = *std::move(grid);
    for (const Slice& slice : grid_.slices) missing_.insert(slice.id);
    slicer_ = GradientSlicer(&grid_, job.training.servers_optimizer());

    auto graph = Graph::Create(job.model, job.training.batch_size, backend, train_->input_type());
    if (!graph.ok()) return graph.status();
    graph_ = *std::move(graph);
    absl::Status status = CheckModelFits("data.train", *train_, job.model, *graph_);
    if (status.ok() && eval_) status = CheckModelFits("data.eval", *eval_, job.model, *graph_);
    // What local steps begin with is laid out again for each of them, so there is nothing to stage ahead.
    if (!status.ok() || job.training.local_steps > 0) return status;
    return parameters_.Open(grid_, *graph_, backend);
  }

  absl::Status Load(const SliceValues& updates) {
    for (const auto& [id, values] : updates) {
      absl::Status status = local_ ? CheckValues(grid_, id, values) : parameters_.Load(id, values);
      if (!status.ok()) return status;
      if (local_) local_->Set(id, values);
      missing_.erase(id);
    }
    if (missing_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("a step before ", missing_.size(), " slices were loaded"));
  }

  // To the graph, as local steps left them.
  absl::Status SetParameters() {
    for (size_t variable = 0; variable < grid_.variables.size(); ++variable) {
      const absl::Status status = graph_->SetParameters(variable, 0, local_->values(variable));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::vector<uint64_t> EvalBatch(uint64_t batch) const {
    const uint64_t first = batch * batch_size_;
    std::vector<uint64_t> ids(std::min(batch_size_, eval_size() - first));
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  }

  bool InPlan(LeaseId lease, Step step) const {
    return plan_.Contains(lease) && step >= 1 && step <= plan_.StepsOf(lease);
  }

  absl::Status LoadBatch(const Examples& examples, absl::Span<const uint64_t> ids) {
    const bool is_there = ahead_of_ == &examples && absl::MakeConstSpan(ahead_) == ids;
    ahead_of_ = nullptr;
    return is_there ? absl::OkStatus() : Upload(examples, ids);
  }

  // The batch that will most likely be asked for next. If it cannot be had, that is told when it is: it is read again.
  void PrefetchBatch(const Examples& examples, std::vector<uint64_t> ids) {
    ahead_ = std::move(ids);
    ahead_of_ = Upload(examples, ahead_).ok() ? &examples : nullptr;
  }

  absl::Status Upload(const Examples& examples, absl::Span<const uint64_t> ids) {
    if (absl::Status status = examples.Read(ids, &batch_); !status.ok()) return status;
    return graph_->LoadBatch(batch_.inputs(), batch_.classes, batch_.numbers);
  }

  // Those of the batch that was brought up last.
  std::vector<float> Labels() const {
    if (!batch_.numbers.empty()) return batch_.numbers;
    return {batch_.classes.begin(), batch_.classes.end()};
  }

  absl::Status FindExamples(const TrainStep& request) {
    if (!InPlan(request.lease, request.step)) {
      return absl::InvalidArgumentError(
          absl::StrCat("step ", request.step, " of lease ", ToNumber(request.lease), " is not in the plan"));
    }
    slicer_.Settle(request.settled);
    plan_.Examples(request.lease, request.step, &ids_);
    return absl::OkStatus();
  }

  // The first batch of what is said to be next.
  void LoadNextStep(const TrainStep& request) {
    if (!request.next || !InPlan(request.next->first, request.next->second)) return;
    std::vector<uint64_t> next;
    plan_.Examples(request.next->first, request.next->second, &next);
    next.resize(std::min(next.size(), batch_size_));
    PrefetchBatch(*train_, std::move(next));
  }

  // Each batch by itself, on what the ones before it made of the parameters. Nothing leaves before the last one.
  absl::StatusOr<Gradients> ComputeLocalSteps(const TrainStep& request) {
    if (absl::Status status = FindExamples(request); !status.ok()) return status;
    if (absl::Status status = Load(request.updates); !status.ok()) return status;
    local_->Begin(request);
    const auto all = absl::MakeConstSpan(ids_);
    double loss_sum = 0;
    uint64_t batch = 0;
    for (size_t before = 0; before < all.size(); before += batch_size_, ++batch) {
      if (absl::Status status = LoadBatch(*train_, all.subspan(before, batch_size_)); !status.ok()) return status;
      if (absl::Status status = SetParameters(); !status.ok()) return status;
      VariableGradients gradients;
      const auto take = [&](VariableGradients ready) {
        std::move(ready.begin(), ready.end(), std::back_inserter(gradients));
      };
      const auto prefetch = [&] {
        const auto next = all.subspan(std::min(before + batch_size_, all.size()));
        if (next.empty()) return LoadNextStep(request);
        const auto some = next.subspan(0, batch_size_);
        PrefetchBatch(*train_, {some.begin(), some.end()});
      };
      auto trained = graph_->Train(plan_.DrawSeed(request.lease, request.step, batch), take, BatchInStep(), prefetch);
      if (!trained.ok()) return trained.status();
      loss_sum += trained->loss;
      take(std::move(trained->last));
      local_->Take(std::move(gradients));
    }
    return Gradients{.slices = slicer_.SliceGradients({request.lease, request.step}, local_->End()),
                     .last = true,
                     .loss_sum = loss_sum,
                     .examples = ids_.size()};
  }

  // Hands out all gradients but the last ones, which it returns: all of them where their norm is to be known first.
  absl::StatusOr<Gradients> ComputeStep(const TrainStep& request, const Done& done) {
    if (absl::Status status = FindExamples(request); !status.ok()) return status;
    const GradientSlicer::StepName name = {request.lease, request.step};
    VariableGradients ready;  // and not handed out
    const auto take = [&](VariableGradients gradients) {
      std::move(gradients.begin(), gradients.end(), std::back_inserter(ready));
    };
    const auto hand_out = [&](VariableGradients gradients) {
      take(std::move(gradients));
      if (slicer_.needs_all()) return;
      done(absl::OkStatus(), Gradients{slicer_.SliceGradients(name, std::exchange(ready, {}))});
    };
    const auto prefetch = [&] { LoadNextStep(request); };
    BatchInStep place{.before = 0, .examples = static_cast<int64_t>(ids_.size())};
    Graph::TrainResult result;
    for (uint64_t batch = 0; place.before < place.examples; ++batch) {
      const auto ids = absl::MakeConstSpan(ids_).subspan(static_cast<size_t>(place.before), batch_size_);
      // The batch first: the first layer may begin once its parameters follow, while those of the others still come.
      if (absl::Status status = LoadBatch(*train_, ids); !status.ok()) return status;
      if (absl::Status status = batch == 0 ? Load(request.updates) : absl::OkStatus(); !status.ok()) return status;
      auto trained = graph_->Train(plan_.DrawSeed(request.lease, request.step, batch), hand_out, place, prefetch);
      if (!trained.ok()) return trained.status();
      result = *std::move(trained);
      place.before += static_cast<int64_t>(ids.size());
    }
    take(std::move(result.last));
    return Gradients{.slices = slicer_.SliceGradients(name, std::move(ready)),
                     .last = true,
                     .loss_sum = result.loss,
                     .examples = ids_.size()};
  }

  uint64_t eval_size() const { return eval_ ? eval_->size() : 0; }

  ParameterLoader& parameters_;
  std::optional<Examples> train_;
  std::optional<Examples> eval_;  // nothing where there is no evaluation
  std::string arithmetic_;
  Plan plan_;
  size_t batch_size_ = 1;
  SliceGrid grid_;
  std::set<SliceId> missing_;  // never loaded
  GradientSlicer slicer_;
  std::optional<LocalSteps> local_;  // where the job has them
  std::vector<MetricSpec> metrics_;
  ModelSpec model_;
  std::vector<float> outputs_;  // of the evaluation's batch, where there are metrics
  std::unique_ptr<Graph> graph_;
  std::vector<uint64_t> ids_;           // of the step at hand
  ExampleBatch batch_;                  // that was brought up last, as are the next
  const Examples* ahead_of_ = nullptr;  // where that was done ahead
  std::vector<uint64_t> ahead_;
};

Trainer::Trainer(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
Trainer::~Trainer() = default;

void Trainer::Run(const ComputeRequest& request, const Done& done) {
  if (const auto* prepare = std::get_if<Prepare>(&request)) {
    session_.reset();
    auto session = Session::Open(prepare->job, *backend_, parameters_);
    if (!session.ok()) return done(session.status(), {});
    session_ = *std::move(session);
    return done(absl::OkStatus(), session_->prepared());
  }
  if (session_ == nullptr) return done(absl::FailedPreconditionError("nothing is prepared"), {});
  if (const auto* train = std::get_if<TrainStep>(&request)) return session_->Train(*train, done);
  auto evaluated = session_->Evaluate(std::get<EvalStep>(request));
  evaluated.ok() ? done(absl::OkStatus(), *evaluated) : done(evaluated.status(), {});
}

void Trainer::PrefetchParameters(const SliceValues& values) {
  for (const auto& [id, payload] : values) parameters_.Pack(id, payload);
}

}  // namespace downpour
