#include "chief/known/evaluation.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/metrics.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// Parts one worker has at a time: the next one is there when it ends one.
constexpr uint64_t kPartsHeld = 2;

// Of one round; a split with more is cut into larger ones.
constexpr uint64_t kMaxParts = 4096;

constexpr double kRoundedUp = 1 + 1e-9;

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

bool IsWeightOf(uint64_t examples, double weight) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return weight >= 0 && weight <= static_cast<double>(examples) * kMost * kRoundedUp;
}

Evaluation::Evaluation(uint64_t eval_examples, uint64_t batch_size, uint64_t batches_per_part,
                       std::vector<MetricSpec> metrics, bool counts_weights)
    : metrics_(std::move(metrics)), counts_weights_(counts_weights) {
  const uint64_t batches = CeilDiv(eval_examples, batch_size);
  batches_per_part = std::max(batches_per_part, CeilDiv(batches, kMaxParts));
  for (uint64_t first = 0; first < batches; first += batches_per_part) {
    Part part;
    part.first_batch = first;
    part.batches = std::min(batches_per_part, batches - first);
    part.examples = std::min(eval_examples, (first + part.batches) * batch_size) - first * batch_size;
    parts_.push_back(part);
  }
}

void Evaluation::Begin(uint64_t epoch, bool values_frozen) {
  epoch_ = epoch;
  frozen_ = values_frozen;
  spread_ = values_frozen;
  active_ = !parts_.empty();
  Restart();
}

void Evaluation::Restart() {
  ++round_;
  evaluator_ = Incarnation::kNone;
  for (Part& part : parts_) {
    part.worker = Incarnation::kNone;
    part.done.reset();
  }
}

void Evaluation::Recall(Result result) {
  round_ = result.round;
  epoch_ = result.epoch;
  frozen_ = true;
  result_ = std::move(result);
}

