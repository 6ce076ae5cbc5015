#include "tests/sim/chief_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "chief/lifecycle.h"
#include "chief/slice_restore.h"
#include "chief/status.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

// Of checkpoints/TERM-N, or of what lies in it.
std::optional<Round> RoundOf(const std::string& path) {
  const std::string folder = "checkpoints/";
  if (!absl::StartsWith(path, folder)) return std::nullopt;
  const std::string name = path.substr(folder.size(), path.find('/', folder.size()) - folder.size());
  const absl::StatusOr<Round> round = ParseRound(name);
  return round.ok() ? std::optional(*round) : std::nullopt;
}

}  // namespace

void ChiefRules::Before(const Process& process, const Input& input) {
  ticks_ = false;
  behind_.clear();
  due_to_go_ = Incarnation::kNone;
  if (process.chief == nullptr) return;
  if (life_ != process.life) {
    *this = ChiefRules(world_, oracle_);
    placed_before_ = FollowsADeadOne(process);
  }
  life_ = process.life;
  ticks_ = std::holds_alternative<Tick>(input);
  if (std::holds_alternative<StopRequested>(input) && !told_to_stop_) told_to_stop_ = world_->now();
  if (ticks_) {
    for (auto& [server, leaving] : leaving_) {
      if (leaving.counted || !IsThere(process, TaskRole::kPs, server)) continue;
      leaving.counted = world_->now();
      if (!leaving.after) leaving.after = begun_.empty() ? Round() : begun_.rbegin()->first;
    }
  }
  if (const auto* received = std::get_if<Received>(&input)) OnReceived(process, *received);
}

// As it stands before its first Step: the journal knows of slices, and neither it nor a summary of an end.
bool ChiefRules::FollowsADeadOne(const Process& chief) const {
  const FaultPlan& plan = world_->plan();
  if (plan.disk.io_error > 0 || plan.damage || plan.lose || plan.rot) return false;  // it may read something else
  std::optional<JournalEntry> newest;
  for (const char* copy : {"journal.a", "journal.b"}) {
    absl::StatusOr<JournalEntry> entry = DecodeEntry(Unsealed(chief.disk->ReadSeen(copy).value_or("")).value_or(""));
    if (entry.ok() && (!newest || entry->number > newest->number)) newest = *std::move(entry);
  }
  if (!newest || !newest->record.ended.empty() || !newest->record.data) return false;
  const std::string text = chief.disk->ReadSeen(kSummaryFile).value_or("");
  const nlohmann::json said = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return !said.is_object() || said.value("chiefRestarts", UINT64_MAX) + 1 != newest->record.chiefs;
}

void ChiefRules::OnReceived(const Process& chief, const Received& received) {
  if (const auto* report = std::get_if<SliceReport>(&received.message)) {
    for (const SliceReport::Item& item : report->slices) restoring_[report->from].erase(item.slice);
    OnReport(chief, *report);
  }
  if (const auto* join = std::get_if<Join>(&received.message); join != nullptr && join->was == Incarnation::kNone) {
    join_with_nothing_.insert(received.from);
  }
  const auto* command = std::get_if<Control>(&received.message);
  if (command != nullptr && command->kind == ControlKind::kCheckpoint) asked_.insert(command->nonce);
  const auto* beat = std::get_if<Heartbeat>(&received.message);
  if (beat == nullptr) return;
  speakers_[received.from] = beat->from;
  const std::vector<Incarnation> lost = chief.chief->lost();  // this brings it back
  const bool is_known = IsThere(chief, TaskRole::kPs, beat->from) || std::ranges::find(lost, beat->from) != lost.end();
  if (beat->leaving.empty() || !is_known) return;
  const auto [known, is_new] = leaving_.try_emplace(beat->from, Leaving{world_->now()});
  if (known->second.let_go) due_to_go_ = beat->from;  // the first word may have been lost
  const bool has_nothing = fresh_.contains(beat->from) && chief.chief->state() < JobState::kRunning;
  if (!is_new && known->second.counted && has_nothing) due_to_go_ = beat->from;
}

