#include "tools/cli/checkpoint_view.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cluster/human_units.h"
#include "cluster/text_table.h"
#include "job/job_names.h"
#include "runtime/plan.h"
#include "schema/status_report.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

std::string Count(uint64_t n) { return HumanCount(static_cast<double>(n)); }

// How far the data are: what every slice has finished.
struct Position {
  IntervalSet finished;
  uint64_t examples = 0;
  uint64_t open = 0;  // leases that some slice holds in part, or not every slice to the end
};

Position PositionOf(const LoadedCheckpoint& checkpoint, const Plan& plan) {
  Position position;
  IntervalSet begun;
  bool first = true;
  for (const SliceState& slice : checkpoint.slices) {
    position.finished = std::exchange(first, false) ? slice.finished : position.finished.Intersect(slice.finished);
    for (const auto& interval : slice.finished.Intervals()) begun.InsertRange(interval.begin, interval.end);
    for (const LeaseCounter& counter : slice.counters) begun.Insert(ToNumber(counter.lease));
  }
  for (const auto& interval : position.finished.Intervals()) {
    for (uint64_t lease = interval.begin; lease < std::min(interval.end, plan.total_leases()); ++lease) {
      position.examples += plan.ExamplesOf(LeaseId{lease});
    }
  }
  position.open = begun.Count() - position.finished.Count();
  return position;
}

Plan PlanOf(const Checkpoint& checkpoint) { return Plan(checkpoint.job, checkpoint.manifest.train_examples); }

std::string OptimizerName(OptimizerKind kind) {
  return std::find_if(std::begin(kOptimizers), std::end(kOptimizers), [&](const auto& o) { return o.value == kind; })
      ->name;
}

std::string PlanLine(const Checkpoint& checkpoint) {
  const TrainingSpec& training = checkpoint.job.training;
  return absl::StrFormat(
      "seed %d, %s examples (fingerprint %016x), batches of %d, leases of %d batches, %s %d, wire %s, %s",
      checkpoint.job.seed, Count(checkpoint.manifest.train_examples), checkpoint.manifest.data_fingerprint,
      training.batch_size, training.lease_batches, training.local_steps > 0 ? "localSteps" : "pushEvery",
      training.step_batches(), NameIn(kWireFormats, training.wire),
      Counted(static_cast<uint64_t>(training.epochs), "epoch"));
}

std::string PositionLine(const LoadedCheckpoint& checkpoint) {
  const Plan plan = PlanOf(checkpoint);
  const Position position = PositionOf(checkpoint, plan);
  return absl::StrFormat("%s of %s leases finished on every slice (%s examples, epoch %.2f of %d), %s begun",
                         Count(position.finished.Count()), Count(plan.total_leases()), Count(position.examples),
                         plan.EpochsOf(position.examples), checkpoint.job.training.epochs, Count(position.open));
}

std::string VariableTable(const LoadedCheckpoint& checkpoint) {
  std::vector<std::vector<std::string>> rows = {{"VARIABLE", "SHAPE", "BYTES", "SLICES", "VERSIONS"}};
  const std::vector<Slice>& slices = checkpoint.grid.slices;
  for (size_t begin = 0; begin < checkpoint.grid.dense();) {
    const VariableSpec& variable = checkpoint.grid.variables[slices[begin].variable];
    uint64_t oldest = UINT64_MAX, newest = 0;
    size_t end = begin;
    for (; end < checkpoint.grid.dense() && slices[end].variable == slices[begin].variable; ++end) {
      oldest = std::min(oldest, checkpoint.slices[end].version);
      newest = std::max(newest, checkpoint.slices[end].version);
    }
    rows.push_back({Printable(variable.name), absl::StrJoin(variable.shape, " x "),
                    HumanBytes(4.0 * static_cast<double>(variable.elements())), Count(end - begin),
                    oldest == newest ? Count(oldest) : absl::StrCat(Count(oldest), " to ", Count(newest))});
    begin = end;
  }
  return TextTable(rows, /*first_number=*/2, /*last_number=*/4);
}

std::string OwnerOf(const SliceGrid& grid, const Slice& slice) {
  return grid.IsBucket(slice.id) ? absl::StrCat("bucket ", slice.offset) : grid.variables[slice.variable].name;
}

std::string SliceTable(const LoadedCheckpoint& checkpoint) {
  std::vector<std::vector<std::string>> rows = {
      {"SLICE", "VARIABLE", "FILE", "ELEMENTS", "FROM", "EPOCH", "VERSION", "FINISHED", "BEGUN", "AT BYTE", "BYTES"}};
  for (const Slice& slice : checkpoint.grid.slices) {
    const SliceState& state = checkpoint.slices[ToNumber(slice.id)];
    const Manifest::Record& record = checkpoint.manifest.records[ToNumber(slice.id)];
    rows.push_back({absl::StrCat(ToNumber(slice.id)), Printable(OwnerOf(checkpoint.grid, slice)),
                    checkpoint.manifest.files[record.file].name, Count(static_cast<uint64_t>(slice.elements)),
                    Count(static_cast<uint64_t>(slice.offset)), ToString(state.epoch), Count(state.version),
                    Count(state.finished.Count()), Count(state.counters.size()), Count(record.offset),
                    Count(record.bytes)});
  }
  return TextTable(rows, /*first_number=*/3, /*last_number=*/10);
}

