#include "tests/sim/reference_state.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps/bucket_parts.h"
#include "ps/optimizer.h"
#include "runtime/learning_rate.h"
#include "runtime/row_frames.h"
#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

using Kind = TraceRecord::Kind;

std::string PlaceOf(SliceId slice, SliceEpoch epoch) {
  return absl::StrCat("slice ", ToNumber(slice), " epoch ", ToString(epoch));
}

std::string ToText(const IntervalSet& set) {
  std::string text;
  for (const IntervalSet::Interval& run : set.Intervals()) absl::StrAppend(&text, "[", run.begin, ",", run.end, ")");
  return text;
}

std::string ToText(const std::vector<LeaseCounter>& counters) {
  std::string text;
  for (const LeaseCounter& c : counters) absl::StrAppend(&text, " ", ToNumber(c.lease), ":", c.consumed);
  return text;
}

auto FindCounter(auto& counters, LeaseId lease) {
  return std::lower_bound(counters.begin(), counters.end(), lease,
                          [](const LeaseCounter& c, LeaseId id) { return c.lease < id; });
}

}  // namespace

std::string Difference(const SliceState& expected, const SliceState& actual) {
  if (expected.version != actual.version) {
    return absl::StrCat("version ", actual.version, " instead of ", expected.version);
  }
  if (expected.skipped != actual.skipped) {
    return absl::StrCat("skipped ", actual.skipped, " instead of ", expected.skipped);
  }
  if (expected.usual_staleness != actual.usual_staleness) {
    return absl::StrCat("usual staleness ", actual.usual_staleness, " instead of ", expected.usual_staleness);
  }
  if (expected.finished != actual.finished) {
    return absl::StrCat("finished ", ToText(actual.finished), " instead of ", ToText(expected.finished));
  }
  if (expected.counters != actual.counters) {
    return absl::StrCat("counters", ToText(actual.counters), " instead of", ToText(expected.counters));
  }
  if (expected.values.bytes() != actual.values.bytes()) return "other values";
  const auto same = [](const Payload& a, const Payload& b) { return a.bytes() == b.bytes(); };
  if (!std::equal(expected.slots.begin(), expected.slots.end(), actual.slots.begin(), actual.slots.end(), same)) {
    return "other optimizer slots";
  }
  return "";
}

void ReferenceState::Add(const TraceRecord& record, const std::string& what) {
  findings_->Add(absl::StrCat(NameOf(record.kind), " by ", ToNumber(record.actor), ": ",
                              PlaceOf(record.slice, record.epoch), " lease ", ToNumber(record.lease), " step ",
                              record.step, ": ", what));
}

const ReferenceState::Lineage* ReferenceState::Find(SliceId slice, SliceEpoch epoch) const {
  const auto found = lineages_.find({slice, epoch});
  return found == lineages_.end() ? nullptr : &found->second;
}

ReferenceState::Lineage* ReferenceState::Owned(const TraceRecord& record) {
  const auto found = lineages_.find({record.slice, record.epoch});
  if (found == lineages_.end() || found->second.actor != record.actor) {
    Add(record, "this process was not given the slice in this epoch");
    return nullptr;
  }
  return &found->second;
}

Step ReferenceState::ConsumedTo(SliceId slice, SliceEpoch epoch, LeaseId lease) const {
  const Lineage* lineage = Find(slice, epoch);
  if (lineage == nullptr || !oracle_->plan().Contains(lease)) return 0;
  if (lineage->state.finished.Contains(ToNumber(lease))) return oracle_->plan().StepsOf(lease);
  const auto counter = FindCounter(lineage->state.counters, lease);
  return counter == lineage->state.counters.end() || counter->lease != lease ? 0 : counter->consumed;
}

IntervalSet ReferenceState::Finished(SliceId slice, SliceEpoch epoch) const {
  const Lineage* lineage = Find(slice, epoch);
  return lineage == nullptr ? IntervalSet() : lineage->state.finished;
}

Incarnation ReferenceState::GivenTo(SliceId slice, SliceEpoch epoch) const {
  const Lineage* lineage = Find(slice, epoch);
  return lineage == nullptr ? Incarnation::kNone : lineage->actor;
}