// What its process held may be of before another one had its place (A2).
void ChiefRules::OnReport(const Process& chief, const SliceReport& report) {
  const FaultPlan& plan = world_->plan();
  if (plan.damage || plan.lose || plan.rot) return;  // other checkpoints may count
  std::vector<const SliceReport::Item*> first;
  for (const SliceReport::Item& item : report.slices) {
    if (held_.erase({report.from, item.slice, item.epoch}) > 0) first.push_back(&item);
  }
  if (!IsThere(chief, TaskRole::kPs, report.from)) return;
  std::optional<Manifest> newest;
  for (const std::string& file : chief.disk->Files("checkpoints/")) {
    if (!absl::EndsWith(file, "/MANIFEST")) continue;
    absl::StatusOr<Manifest> manifest = DecodeManifest(chief.disk->ReadSeen(file).value_or(""));
    if (manifest.ok() && (!newest || manifest->round > newest->round)) newest = *std::move(manifest);
  }
  if (!newest) return;
  for (const SliceReport::Item* item : first) {
    if (item->error.empty() && !item->finished.Covers(newest->committed)) behind_.push_back({item->slice, item->epoch});
  }
}

bool ChiefRules::HasSomething(const Process& chief, Incarnation server) const {
  for (const Life life : world_->Alive(TaskRole::kPs)) {
    const Process& process = world_->process(life);
    if (process.ps->incarnation() != server || RunOf(process) != RunOf(chief)) continue;
    for (const Slice& slice : oracle_->grid().slices) {
      if (process.ps->Find(slice.id) != nullptr) return true;
    }
  }
  return false;
}

void ChiefRules::OnEffect(const Process& process, const Effect& effect) {
  if (process.chief == nullptr) return;
  if (const auto* op = std::get_if<StorageOp>(&effect)) {
    const std::optional<Round> round = RoundOf(op->path);
    if (op->kind == StorageOp::Kind::kMakeDir && round) Begins(process, *round);
    if (op->kind == StorageOp::Kind::kAppend && round) CheckWork(process, *round);
    if (op->kind == StorageOp::Kind::kRemove && round && round == under_way_ && op->path == CheckpointDir(*round)) {
      under_way_.reset();
    }
  }
  if (const auto* record = std::get_if<TraceRecord>(&effect);
      record != nullptr && record->kind == TraceRecord::Kind::kDurable) {
    const Round round{static_cast<uint32_t>(record->count >> 32), static_cast<uint32_t>(record->count)};
    ++durable_;
    for (auto& [server, leaving] : leaving_) leaving.safe |= leaving.after && round > *leaving.after;
    if (round == under_way_) under_way_.reset();
  }
  if (const auto* send = std::get_if<Send>(&effect)) Says(process, *send);
}

void ChiefRules::Says(const Process& process, const Send& effect) {
  const Send* send = &effect;
  if (const auto* welcome = std::get_if<Welcome>(&send->message)) {
    speakers_[send->to] = welcome->you;
    if (join_with_nothing_.contains(send->to)) fresh_.insert(welcome->you);
  }
  if (const auto* reply = std::get_if<HeartbeatReply>(&send->message); reply != nullptr && reply->may_leave) {
    LetsGo(process, send->to);
    if (!IsThere(process, TaskRole::kPs, reply->to)) Add(process, "lets a ps go under a name that it has not");
  }
  if (const auto* reply = std::get_if<ControlReply>(&send->message);
      reply != nullptr && reply->verdict == ControlVerdict::kAccepted && asked_.contains(reply->nonce)) {
    if (answered_.insert(reply->nonce).second) wanted_ = world_->now();
  }
  if (const auto* request = std::get_if<SnapshotRequest>(&send->message)) {
    CheckWork(process, request->round);
    CheckUrgent(process, request->round, request->urgent);
  }
  if (const auto* request = std::get_if<WriteShard>(&send->message)) {
    CheckWork(process, request->round);
    CheckUrgent(process, request->round, request->urgent);
  }
  if (std::holds_alternative<Grant>(send->message) && process.chief->state() != JobState::kRunning) {
    Add(process, "grants a lease of a job that does not run");
  }
  if (const auto* grant = std::get_if<Grant>(&send->message)) {
    const uint64_t reach = oracle_->plan().ReachFrom(process.chief->committed().FirstMissing(0));
    if (process.chief->committed().Contains(ToNumber(grant->lease))) Add(process, "grants a lease that is committed");
    if (ToNumber(grant->lease) >= reach) Add(process, "grants a lease out of reach of what is committed");
  }
  if (const auto* restore = std::get_if<RestoreSlice>(&send->message)) CheckWindow(process, *restore);
  if (const auto* assign = std::get_if<Assign>(&send->message)) {
    servers_.insert(assign->to);
    for (const Assign::Item& item : assign->slices) {
      if (item.source == SliceSource::kHeld) held_.insert({assign->to, item.slice, item.epoch});
    }
  }
}

