#include "chief/folder/journal.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "chief/folder/sealed_copies.h"
#include "chief/known/failure_log.h"
#include "job/job_reader.h"
#include "schema/checkpoint_format.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr char kName[] = "journal";
// A job's text and the names of its files are at most 1 MiB each, and quoted twice as much. The files' numbers take
// 200 KB, and the rest less.
constexpr uint64_t kMaxJournalFile = uint64_t{8} << 20;
static_assert(kMostFilesTold * kMaxFileName <= size_t{1} << 20);

Json OfCosts(const JobCosts& costs) {
  Json failures = Json::array();
  for (const Failure& failure : costs.failures) {
    failures.push_back(
        {{"unixMs", failure.unix_ms}, {"atMs", failure.at_ms}, {"task", failure.task}, {"what", failure.what}});
  }
  Json json = {{"failures", std::move(failures)}, {"skipsListed", costs.skips_listed}};
  for (const JobCostCount& row : kJobCostCounts) json[row.in_journal] = costs.*row.count;
  return json;
}

// What is whole was written by a chief, but perhaps by one of another release: a field may be missing.
template <typename T>
T Get(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return T();
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<T>() : T();
  } else if constexpr (std::is_floating_point_v<T>) {
    return found->is_number() ? found->get<T>() : T();
  } else {
    return found->is_number_unsigned() && std::in_range<T>(found->get<uint64_t>()) ? found->get<T>() : T();
  }
}

Json Part(const Json& object, const char* key, Json::value_t type) {
  const auto found = object.find(key);
  return found != object.end() && found->type() == type ? *found : Json(type);
}

Round RoundOf(const Json& object, const char* key) {
  return ParseRound(Get<std::string>(object, key)).value_or(Round());
}

// An earlier release did not say how old the job was when it failed: then by the calendar.
JobCosts CostsOf(const Json& json, int64_t began_unix_ms) {
  JobCosts costs;
  for (const JobCostCount& row : kJobCostCounts) costs.*row.count = Get<uint64_t>(json, row.in_journal);
  for (const Json& failure : Part(json, "failures", Json::value_t::array)) {
    if (!failure.is_object()) continue;
    const auto unix_ms = Get<int64_t>(failure, "unixMs");
    const int64_t at_ms = failure.contains("atMs") ? Get<int64_t>(failure, "atMs") : unix_ms - began_unix_ms;
    costs.failures.push_back({unix_ms, at_ms, Get<std::string>(failure, "task"),
                              CleanText(Get<std::string>(failure, "what"), FailureLog::kMaxLength)});
    if (costs.failures.size() > FailureLog::kMost) costs.failures.pop_front();
  }
  const Json skips = Part(json, "skipsListed", Json::value_t::object);
  for (const auto& [task, skipped] : skips.items()) costs.skips_listed[task] = Get<uint64_t>(skips, task.c_str());
  return costs;
}

Json OfCheckpoints(const CheckpointHistory& history) {
  return {{"psLost", history.servers_lost}, {"lived", history.lived},
          {"losses", history.losses},       {"rounds", history.rounds},
          {"inside", history.inside},       {"insideCommits", history.inside_commits},
          {"outside", history.outside},     {"outsideCommits", history.outside_commits}};
}

Json OfEarlyStop(const EarlyStop& early) {
  Json json = {{"evaluated", early.evaluated},
               {"bestEpoch", early.best_epoch},
               {"withoutGain", early.without_gain},
               {"epochs", early.epochs}};
  if (early.best) json["best"] = *early.best;
  return json;
}

EarlyStop EarlyStopOf(const Json& json) {
  return {.evaluated = Get<uint64_t>(json, "evaluated"),
          .best = json.contains("best") ? std::optional(Get<double>(json, "best")) : std::nullopt,
          .best_epoch = Get<uint64_t>(json, "bestEpoch"),
          .without_gain = Get<uint64_t>(json, "withoutGain"),
          .epochs = Get<uint64_t>(json, "epochs")};
}