const SliceState* ReferenceState::Now(SliceId slice, SliceEpoch epoch) const {
  const Lineage* lineage = Find(slice, epoch);
  return lineage == nullptr || lineage->checksums.empty() ? nullptr : &lineage->state;
}

void ReferenceState::Record(const TraceRecord& record, const Version& computed_from) {
  switch (record.kind) {
    case Kind::kInstalled:
      return Install(record);
    case Kind::kKept:
      return GoOn(record);
    case Kind::kApplied:
    case Kind::kSkipped:
      return Consume(record, computed_from);
    case Kind::kDuplicate:
      ++duplicates_;
      if (ConsumedTo(record.slice, record.epoch, record.lease) < record.step) Add(record, "it was never counted");
      return;
    case Kind::kSnapshot:
      if (const Lineage* lineage = Owned(record); lineage != nullptr) {
        if (lineage->state.version != record.count) Add(record, "of another version than the slice has");
        snapshots_[{record.round, record.slice}].push_back({lineage->state, lineage->pushes});
      }
      return;
    case Kind::kAcked:
      if (ConsumedTo(record.slice, record.epoch, record.lease) < record.step)
        Add(record, "acknowledged but not consumed");
      return;
    case Kind::kCommitted:
    case Kind::kDurable:
    case Kind::kGranted:
      return;  // the watch holds these against the roles and the disk
  }
}

SliceState ReferenceState::Born(SliceId slice) const {
  SliceState state;
  state.slice = slice;
  if (oracle_->grid().IsBucket(slice)) {
    state.values = Show(slice, *Replay(slice, {}));
    return state;
  }
  state.values = oracle_->Initial(slice);
  const int slots = SlotCount(oracle_->job().training);
  for (int i = 0; i < slots; ++i) state.slots.push_back(Payload::Zeros(state.values.size()));
  return state;
}

uint32_t ReferenceState::Checksum(const SliceState& state) const {
  const bool is_bucket = oracle_->grid().IsBucket(state.slice);
  return Crc32c((is_bucket ? state.values : oracle_->OnWire(state.values)).bytes());
}

void ReferenceState::Install(const TraceRecord& record) {
  if (!oracle_->grid().Contains(record.slice)) return Add(record, "no such slice");
  const auto [at, fresh] = lineages_.try_emplace({record.slice, record.epoch});
  if (!fresh) return Add(record, "installed twice in one epoch");
  Lineage& lineage = at->second;
  lineage.actor = record.actor;
  lineage.from_round = record.round;
  if (lineage.from_round == Round()) lineage.state = Born(record.slice);
  if (oracle_->grid().IsBucket(record.slice)) lineage.rows = Replay(record.slice, {});
  lineage.state.slice = record.slice;
  lineage.state.epoch = record.epoch;
}

// The same pair under a new fence: nothing may come or go with it.
void ReferenceState::GoOn(const TraceRecord& record) {
  const auto held = lineages_.find({record.slice, record.before});
  if (held == lineages_.end()) return Add(record, "it goes on with an epoch that never was");
  Lineage lineage = held->second;
  if (lineage.state.version != record.count) Add(record, "of another version than the slice had");
  lineage.actor = record.actor;
  lineage.state.epoch = record.epoch;
  lineage.checksums.clear();
  lineage.shown.clear();
  NoteValues(lineage);
  if (lineage.rows != nullptr) lineage.rows = Replay(record.slice, lineage.pushes);
  const bool fresh = lineages_.emplace(std::pair(record.slice, record.epoch), std::move(lineage)).second;
  if (!fresh) Add(record, "installed twice in one epoch");
}

void ReferenceState::Settle(Lineage& lineage, const SliceState& shown, const std::string& where) {
  lineage.settled = true;
  if (lineage.from_round != Round()) {
    CheckRecord(lineage.from_round, shown, absl::StrCat(where, ": restored ", PlaceOf(shown.slice, shown.epoch)));
    lineage.state = shown;
    ++restored_;
    for (const Snapshot& snapshot : snapshots_[{lineage.from_round, shown.slice}]) {
      if (lineage.rows == nullptr || !Difference(snapshot.state, shown).empty()) continue;
      lineage.pushes = snapshot.pushes;
      lineage.rows = Replay(shown.slice, lineage.pushes);
    }
  }
  NoteValues(lineage);
}