void ChiefRules::CheckWindow(const Process& chief, const RestoreSlice& restore) {
  if (!servers_.contains(restore.to)) return;  // a worker asks for each by itself
  std::set<SliceId>& under_way = restoring_[restore.to];
  under_way.insert(restore.slice);
  if (under_way.size() > SliceRestore::kRestoreWindow / SliceRestore::kLeastRecord) {
    Add(chief, absl::StrCat("has ", under_way.size(), " records on their way to one ps"));
  }
}

void ChiefRules::Begins(const Process& chief, Round round) {
  Begun& begun = begun_[round];
  begun.at = world_->now();
  wanted_.reset();
  begun.epochs = chief.chief->epochs();
  under_way_ = round;
  const JobState state = chief.chief->state();
  if (!chief.chief->all_reported()) Add(chief, "begins a round before every slice has reported where it is");
  begun.is_urgent = state == JobState::kCancelling;
  if (state != JobState::kRunning) return;
  begun.is_urgent |= chief.chief->committed().CoversRange(0, chief.chief->goal());
  CheckBegin(chief, round);
  for (const auto& [server, leaving] : leaving_) {
    begun.is_urgent |= leaving.counted && !leaving.let_go && IsThere(chief, TaskRole::kPs, server);
  }
}

// While a ps waits to be let go only the rounds begin that let it go; while one that was stays, none.
void ChiefRules::CheckBegin(const Process& chief, Round round) {
  const Timing& timing = world_->plan().timing;
  const Time now = world_->now();
  bool waits = false, heard_long_ago = false, heard_since = false, stays = false;
  for (const auto& [server, leaving] : leaving_) {
    // It may have left since it gave its word; or this is when another round may be tried, as was planned before that.
    const Time again = departure_round_ ? departure_round_->at + timing.dead_after : now;
    heard_long_ago |= leaving.heard + timing.heartbeat <= now || (departure_round_ && leaving.heard < again);
    // The chief reckons with a word from its next Tick on, which may be at the very time at which a round began.
    heard_since |= departure_round_ && leaving.after && *leaving.after >= departure_round_->round;
    if (!leaving.counted || !IsThere(chief, TaskRole::kPs, server)) continue;
    stays |= leaving.let_go && now < *leaving.let_go + timing.dead_after;
    if (leaving.let_go) continue;
    waits = true;
  }
  if (!waits && stays) Add(chief, "begins a round while a ps that it has let go is about to leave");
  if (!waits) return;
  if (!heard_long_ago) Add(chief, "begins a round at once for a ps that is to stop: those told with it would share it");
  if (departure_round_ && !heard_since && now < departure_round_->at + timing.dead_after) {
    Add(chief, "begins another round at once for a ps that is to stop");
  }
  departure_round_ = {round, now};
}

void ChiefRules::CheckWork(const Process& chief, Round round) {
  if (overdue_.contains(round)) {
    Add(chief, absl::StrCat("goes on with round ", ToString(round), ", which has to make room"));
  }
  const auto begun = begun_.find(round);
  if (begun != begun_.end() && begun->second.epochs != chief.chief->epochs()) {
    Add(chief, absl::StrCat("goes on with round ", ToString(round), ", though slices have other epochs by now"));
  }
}

void ChiefRules::CheckUrgent(const Process& chief, Round round, bool urgent) {
  const auto begun = begun_.find(round);
  if (begun == begun_.end() || !begun->second.is_urgent || urgent) return;
  Add(chief, absl::StrCat("does not hurry with round ", ToString(round)));
}

void ChiefRules::LetsGo(const Process& chief, PeerId to) {
  const auto found = leaving_.find(speakers_[to]);
  if (found == leaving_.end()) return;
  if (due_to_go_ == found->first) due_to_go_ = Incarnation::kNone;
  Leaving& mine = found->second;
  if (mine.let_go) return;
  mine.let_go = world_->now();
  if (chief.chief->state() == JobState::kCancelling) Add(chief, "lets a ps go that its last round needs");
  const bool has_time = world_->now() + world_->plan().timing.dead_after < mine.heard + kPsLeavesWithin;
  if (!has_time || chief.chief->state() != JobState::kRunning || !HasSomething(chief, found->first)) return;
  for (const auto& [server, other] : leaving_) {
    const bool waits = other.counted && !other.let_go && !other.safe && IsThere(chief, TaskRole::kPs, server);
    if (waits && HasSomething(chief, server)) Add(chief, "lets a ps go that another one's round needs");
  }
}