Json OfBest(const BestRecord& best) {
  Json json = {{"round", ToString(best.round)}, {"metric", best.metric}, {"value", best.value}, {"epoch", best.epoch}};
  if (!best.evaluated.empty()) json["evaluated"] = {best.evaluated.oldest, best.evaluated.newest};
  if (!best.kept.empty()) json["kept"] = {best.kept.oldest, best.kept.newest};
  return json;
}

VersionSpan VersionsOf(const Json& json, const char* key) {
  const Json pair = Part(json, key, Json::value_t::array);
  const bool is_pair = pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
  return is_pair ? VersionSpan{pair[0].get<uint64_t>(), pair[1].get<uint64_t>()} : VersionSpan();
}

BestRecord BestOf(const Json& json) {
  const BestRecord best = {.round = RoundOf(json, "round"),
                           .metric = Get<std::string>(json, "metric"),
                           .value = Get<double>(json, "value"),
                           .epoch = Get<uint64_t>(json, "epoch"),
                           .evaluated = VersionsOf(json, "evaluated"),
                           .kept = VersionsOf(json, "kept")};
  return best.round == Round() || best.metric.empty() ? BestRecord() : best;
}

CheckpointHistory CheckpointsOf(const Json& json) {
  return {.servers_lost = Get<uint64_t>(json, "psLost"),
          .lived = Get<double>(json, "lived"),
          .losses = Get<double>(json, "losses"),
          .rounds = Get<double>(json, "rounds"),
          .inside = Get<double>(json, "inside"),
          .inside_commits = Get<double>(json, "insideCommits"),
          .outside = Get<double>(json, "outside"),
          .outside_commits = Get<double>(json, "outsideCommits")};
}

std::vector<DataFile> FilesOf(const Json& json) {
  std::vector<DataFile> files;
  for (const Json& file : json) {
    const bool is_file = file.is_array() && file.size() == 3 && file[0].is_string() && file[1].is_number_unsigned() &&
                         file[2].is_number_unsigned();
    if (!is_file) return {};
    files.push_back({file[0].get<std::string>(), file[1].get<uint64_t>(), file[2].get<uint64_t>()});
  }
  return files;
}

Json OfClock(const ClockMark& clock) {
  return {{"ageMs", clock.age_ms}, {"unixMs", clock.unix_ms}, {"steadyMs", clock.steady_ms}, {"boot", clock.boot}};
}

ClockMark ClockOf(const Json& json) {
  return {.age_ms = Get<int64_t>(json, "ageMs"),
          .unix_ms = Get<int64_t>(json, "unixMs"),
          .steady_ms = Get<int64_t>(json, "steadyMs"),
          .boot = Get<std::string>(json, "boot")};
}

}  // namespace

