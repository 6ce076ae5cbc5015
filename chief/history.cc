#include "chief/history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "chief/known/event_records.h"
#include "chief/status.h"
#include "job/job_file.h"
#include "runtime/learning_rate.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kReadAtOnce = uint64_t{256} << 10;
constexpr uint64_t kMostStep = uint64_t{1} << 53;

// The settings from which a job's learning follows, by dotted key. Those of a model in Python are its arguments.
Json Hyperparameters(const JobSpec& job) {
  Json settings = Json::parse(CanonicalJob(job));
  settings["model"].erase("variables");
  for (const char* other : {"name", "timing", "scheduling", "checkpoint", "data"}) settings.erase(other);
  Json by_key = Json::object();
  const Json by_place = settings.flatten();  // items() refers to it
  for (const auto& [place, value] : by_place.items()) {
    if (!value.is_null()) by_key[absl::StrReplaceAll(place.substr(1), {{"/", "."}})] = value;
  }
  return by_key;
}

// Of the last line that has one, in what is left of a file.
uint64_t LastStep(const std::string& tail) {
  uint64_t last = 0;
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(tail, '\n'))) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto step = line.is_object() ? line.find("step") : line.end();
    if (step == line.end() || !step->is_number_unsigned() || *step > kMostStep) continue;
    last = step->get<uint64_t>();
  }
  return last;
}

void Flatten(const Json& values, const std::string& tag, Scalars* scalars) {
  for (const auto& [key, value] : values.items()) {
    const bool is_group = key == "tasks" || key == "metrics";  // the tag says so already
    const std::string name = is_group ? tag : absl::StrCat(tag, "/", key);
    if (value.is_number()) scalars->emplace_back(name, value.get<double>());
    if (value.is_object()) Flatten(value, name, scalars);
  }
}

std::string EventsOf(Json line) {
  const std::string kind = line["kind"];
  const double time = line["time"];
  const uint64_t step = line[kind == "epoch" ? "epoch" : "step"];
  for (const char* key : {"kind", "time", "elapsed", "step"}) line.erase(key);
  if (kind != "train") line.erase("epoch");
  Scalars scalars;
  Flatten(line, kind, &scalars);
  return ScalarsRecord(time, step, scalars);
}

Json OfTask(const Task& task, Time now) {
  Json json = {{"stepsPerSecond", task.steps.PerSecond(now)}};
  if (task.stats.resident_bytes > 0) {  // else no heartbeat of it has said so far what it uses
    json["cpu"] = task.cpu_seconds.PerSecond(now);
    json["memoryBytes"] = task.stats.resident_bytes;
  }
  if (task.role == TaskRole::kWorker) json["examplesPerSecond"] = task.examples.PerSecond(now);
  const GpuStats& gpu = task.stats.gpu;
  if (gpu.utilisation >= 0) json["gpu"] = gpu.utilisation / 100.0;
  if (gpu.memory_total > 0) json["gpuMemoryBytes"] = gpu.memory_used;
  return json;
}

}  // namespace

void History::Observe() {
  if (!chief_.life.ready()) return;
  if (chief_.ledger.is_open()) NoteEvaluation();
  if (!is_ready_) {
    if (!std::exchange(is_reading_, true)) Read(0);
    return;
  }
  if (!chief_.ledger.is_open()) return;
  if (!std::exchange(is_measuring_, true)) Measure();
  step_ = std::max(step_, chief_.ledger.steps_committed());
  NoteEpoch();
  WriteEvaluations();
  if (std::exchange(is_over_, chief_.life.ended())) return;
  if (is_over_ || chief_.context.now >= next_) AddPoint();
}

void History::Read(uint64_t from) {
  chief_.storage.Run({ReadFile(kHistoryFile, from, kReadAtOnce)}, [this, from](const StorageDone& done) {
    const std::string text = ToString(done.data);
    bytes_ = from + text.size();
    tail_ += text;
    if (HasProgram()) RecallEpochs(text);
    if (tail_.size() > 2 * kReadAtOnce) tail_.erase(0, tail_.size() - 2 * kReadAtOnce);
    if (text.size() == kReadAtOnce) return Read(bytes_);
    Begin();
  });
}