// Rounds that the Step at hand ought to have ended.
void ChiefRules::CheckOverdue(const Process& chief) {
  const JobState state = chief.chief->state();
  const bool cancelling = state == JobState::kCancelling;
  if (cancelling && !was_cancelling_) {
    cancelled_ = world_->now();
    saves_ = has_all_ && AllServersThere(chief);
    for (const auto& [round, begun] : begun_) {
      if (begun.at < world_->now()) overdue_.insert(round);
    }
  }
  was_cancelling_ = cancelling;
  prepared_ |= chief.chief->all_reported();
  const bool has_time = told_to_stop_ && world_->now() < *told_to_stop_ + Lifecycle::kLastRound;
  if (state == JobState::kCancelled && placed_before_ && !prepared_ && has_time) {
    Add(chief, "ends before the servers of the chief before are here, which hold what no checkpoint has");
  }
  has_all_ = state == JobState::kRunning && chief.chief->all_reported();
  saves_ = saves_ && AllServersThere(chief);
  const bool has_saved = !begun_.empty() && cancelled_ && begun_.rbegin()->second.at >= *cancelled_;
  if (state == JobState::kCancelled && saves_ && !has_saved) Add(chief, "cancels the job without a last checkpoint");
  if (state != JobState::kRunning || !chief.chief->all_reported() || begun_.empty()) return;
  const Round round = begun_.rbegin()->first;
  bool makes_room = false, is_needed = false;
  for (const auto& [server, leaving] : leaving_) {
    if (!leaving.counted || leaving.let_go || leaving.safe || !IsThere(chief, TaskRole::kPs, server)) continue;
    const bool due = *leaving.counted + world_->plan().timing.heartbeat < world_->now();
    const bool serves = round > *leaving.after;
    makes_room |= due && !serves && HasSomething(chief, server);
    is_needed |= serves;
  }
  if (makes_room && !is_needed) overdue_.insert(round);
}

bool ChiefRules::AllServersThere(const Process& chief) const {
  const std::vector<Incarnation> alive = chief.chief->alive(TaskRole::kPs);
  return alive.size() == static_cast<size_t>(chief.job.cluster.parameter_server_count) &&
         std::ranges::all_of(alive, [this](Incarnation one) { return servers_.contains(one); });
}

bool ChiefRules::MayBegin(const Process& chief) const {
  const std::vector<Incarnation> alive = chief.chief->alive(TaskRole::kPs);
  const auto leaves = [this](Incarnation one) { return leaving_.contains(one); };
  return chief.chief->state() == JobState::kRunning && chief.chief->all_reported() && !under_way_ &&
         AllServersThere(chief) && std::ranges::none_of(alive, leaves) &&
         !chief.chief->committed().CoversRange(0, chief.chief->goal());
}

// A round every `every`, if none is under way and nothing hinders it.
void ChiefRules::CheckPeriod(const Process& chief) {
  if (!MayBegin(chief)) return may_begin_since_.reset();
  if (!may_begin_since_) may_begin_since_ = world_->now();
  const bool pauses = begun_.size() > durable_;  // it may, behind one that was abandoned
  if (wanted_ && !pauses && world_->now() > std::max(*wanted_, *may_begin_since_)) {
    Add(chief, "does not begin the checkpoint round that a person asked for");
  }
  const Duration every = chief.job.checkpoint.every.value_or(Duration::zero());  // else the chief chooses
  if (every == Duration::zero()) return;
  const Time last = begun_.empty() ? *may_begin_since_ : std::max(begun_.rbegin()->second.at, *may_begin_since_);
  // One that was to end the job is tried again by another clock.
  const bool was_last = !begun_.empty() && begun_.rbegin()->second.is_urgent;
  const Duration period = was_last ? std::max<Duration>(every, world_->plan().timing.dead_after) : every;
  if (world_->now() > last + period) Add(chief, "does not begin a checkpoint round that is due");
}

void ChiefRules::After(const Process& process) {
  if (process.chief == nullptr) return;
  if (process.crash_after.has_value() || !process.alive) return;
  if (ticks_) {
    for (auto& [server, leaving] : leaving_) {
      // Lost in this Tick; it may be back before the next one.
      if (!IsThere(process, TaskRole::kPs, server)) leaving.counted.reset();
    }
  }
  for (const auto& [slice, epoch] : behind_) {
    if (process.chief->epochs()[ToNumber(slice)] != epoch || process.chief->state() > JobState::kRunning) continue;
    Add(process, absl::StrCat("takes slice ", ToNumber(slice), " as its ps kept it, behind the newest manifest"));
  }
  CheckOverdue(process);
  CheckPeriod(process);
  if (due_to_go_ != Incarnation::kNone && IsThere(process, TaskRole::kPs, due_to_go_)) {
    Add(process, absl::StrCat("does not tell ", ToNumber(due_to_go_), " that it may leave"));
  }
}

}  // namespace downpour