// Numbers that are not finite are null.
std::string Evaluation::TextOf(const Result& result) {
  Json metrics = Json::array();
  for (const auto& [name, value] : result.metrics) metrics.push_back({name, value});
  const Json text = {{"round", result.round},       {"epoch", result.epoch},
                     {"loss", result.loss},         {"accuracy", result.accuracy},
                     {"examples", result.examples}, {"versions", {result.oldest_version, result.newest_version}},
                     {"metrics", metrics}};
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Evaluation::Result> Evaluation::ResultOf(const std::string& text) {
  const auto number = [](const Json& value) { return value.is_null() ? kNoNumber : value.get<double>(); };
  try {
    const Json json = Json::parse(text);
    Result result{.round = json.at("round").get<uint64_t>(),
                  .epoch = json.at("epoch").get<uint64_t>(),
                  .loss = number(json.at("loss")),
                  .accuracy = number(json.at("accuracy")),
                  .examples = json.at("examples").get<uint64_t>(),
                  .oldest_version = json.at("versions").at(0).get<uint64_t>(),
                  .newest_version = json.at("versions").at(1).get<uint64_t>(),
                  .is_recalled = true};
    for (const Json& metric : json.at("metrics")) {
      result.metrics.emplace_back(metric.at(0).get<std::string>(), number(metric.at(1)));
    }
    return result;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

EvalGrant Evaluation::GrantOf(const Part& part) const {
  return {.to = part.worker, .round = round_, .first_batch = part.first_batch, .batches = part.batches};
}

uint64_t Evaluation::HeldBy(Incarnation worker) const {
  return std::count_if(parts_.begin(), parts_.end(),
                       [worker](const Part& part) { return part.worker == worker && !part.done; });
}

std::vector<EvalGrant> Evaluation::Offer(Incarnation worker) {
  std::vector<EvalGrant> grants;
  if (!active_) return grants;
  if (!spread_ && evaluator_ == Incarnation::kNone) evaluator_ = worker;
  if (!spread_ && evaluator_ != worker) return grants;
  uint64_t held = HeldBy(worker);
  for (Part& part : parts_) {
    if (held == kPartsHeld) break;
    if (part.worker != Incarnation::kNone) continue;
    part.worker = worker;
    grants.push_back(GrantOf(part));
    ++held;
  }
  return grants;
}

std::vector<EvalGrant> Evaluation::Outstanding() const {
  std::vector<EvalGrant> grants;
  for (const Part& part : parts_) {
    if (active_ && part.worker != Incarnation::kNone && !part.done) grants.push_back(GrantOf(part));
  }
  return grants;
}

void Evaluation::Release(Incarnation worker) {
  if (!active_) return;
  if (evaluator_ == worker) return Restart();
  for (Part& part : parts_) {
    if (part.worker == worker && !part.done) part.worker = Incarnation::kNone;
  }
}

// Of which the second is a part of the first, but for what their sums rounded.
absl::Status Evaluation::CheckWeights(const EvalDone& done) const {
  const bool is_good =
      IsWeightOf(done.examples, done.weight) && done.right >= 0 && done.right <= done.weight * kRoundedUp;
  if (!counts_weights_ || is_good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("evaluation examples of weight ", done.right, " right, of ", done.weight));
}

absl::Status Evaluation::Accept(const EvalDone& done) {
  if (done.round > round_)
    return absl::InvalidArgumentError(absl::StrCat("evaluation round ", done.round, " never was"));
  if (!active_ || done.round != round_) return absl::OkStatus();
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) {
    return p.first_batch == done.first_batch && p.batches == done.batches && p.worker != Incarnation::kNone;
  });
  if (part == parts_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(done.batches, " evaluation batches from ", done.first_batch, " on were not granted"));
  }
  if (part->worker != done.from || part->done) return absl::OkStatus();  // handed on meanwhile, or said twice
  if (done.examples != part->examples || done.correct > done.examples || done.oldest_version > done.newest_version) {
    return absl::InvalidArgumentError(absl::StrCat(done.correct, " of ", done.examples,
                                                   " evaluation examples right, where there are ", part->examples));
  }
  if (absl::Status status = CheckWeights(done); !status.ok()) return status;
  if (done.metric_sums.size() != CountMetricSums(metrics_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(done.metric_sums.size(), " sums of metrics, where there are ", CountMetricSums(metrics_)));
  }
  const bool agrees = std::all_of(parts_.begin(), parts_.end(), [&](const Part& p) {
    return !p.done || p.done->versions_digest == done.versions_digest;
  });
  if (!agrees) {
    spread_ = false;
    Restart();
    return absl::OkStatus();
  }
  part->done = done;
  if (parts_done() == parts_.size()) Finish();
  return absl::OkStatus();
}

uint64_t Evaluation::parts_done() const {
  return std::count_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.done.has_value(); });
}

void Evaluation::Finish() {
  Result result{.round = round_, .epoch = epoch_, .oldest_version = UINT64_MAX};
  double weight = 0, right = 0;
  std::vector<double> sums(CountMetricSums(metrics_));
  for (const Part& part : parts_) {
    result.loss += part.done->loss_sum;
    weight += counts_weights_ ? part.done->weight : static_cast<double>(part.done->examples);
    right += counts_weights_ ? part.done->right : static_cast<double>(part.done->correct);
    result.examples += part.done->examples;
    std::transform(sums.begin(), sums.end(), part.done->metric_sums.begin(), sums.begin(), std::plus<>());
    result.oldest_version = std::min(result.oldest_version, part.done->oldest_version);
    result.newest_version = std::max(result.newest_version, part.done->newest_version);
  }
  result.loss = MeanOver(weight, result.loss);
  result.accuracy = MeanOver(weight, right);
  result.metrics = MetricValues(metrics_, sums, weight);
  result_ = std::move(result);
  active_ = false;
}

double ValueOf(const std::string& metric, const Evaluation::Result& result) {
  if (metric == "loss") return result.loss;
  for (const auto& [name, value] : result.metrics) {
    if (name == metric) return value;
  }
  return result.accuracy;
}

}  // namespace downpour