void ReferenceState::NoteValues(Lineage& lineage) {
  lineage.checksums[lineage.state.version] = Checksum(lineage.state);
  if (lineage.rows != nullptr) lineage.shown[lineage.state.version] = lineage.state.values;
}

Payload ReferenceState::Show(SliceId bucket, GuardedState& state) const {
  const RowKeys& keys = oracle_->AllKeys(bucket);
  if (keys.keys.empty()) return {};
  return state.ValuesFor({.slice = bucket, .epoch = {}, .have = {}, .keys = PackKeys(keys)}, {}, oracle_->grid());
}

BucketRows ReferenceState::Begun(SliceId bucket, uint32_t number) const {
  const std::vector<TableSpec> tables = TablesOf(oracle_->job());
  if (!oracle_->begins_with_rows()) return BucketRows(tables, number, /*copy=*/1);
  const std::string record = oracle_->InitialRecord(bucket);
  BucketInstaller rows(tables, number, /*copy=*/1);
  const auto take = [&rows](absl::Span<const std::byte> part) { return rows.Add(part); };
  CHECK(BucketParts().Add(Payload::CopyOf(record.data(), record.size()).bytes(), take).ok());
  return *std::move(rows).Finish(/*consumed=*/0);
}

std::shared_ptr<BucketRows> ReferenceState::Replay(SliceId bucket, const std::vector<PushOf>& pushes) const {
  const auto number = static_cast<uint32_t>(oracle_->grid().at(bucket).offset);
  auto rows = std::make_shared<BucketRows>(Begun(bucket, number));
  uint64_t done = 0, version = 0;
  for (const PushOf& push : pushes) {
    const bool effect = oracle_->KindOf(push.first, push.second, bucket) == Oracle::Kind::kGradient;
    version += effect;
    ApplyRows(push, bucket, effect, done++, version, *rows);
  }
  return rows;
}

// `done`: pushes before this one; `version`: behind it.
void ReferenceState::ApplyRows(const PushOf& push, SliceId bucket, bool effect, uint64_t done, uint64_t version,
                               BucketRows& rows) const {
  if (!effect) return rows.ConsumeEmpty();
  std::vector<downpour::Update> updates;
  for (const ModelTable& table : oracle_->job().model.tables) {
    const double share = RateShare(table.optimizer.schedule, done, oracle_->plan().total_steps());
    updates.push_back(UpdateFor(table.optimizer, Damping(), version, share));
  }
  const Payload gradient = oracle_->Gradient(push.first, push.second, bucket);
  const absl::StatusOr<RowGradients> unpacked = UnpackGradients(gradient, oracle_->grid().row_widths);
  if (!unpacked.ok() || !rows.Apply(*unpacked, updates)) findings_->Add("the oracle's rows are not finite");
}

bool ReferenceState::Showed(SliceId bucket, Version version, const Payload& keys, const Payload& rows) const {
  const Lineage* lineage = Find(bucket, version.epoch);
  if (lineage == nullptr) return false;
  const auto shown = lineage->shown.find(version.n);
  return shown != lineage->shown.end() && Answers(bucket, shown->second, keys, rows);
}

bool ReferenceState::Answers(SliceId bucket, const Payload& all_values, const Payload& keys,
                             const Payload& rows) const {
  const absl::StatusOr<RowKeys> wanted = UnpackKeys(keys, oracle_->grid().row_widths);
  if (!wanted.ok()) return false;
  // Both ascend, table by table.
  const RowKeys& all = oracle_->AllKeys(bucket);
  const absl::Span<const float> values = all_values.floats(), given = rows.floats();
  size_t next = 0, at = 0, to = 0, place = 0;
  for (size_t table = 0; table < all.counts.size(); ++table) {
    const size_t width = oracle_->grid().row_widths[table];
    const size_t end = next + wanted->counts[table];
    for (uint32_t i = 0; i < all.counts[table]; ++i, at += width, ++place) {
      if (next == end || wanted->keys[next] != all.keys[place]) continue;
      if (given.size() < to + width || given.subspan(to, width) != values.subspan(at, width)) return false;
      ++next;
      to += width;
    }
    if (next != end) return false;
  }
  return to == given.size();
}