void History::Begin() {
  is_ready_ = true;
  const uint64_t run = chief_.journal.record().run;
  if (chief_.journal.record().chiefs > 1) step_ = LastStep(tail_);  // else the file is of another run
  lines_.Open(kHistoryFile);
  if (!tail_.empty() && tail_.back() != '\n') lines_.Add("\n");  // behind what a kill cut short
  tail_ = rest_ = std::string();
  const double time = static_cast<double>(chief_.context.UnixMs()) / 1000;
  const Json values = Hyperparameters(chief_.job);
  const Json line = {
      {"kind", "job"}, {"time", time}, {"run", NameOfRun(run)}, {"name", chief_.job.name}, {"hyperparameters", values}};
  lines_.Add(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  // As TensorFlow names them. Each life of a chief has one: a record cut short ends what is read of its file.
  events_.Open(
      absl::StrCat("events.out.tfevents.", chief_.context.started_unix_ms / 1000, ".chief.", chief_.life.term));
  events_.Add(EventFileHead(time) + HyperparametersRecord(time, chief_.job.name, values));
}

void History::Measure() {
  epoch_ = chief_.ledger.EpochsCommitted();
  next_ = chief_.context.now + kLeastPause;
}

void History::NoteEpoch() {
  const uint64_t epoch = chief_.ledger.EpochsCommitted();
  if (epoch < epoch_ + 1 + epoch_ / kEpochsInFull) return;
  epoch_ = epoch;
  Json line = Line("epoch", chief_.context.UnixMs());
  line["epoch"] = epoch;
  const Progress::LossTotals& totals = chief_.progress.loss_totals();
  if (const auto loss = totals.MeanSince(epoch_loss_)) line["loss"] = *loss;
  epoch_loss_ = totals;
  Write(line);
}

void History::NoteEvaluation() {
  const auto& result = chief_.evaluation.result();
  if (!result || result->is_recalled || std::exchange(evaluation_, result->round) == result->round) return;
  evaluations_.emplace_back(*result, chief_.context.UnixMs());
}

void History::WriteEvaluations() {
  for (const auto& [result, unix_ms] : std::exchange(evaluations_, {})) {
    Json line = Line("eval", unix_ms);
    line["epoch"] = result.epoch;
    line["loss"] = result.loss;
    if (chief_.job.model.has_accuracy()) line["accuracy"] = result.accuracy;
    for (const auto& [name, value] : result.metrics) line["metrics"][name] = value;
    Write(line);
  }
}

void History::AddPoint() {
  Json line = Line("train", chief_.context.UnixMs());
  line["epoch"] = chief_.ledger.EpochsCommitted();
  line["examples"] = chief_.ledger.examples_committed();
  line["examplesPerSecond"] = chief_.progress.ExamplesPerSecond(chief_.context.now);
  const Progress::LossTotals& totals = chief_.progress.loss_totals();
  if (const auto loss = totals.MeanSince(loss_)) line["loss"] = *loss;
  loss_ = totals;
  const Staleness now = chief_.members.Totals(TaskRole::kPs).staleness;
  const uint64_t known = now.pushes - now.unknown, known_before = staleness_.pushes - staleness_.unknown;
  if (known > known_before && now.sum >= staleness_.sum) {
    line["staleness"] = static_cast<double>(now.sum - staleness_.sum) / static_cast<double>(known - known_before);
  }
  staleness_ = now;
  line["learningRate"] = LearningRate();
  Write(line);
  AddTasks();
  next_ = chief_.context.now + Pause();
}

// Of the next step. Where workers take steps of their own the rate is theirs, and goes by batches.
double History::LearningRate() const {
  const TrainingSpec& training = chief_.job.training;
  const Plan& plan = chief_.ledger.plan();
  const bool by_batches = training.local_steps > 0;
  const uint64_t done = by_batches ? chief_.ledger.batches_committed() : chief_.ledger.steps_committed();
  const uint64_t all = by_batches ? plan.total_batches() : plan.total_steps();
  return training.optimizer.learning_rate * RateShare(training.optimizer.schedule, done, all);
}

void History::AddTasks() {
  Json tasks = Json::object();
  for (const Task& task : chief_.members.tasks()) {
    if (task.alive()) tasks[task.name] = OfTask(task, chief_.context.now);
  }
  if (tasks.empty()) return;
  Json line = Line("tasks", chief_.context.UnixMs());
  line["tasks"] = std::move(tasks);
  Write(line);
}

Json History::Line(const char* kind, int64_t now) const {
  return {{"kind", kind},
          {"time", static_cast<double>(now) / 1000},
          {"elapsed", static_cast<double>(chief_.context.JobAgeAt(now)) / 1000},
          {"step", step_}};
}

// The next part of the file: of lines that are no epoch's or evaluation's nothing is parsed.
void History::RecallEpochs(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(rest_ + text, '\n');
  rest_ = std::move(lines.back());
  lines.pop_back();
  for (const std::string& line : lines) {
    if (absl::StrContains(line, "\"kind\":\"e")) epochs_.Note(Json::parse(line, nullptr, /*allow_exceptions=*/false));
  }
}

void History::Write(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  bytes_ += text.size();
  lines_.Add(text);
  events_.Add(EventsOf(line));
  if (HasProgram() && (line["kind"] == "epoch" || line["kind"] == "eval")) epochs_.Note(line);
}

Duration History::Pause() const {
  constexpr uint64_t kMostDoublings = 20;  // some 12 days
  return kLeastPause * (int64_t{1} << std::min(bytes_ / kDoubling, kMostDoublings));
}

}  // namespace downpour