Json IntervalsJson(const IntervalSet& set) {
  Json intervals = Json::array();
  for (const auto& interval : set.Intervals()) intervals.push_back({interval.begin, interval.end});
  return intervals;
}

Json SliceJson(const LoadedCheckpoint& checkpoint, const Slice& slice) {
  const SliceState& state = checkpoint.slices[ToNumber(slice.id)];
  const Manifest::Record& record = checkpoint.manifest.records[ToNumber(slice.id)];
  Json begun = Json::array();
  for (const LeaseCounter& counter : state.counters) {
    begun.push_back({{"lease", ToNumber(counter.lease)}, {"applied", counter.consumed}});
  }
  return {{"slice", ToNumber(slice.id)},
          {"variable", OwnerOf(checkpoint.grid, slice)},
          {"from", slice.offset},
          {"elements", slice.elements},
          {"epoch", ToString(state.epoch)},
          {"version", state.version},
          {"finished", IntervalsJson(state.finished)},
          {"begun", std::move(begun)},
          {"file", checkpoint.manifest.files[record.file].name},
          {"offset", record.offset},
          {"bytes", record.bytes}};
}

}  // namespace

std::string HumanTime(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) return "?";
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d:%02d UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                         utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string DescribeBest(const BestRecord& best) {
  return absl::StrFormat("the best: %s %.4g after %s%s", Printable(best.metric), best.value,
                         Counted(best.epoch, "epoch"), DescribeVersions(best.evaluated, best.kept));
}

Json BestJson(const BestRecord& best) {
  BestReport report;
  report.metric = best.metric;
  report.value = best.value;
  report.epoch = best.epoch;
  report.evaluated = ReportOf(best.evaluated);
  report.kept = ReportOf(best.kept);
  return Json::parse(ToJson(report));
}

std::string CheckpointTable(const LoadedCheckpoint& checkpoint, const BestRecord& best, bool each_slice) {
  const OptimizerKind optimizer = checkpoint.job.training.optimizer.kind;
  const std::vector<std::string> slots = SlotNames(checkpoint.job.training);
  std::string out;
  AddSection("Checkpoint", {checkpoint.path}, &out);
  if (best != BestRecord()) AddSection("Is", {DescribeBest(best)}, &out);
  AddSection("Written", {HumanTime(checkpoint.manifest.unix_ms)}, &out);
  AddSection("Job", {Printable(checkpoint.job.name)}, &out);
  AddSection("Plan", {PlanLine(checkpoint)}, &out);
  AddSection("Data", {PositionLine(checkpoint)}, &out);
  AddSection("Optimizer",
             {absl::StrCat(OptimizerName(optimizer),
                           "; slots of each value: ", slots.empty() ? "none" : absl::StrJoin(slots, ", "))},
             &out);
  absl::StrAppend(&out, "\n", VariableTable(checkpoint));
  if (each_slice) absl::StrAppend(&out, "\n", SliceTable(checkpoint));
  return out;
}

std::string CheckpointJson(const LoadedCheckpoint& checkpoint, const BestRecord& best) {
  const Manifest& manifest = checkpoint.manifest;
  const Plan plan = PlanOf(checkpoint);
  const Position position = PositionOf(checkpoint, plan);
  const OptimizerKind optimizer = checkpoint.job.training.optimizer.kind;
  Json variables = Json::array();
  for (const VariableSpec& variable : checkpoint.grid.variables) {
    variables.push_back({{"name", variable.name}, {"shape", variable.shape}});
  }
  Json slices = Json::array();
  for (const Slice& slice : checkpoint.grid.slices) slices.push_back(SliceJson(checkpoint, slice));
  Json json = {{"round", ToString(manifest.round)},
               {"path", checkpoint.path},
               {"unixMs", manifest.unix_ms},
               {"job", Json::parse(manifest.job)},
               {"plan",
                {{"trainExamples", manifest.train_examples},
                 {"evalExamples", manifest.eval_examples},
                 {"dataFingerprint", absl::StrFormat("%016x", manifest.data_fingerprint)},
                 {"leases", plan.total_leases()},
                 {"steps", plan.total_steps()}}},
               {"position",
                {{"finished", IntervalsJson(position.finished)},
                 {"leases", position.finished.Count()},
                 {"examples", position.examples},
                 {"begun", position.open}}},
               {"optimizer", {{"name", OptimizerName(optimizer)}, {"slots", SlotNames(checkpoint.job.training)}}},
               {"variables", std::move(variables)},
               {"slices", std::move(slices)}};
  if (best != BestRecord()) json["best"] = BestJson(best);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace downpour