void ReferenceState::CheckRecord(Round round, const SliceState& read, const std::string& where) {
  std::string nearest = "no record was handed out for this round";
  for (const Snapshot& snapshot : snapshots_[{round, read.slice}]) {
    nearest = Difference(snapshot.state, read);
    if (nearest.empty()) return;
  }
  findings_->Add(absl::StrCat(where, ": not a pair that was snapshotted for round ", ToString(round), ": ", nearest));
}

void ReferenceState::Consume(const TraceRecord& record, const Version& computed_from) {
  ++pushes_counted_;
  Lineage* lineage = Owned(record);
  if (lineage == nullptr) return;
  if (!oracle_->plan().Contains(record.lease)) return Add(record, "no such lease");
  const Step consumed = ConsumedTo(record.slice, record.epoch, record.lease);
  if (record.step != consumed + 1) return Add(record, absl::StrCat("counted after step ", consumed));
  const bool effect = oracle_->KindOf(record.lease, record.step, record.slice) == Oracle::Kind::kGradient;
  if (effect != (record.kind == Kind::kApplied)) return Add(record, "an effect where there is none, or none at all");

  SliceState& state = lineage->state;
  const bool has_gradient = !oracle_->Gradient(record.lease, record.step, record.slice).empty();
  CheckMayCount(record, computed_from, state, has_gradient);
  const bool skipped = oracle_->IsSkipped(record.lease, record.step, record.slice);
  state.skipped += skipped;
  skips_ += skipped;
  if (lineage->rows != nullptr) {
    state.version += effect;
    ApplyRows({record.lease, record.step}, record.slice, effect, Done(state), state.version, *lineage->rows);
    lineage->pushes.emplace_back(record.lease, record.step);
    state.values = Show(record.slice, *lineage->rows);
  } else if (effect) {
    Gathers() ? Gather(record, state) : Apply(record, computed_from, state);
  }
  auto counter = FindCounter(state.counters, record.lease);
  if (record.step == 1) counter = state.counters.insert(counter, {record.lease, 0});
  counter->consumed = record.step;
  if (record.step == oracle_->plan().StepsOf(record.lease)) {
    state.finished.Insert(ToNumber(record.lease));
    state.counters.erase(counter);
    const Plan& plan = oracle_->plan();
    const uint64_t group = plan.GroupOf(record.lease), first = plan.GroupBegin(group);
    if (Gathers() && state.finished.CoversRange(first, first + plan.LeasesIn(group))) {
      Update(std::exchange(state.slots.back(), Payload::Zeros(state.values.size())), Damping(), Done(state) - 1, state);
    }
  }
  NoteValues(*lineage);
  if (state.version != record.count) Add(record, absl::StrCat("version ", record.count, " after ", state.version));
}

// What the job's consistency asks of a push that counts.
void ReferenceState::CheckMayCount(const TraceRecord& record, const Version& computed_from, const SliceState& state,
                                   bool has_gradient) {
  const TrainingSpec& training = oracle_->job().training;
  if (ToNumber(record.lease) >= oracle_->plan().ReachFrom(state.finished.FirstMissing(0))) {
    Add(record, absl::StrCat("counted out of reach: lease ", state.finished.FirstMissing(0), " is not finished"));
  }
  const std::optional<uint64_t> most = Gathers()                ? 0
                                       : training.max_staleness ? std::optional<uint64_t>(*training.max_staleness)
                                                                : std::nullopt;
  if (!most || !has_gradient) return;
  const bool known = computed_from.epoch == record.epoch;
  if (!known || computed_from.n + *most < state.version) Add(record, "counted though it is too stale");
}