std::string EncodeEntry(const JournalEntry& entry) {
  const JobRecord& record = entry.record;
  Json json = {{"number", entry.number},
               {"run", record.run},
               {"beganUnixMs", record.began_unix_ms},
               {"chiefs", record.chiefs},
               {"job", record.job},
               {"ended", record.ended},
               {"why", record.why},
               {"toll", OfCosts(entry.costs)},
               {"batchesCommitted", entry.batches_committed},
               {"checkpoints", OfCheckpoints(entry.checkpoints)},
               {"clock", OfClock(entry.clock)}};
  if (record.data) {
    json["data"] = {{"trainExamples", record.data->train_examples},
                    {"evalExamples", record.data->eval_examples},
                    {"fingerprint", record.data->fingerprint}};
    for (const DataFile& file : record.data->files) {
      json["data"]["files"].push_back({file.name, file.examples, file.fingerprint});
    }
    if (record.data_grow) json["data"]["grow"] = true;
  }
  if (record.early != EarlyStop()) json["earlyStop"] = OfEarlyStop(record.early);
  if (record.best != BestRecord()) json["bestCheckpoint"] = OfBest(record.best);
  if (!record.master.empty()) json["master"] = record.master;
  if (!record.evaluated.empty()) json["evaluated"] = record.evaluated;
  if (record.workers != 0) json["workers"] = record.workers;
  if (record.newest != Round()) json["newestCheckpoint"] = ToString(record.newest);
  if (record.abandoned != Round()) json["givenUp"] = ToString(record.abandoned);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<JournalEntry> DecodeEntry(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const uint64_t number = json.is_object() ? Get<uint64_t>(json, "number") : 0;
  if (number == 0 || number == UINT64_MAX) return absl::DataLossError("is not a job's record");
  JournalEntry entry{.number = number,
                     .record = {.run = Get<uint64_t>(json, "run"),
                                .began_unix_ms = Get<int64_t>(json, "beganUnixMs"),
                                .chiefs = Get<uint64_t>(json, "chiefs"),
                                .job = Get<std::string>(json, "job"),
                                .data = {},
                                .data_grow = false,
                                .workers = std::min(Get<uint32_t>(json, "workers"), uint32_t{kMostTasks}),
                                .early = EarlyStopOf(Part(json, "earlyStop", Json::value_t::object)),
                                .best = BestOf(Part(json, "bestCheckpoint", Json::value_t::object)),
                                .master = Get<std::string>(json, "master"),
                                .evaluated = Get<std::string>(json, "evaluated"),
                                .ended = Get<std::string>(json, "ended"),
                                .why = Get<std::string>(json, "why"),
                                .newest = RoundOf(json, "newestCheckpoint"),
                                .abandoned = RoundOf(json, "givenUp")},
                     .costs = CostsOf(Part(json, "toll", Json::value_t::object), Get<int64_t>(json, "beganUnixMs")),
                     .batches_committed = Get<uint64_t>(json, "batchesCommitted"),
                     .checkpoints = CheckpointsOf(Part(json, "checkpoints", Json::value_t::object)),
                     .clock = ClockOf(Part(json, "clock", Json::value_t::object))};
  if (const Json data = Part(json, "data", Json::value_t::object); !data.empty()) {
    entry.record.data = {Get<uint64_t>(data, "trainExamples"), Get<uint64_t>(data, "evalExamples"),
                         Get<uint64_t>(data, "fingerprint"), FilesOf(Part(data, "files", Json::value_t::array))};
    entry.record.data_grow = data.contains("grow");
  }
  return entry;
}

void Journal::Load(std::function<void()> then) {
  const auto take = [this](const std::string& text) {
    absl::StatusOr<JournalEntry> entry = DecodeEntry(text);
    if (entry.ok() && entry->number > entry_.number) entry_ = *std::move(entry);
    return entry.status();
  };
  ReadCopies(storage_, kName, kMaxJournalFile, take, [this, then = std::move(then)](const std::string& damage) {
    damage_ = damage;
    if (found()) durable_ = entry_;
    if (found()) best_on_disk_ = {entry_.record.best.round};
    if (found()) context_.age_at_start_ms = AgeAtStart(entry_.clock, entry_.record.began_unix_ms, context_);
    then();
  });
}

void Journal::BeginRun(JobRecord record) {
  entry_.record = std::move(record);
  entry_.costs = JobCosts();
  entry_.batches_committed = 0;
  entry_.checkpoints = CheckpointHistory();
  context_.age_at_start_ms = 0;
}

void Journal::Save(std::function<void(const absl::Status&)> then) {
  writing_ = true;
  next_costs_ = context_.now + kCostsEvery;
  if (durable_ && durable_->batches_committed != entry_.batches_committed) next_commits_ = context_.now + kCommitsEvery;
  ++entry_.number;
  entry_.clock = MarkOf(context_);
  best_on_disk_.insert(entry_.record.best.round);
  storage_.Run(WriteCopies(kName, EncodeEntry(entry_)),
               [this, saved = entry_, then = std::move(then)](const StorageDone& done) {
                 writing_ = false;
                 if (done.status.ok()) {
                   error_.clear();
                   durable_ = saved;
                   best_on_disk_ = {saved.record.best.round};
                 } else {
                   error_ = MessageOf(done.status);
                   next_try_ = context_.now + timing_.control_retry;
                 }
                 then(done.status);
               });
}

void Journal::Advance() {
  if (writing_ || context_.now < next_try_) return;
  const bool costs_rose = context_.now >= next_costs_ && durable_ && durable_->costs != entry_.costs;
  const bool commits_changed =
      context_.now >= next_commits_ && durable_ && durable_->batches_committed != entry_.batches_committed;
  if (!durable() || costs_rose || commits_changed) Save([](const absl::Status&) {});
}

}  // namespace downpour
