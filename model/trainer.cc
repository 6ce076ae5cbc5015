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
#include "model/batch_reader.h"
#include "model/embedding_rows.h"
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
  // Of a single sigmoid a label is 0 or 1.
  if (model.loss == Loss::kSigmoidCrossEntropy && graph.output_width() == 1 && classes > 2) {
    return absl::InvalidArgumentError(absl::StrCat(key, " has ", classes, " classes, but the model's single output (",
                                                   model.layers.back().name, ") tells two apart; correct model.layers ",
                                                   "or ", key));
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
    session->counts_weights_ = job.data.counts_weights();
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
            .guesses = {guess_of(train_), guess_of(eval_)},
            .eval_fingerprint = eval_ ? eval_->data().fingerprint() : 0,
            .files = train_->data().files()};
  }

  absl::StatusOr<KeysFound> Find(const FindKeys& request) {
    if (!rows_) return KeysFound();
    found_of_ = nullptr;
    const std::optional<Examples>& from = request.step ? train_ : eval_;
    absl::Status status = request.step ? FindExamples(request.step->first, request.step->second)
                                       : FindEvalExamples(request.first_batch, request.batches);
    if (!status.ok()) return status;
    rows_->Begin();
    for (size_t before = 0; before < ids_.size(); before += batch_size_) {
      const auto batch = absl::MakeConstSpan(ids_).subspan(before, batch_size_);
      if (status = reader_.ReadNow(*from, batch); !status.ok()) return status;
      rows_->Find(from->KeysOf(reader_.batch()), batch.size());
    }
    found_of_ = &from;
    found_ = ids_;
    return KeysFound{rows_->Keys()};
  }

  void Train(const TrainStep& request, const Done& done) {
    slicer_.Settle(request.settled);
    for (const std::optional<LeaseId> lease : {std::optional(request.lease), request.lease_behind}) {
      if (lease && plan_.Contains(*lease)) reader_.ReadAhead(train_->data(), plan_, *lease);
    }
    auto last = local_ ? ComputeLocalSteps(request) : ComputeStep(request, done);
    parameters_.EndStep(last.ok());
    const auto reading = reader_.TakeReading();
    if (last.ok()) last->reading = reading;
    last.ok() ? done(absl::OkStatus(), *std::move(last)) : done(last.status(), {});
  }

  absl::StatusOr<Evaluated> Evaluate(const EvalStep& request) {
    auto evaluated = ComputeEvaluation(request);
    reader_.TakeReading();
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
    if (absl::Status status = FindEvalExamples(request.first_batch, request.batches); !status.ok()) return status;
    if (absl::Status status = LoadRows(eval_, request.updates); !status.ok()) return status;
    Evaluated evaluated;
    evaluated.metric_sums.resize(CountMetricSums(metrics_));
    const bool needs_outputs = !metrics_.empty() || counts_weights_;
    const auto batch = [&](uint64_t number) {
      return absl::MakeConstSpan(ids_).subspan(number * batch_size_, batch_size_);
    };
    for (uint64_t number = 0; number < request.batches; ++number) {
      if (absl::Status status = LoadBatch(*eval_, batch(number), number); !status.ok()) return status;
      // Before those of the next batch are there.
      const std::vector<float> labels = needs_outputs ? reader_.Labels() : std::vector<float>();
      const std::vector<double> weights = counts_weights_ ? reader_.LabelWeights() : std::vector<double>();
      auto totals = graph_->Evaluate([&] {
        if (number + 1 < request.batches) PrefetchBatch(*eval_, batch(number + 1));
      });
      if (!totals.ok()) return totals.status();
      evaluated.loss_sum += totals->loss;
      evaluated.correct += totals->correct;
      evaluated.examples += batch(number).size();
      if (!needs_outputs) continue;
      outputs_.resize(batch(number).size() * static_cast<size_t>(graph_->output_width()));
      if (absl::Status status = graph_->ReadOutputs(absl::MakeSpan(outputs_)); !status.ok()) return status;
      AddMetricSums(metrics_, model_.loss, outputs_, labels, weights, absl::MakeSpan(evaluated.metric_sums));
      if (!counts_weights_) continue;
      evaluated.weight += std::accumulate(weights.begin(), weights.end(), 0.0);
      evaluated.right += WeightOfRight(outputs_, labels, weights);
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
    for (const Slice& slice : grid_.slices) {
      if (!grid_.IsBucket(slice.id)) missing_.insert(slice.id);
    }
    if (job.model.has_tables()) rows_.emplace(job.model, &grid_);
    slicer_ = GradientSlicer(&grid_, job.training.servers_optimizer());

    auto graph = Graph::Create(job.model, job.training.batch_size, backend, train_->kind());
    if (!graph.ok()) return graph.status();
    graph_ = *std::move(graph);
    absl::Status status = CheckModelFits("data.train", *train_, job.model, *graph_);
    if (status.ok() && eval_) status = CheckModelFits("data.eval", *eval_, job.model, *graph_);
    // What local steps begin with is laid out again for each of them, so there is nothing to stage ahead.
    if (!status.ok() || job.training.local_steps > 0) return status;
    return parameters_.Open(grid_, *graph_, backend);
  }

  // Those of variables.
  absl::Status Load(const SliceValues& updates) {
    for (const auto& [id, values] : updates) {
      if (grid_.Contains(id) && grid_.IsBucket(id)) continue;
      absl::Status status = local_ ? CheckValues(grid_, id, values) : parameters_.Load(id, values);
      if (!status.ok()) return status;
      if (local_) local_->Set(id, values);
      missing_.erase(id);
    }
    if (missing_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("a step before ", missing_.size(), " slices were loaded"));
  }

  // Those of the examples at hand, whose keys were found.
  absl::Status LoadRows(const std::optional<Examples>& from, const SliceValues& updates) {
    if (!rows_ || ids_.empty()) return absl::OkStatus();
    if (found_of_ == &from && found_ == ids_) return rows_->SetRows(updates);
    return absl::FailedPreconditionError("a step or an evaluation whose keys were not found right before");
  }

  // To the graph, as local steps left them.
  absl::Status SetParameters() {
    for (size_t variable = 0; variable < grid_.variables.size(); ++variable) {
      const absl::Status status = graph_->SetParameters(variable, 0, local_->values(variable));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status FindEvalExamples(uint64_t first_batch, uint64_t batches) {
    const uint64_t total = eval_size() / batch_size_ + (eval_size() % batch_size_ != 0);
    if (first_batch > total || batches > total - first_batch) {
      return absl::OutOfRangeError(
          absl::StrCat("eval batches ", first_batch, " to ", first_batch + batches, " of ", total));
    }
    const uint64_t first = std::min(first_batch * batch_size_, eval_size());
    ids_.resize(std::min(batches * batch_size_, eval_size() - first));
    std::iota(ids_.begin(), ids_.end(), first);
    if (eval_) eval_->data().ReadAhead(ids_);
    return absl::OkStatus();
  }

  bool InPlan(LeaseId lease, Step step) const {
    return plan_.Contains(lease) && step >= 1 && step <= plan_.StepsOf(lease);
  }

  // `number`: of the batch in its step or evaluation.
  absl::Status LoadBatch(const Examples& examples, absl::Span<const uint64_t> ids, size_t number) {
    if (std::exchange(is_up_, false) && reader_.Has(examples, ids)) return absl::OkStatus();
    absl::Status status = reader_.ReadNow(examples, ids);
    return status.ok() ? Upload(examples, ids, number) : status;
  }

  // The batch that will most likely be asked for next. If it cannot be had, that is told when it is: it is read again.
  // Of one with embeddings the rows are still to come.
  void PrefetchBatch(const Examples& examples, absl::Span<const uint64_t> ids) {
    is_up_ = rows_ ? (reader_.Read(examples, ids).IgnoreError(), false) : Upload(examples, ids, 0).ok();
  }

  absl::Status Upload(const Examples& examples, absl::Span<const uint64_t> ids, size_t number) {
    if (absl::Status status = reader_.Read(examples, ids); !status.ok()) return status;
    ExampleBatch& batch = reader_.batch();
    if (rows_) {
      rows_->Pool(number, static_cast<size_t>(examples.width()), batch.expanded.data() + examples.inputs_width());
    }
    return graph_->LoadBatch(batch.inputs(), batch.classes, batch.numbers, batch.weights);
  }

  absl::Status FindExamples(LeaseId lease, Step step) {
    if (!InPlan(lease, step)) {
      return absl::InvalidArgumentError(
          absl::StrCat("step ", step, " of lease ", ToNumber(lease), " is not in the plan"));
    }
    reader_.ReadAhead(train_->data(), plan_, lease);
    plan_.Examples(lease, step, &ids_);
    return absl::OkStatus();
  }

  // The first batch of what is said to be next.
  void LoadNextStep(const TrainStep& request) {
    if (!request.next || !InPlan(request.next->first, request.next->second)) return;
    std::vector<uint64_t> next;
    plan_.Examples(request.next->first, request.next->second, &next);
    next.resize(std::min(next.size(), batch_size_));
    PrefetchBatch(*train_, next);
  }

  // Each batch by itself, on what the ones before it made of the parameters. Nothing leaves before the last one.
  absl::StatusOr<Gradients> ComputeLocalSteps(const TrainStep& request) {
    if (absl::Status status = FindExamples(request.lease, request.step); !status.ok()) return status;
    if (absl::Status status = Load(request.updates); !status.ok()) return status;
    local_->Begin(request);
    const auto all = absl::MakeConstSpan(ids_);
    double loss_sum = 0, weight = 0;
    uint64_t batch = 0;
    for (size_t before = 0; before < all.size(); before += batch_size_, ++batch) {
      const auto ids = all.subspan(before, batch_size_);
      if (absl::Status status = LoadBatch(*train_, ids, batch); !status.ok()) return status;
      weight += reader_.Weight();
      if (absl::Status status = SetParameters(); !status.ok()) return status;
      VariableGradients gradients;
      const auto take = [&](VariableGradients ready) {
        std::move(ready.begin(), ready.end(), std::back_inserter(gradients));
      };
      const auto prefetch = [&] {
        const auto next = all.subspan(std::min(before + batch_size_, all.size()));
        if (next.empty()) return LoadNextStep(request);
        PrefetchBatch(*train_, next.subspan(0, batch_size_));
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
                     .examples = ids_.size(),
                     .weight = weight};
  }

  // Hands out all gradients but the last ones, which it returns: all of them where their norm is to be known first.
  absl::StatusOr<Gradients> ComputeStep(const TrainStep& request, const Done& done) {
    if (absl::Status status = FindExamples(request.lease, request.step); !status.ok()) return status;
    if (absl::Status status = LoadRows(train_, request.updates); !status.ok()) return status;
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
    double weight = 0;
    for (uint64_t batch = 0; place.before < place.examples; ++batch) {
      const auto ids = absl::MakeConstSpan(ids_).subspan(static_cast<size_t>(place.before), batch_size_);
      // The batch first: the first layer may begin once its parameters follow, while those of the others still come.
      if (absl::Status status = LoadBatch(*train_, ids, batch); !status.ok()) return status;
      weight += reader_.Weight();
      if (absl::Status status = batch == 0 ? Load(request.updates) : absl::OkStatus(); !status.ok()) return status;
      auto trained = graph_->Train(plan_.DrawSeed(request.lease, request.step, batch), hand_out, place, prefetch);
      if (!trained.ok()) return trained.status();
      if (absl::Status status = AddRowGradients(batch); !status.ok()) return status;
      result = *std::move(trained);
      place.before += static_cast<int64_t>(ids.size());
    }
    take(std::move(result.last));
    Gradients last{.slices = slicer_.SliceGradients(name, std::move(ready)),
                   .last = true,
                   .loss_sum = result.loss,
                   .examples = ids_.size(),
                   .weight = weight};
    if (rows_) rows_->AppendGradients(&last.slices);
    return last;
  }

  absl::Status AddRowGradients(size_t batch) {
    if (!rows_) return absl::OkStatus();
    auto gradients = graph_->ReadEmbeddingGradients();
    if (gradients.ok()) rows_->AddGradients(batch, rows_->width(), *gradients);
    return gradients.status();
  }

  uint64_t eval_size() const { return eval_ ? eval_->size() : 0; }

  ParameterLoader& parameters_;
  std::optional<Examples> train_;
  std::optional<Examples> eval_;  // nothing where there is no evaluation
  std::string arithmetic_;
  Plan plan_;
  size_t batch_size_ = 1;
  SliceGrid grid_;
  std::set<SliceId> missing_;  // of variables, never loaded
  GradientSlicer slicer_;
  std::optional<LocalSteps> local_;  // where the job has them
  std::vector<MetricSpec> metrics_;
  bool counts_weights_ = false;
  ModelSpec model_;
  std::vector<float> outputs_;  // of the evaluation's batch, where there are metrics
  std::unique_ptr<Graph> graph_;
  std::vector<uint64_t> ids_;  // of the step or the evaluation at hand
  BatchReader reader_;
  bool is_up_ = false;                                 // it was brought up ahead
  std::optional<EmbeddingRows> rows_;                  // where the model has tables
  const std::optional<Examples>* found_of_ = nullptr;  // whose keys rows_ has, as are the next; nothing: of none
  std::vector<uint64_t> found_;
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
  if (const auto* find = std::get_if<FindKeys>(&request)) {
    auto found = session_->Find(*find);
    return found.ok() ? done(absl::OkStatus(), *std::move(found)) : done(found.status(), {});
  }
  const auto* evaluate = std::get_if<EvalStep>(&request);
  if (evaluate == nullptr) return done(absl::UnimplementedError("layers know all keys before a step"), {});
  auto evaluated = session_->Evaluate(*evaluate);
  evaluated.ok() ? done(absl::OkStatus(), *evaluated) : done(evaluated.status(), {});
}

void Trainer::PrefetchParameters(const SliceValues& values) {
  for (const auto& [id, payload] : values) parameters_.Pack(id, payload);
}

}  // namespace downpour