// As ps/optimizer.h has it: the last slot sums up what each lease of a group brings.
void ReferenceState::Gather(const TraceRecord& record, SliceState& state) const {
  const Payload gradient = oracle_->Gradient(record.lease, record.step, record.slice);
  const float share = static_cast<float>(1.0 / oracle_->plan().LeasesIn(oracle_->plan().GroupOf(record.lease)));
  Payload sum = Payload::Allocate(gradient.size());
  for (size_t i = 0; i < gradient.floats().size(); ++i) {
    const float part = -share * gradient.floats()[i];
    sum.mutable_floats()[i] = state.slots.back().floats()[i] - part;
  }
  state.slots.back() = sum;
}

void ReferenceState::Apply(const TraceRecord& record, const Version& computed_from, SliceState& state) const {
  const JobSpec& job = oracle_->job();
  const bool known = computed_from.epoch == record.epoch && computed_from.n <= state.version;
  const uint64_t staleness = known ? state.version - computed_from.n : 0;
  const StalenessRule rule(job.training, job.cluster.worker_count);
  state.usual_staleness =
      rule.UsualAfter({state.version, state.usual_staleness}, known ? std::optional(staleness) : std::nullopt);
  const Payload gradient = oracle_->Gradient(record.lease, record.step, record.slice);
  const Slice& slice = oracle_->grid().at(state.slice);
  const VariableSpec& variable = oracle_->grid().variables[slice.variable];
  const SliceTraits traits = {
      .is_trained = variable.trainable,
      .has_directions = HasDirections(RunOf(variable, slice), gradient.floats().size()),
      .rates_fall = RatesFall(OfVariable(job.training.servers_optimizer(), variable.name).kind)};
  Update(gradient, rule.Of(staleness, state.usual_staleness, traits), Done(state), state);
}

// Pushes that the slice has consumed.
uint64_t ReferenceState::Done(const SliceState& state) const {
  uint64_t done = oracle_->plan().StepsIn(state.finished);
  for (const LeaseCounter& open : state.counters) done += open.consumed;
  return done;
}

// `done`: pushes before the one at hand.
void ReferenceState::Update(const Payload& gradient, const Damping& damping, uint64_t done, SliceState& state) const {
  const Slice& slice = oracle_->grid().at(state.slice);
  const VariableSpec& variable = oracle_->grid().variables[slice.variable];
  const TrainingSpec& training = oracle_->job().training;
  const OptimizerSpec spec = OfVariable(training.servers_optimizer(), variable.name);
  std::vector<Payload> fresh;
  std::vector<UpdatedArray> arrays;
  const auto renew = [&](const Payload& old) {
    fresh.push_back(Payload::Allocate(old.size()));
    arrays.push_back({old.floats().data(), fresh.back().mutable_floats().data()});
  };
  renew(state.values);
  const int slots = SlotCount(spec.kind);
  for (int i = 0; i < slots; ++i) renew(state.slots[i]);
  ++state.version;
  const Plan& plan = oracle_->plan();
  downpour::Update rule = UpdateFor(spec, damping, state.version, RateShare(spec.schedule, done, plan.total_steps()));
  StepBuffers buffers;
  const GradientSpan shaped = ShapeStep(damping, RunOf(variable, slice), gradient.floats(), arrays, &rule, &buffers);
  if (!ApplyUpdate(rule, shaped, arrays)) {
    findings_->Add("the oracle's gradient is not finite");
  }
  state.values = fresh[0];
  std::copy(fresh.begin() + 1, fresh.end(), state.slots.begin());
}

void ReferenceState::CheckSlice(const SliceState& shown, const std::string& where) {
  const auto found = lineages_.find({shown.slice, shown.epoch});
  if (found == lineages_.end()) {
    return findings_->Add(absl::StrCat(where, ": ", PlaceOf(shown.slice, shown.epoch), " was never installed"));
  }
  if (!found->second.settled) Settle(found->second, shown, where);
  const std::string difference = Difference(found->second.state, shown);
  if (!difference.empty()) {
    findings_->Add(absl::StrCat(where, ": ", PlaceOf(shown.slice, shown.epoch), ": ", difference));
  }
}

std::optional<uint32_t> ReferenceState::ChecksumAt(SliceId slice, Version version) const {
  const Lineage* lineage = Find(slice, version.epoch);
  if (lineage == nullptr) return std::nullopt;
  const auto found = lineage->checksums.find(version.n);
  return found == lineage->checksums.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace downpour
