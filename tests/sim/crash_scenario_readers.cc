// Processes that read the model while it is trained, as `downpour models deploy --live` starts them, and what happens
// to them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ps/shard.h"
#include "runtime/row_frames.h"
#include "tests/schema/random_message.h"
#include "tests/sim/crash_scenario.h"

namespace downpour {

void CrashScenario::BeginReaders() {
  const ReaderPlan& plan = plan_.readers;
  readers_.resize(static_cast<size_t>(plan.count));
  for (int number = 0; number < plan.count; ++number) StartReaderSoon(number, /*run=*/0);
  if (plan.count == 0) return;
  RepeatForReaders(plan.crash, &CrashScenario::KillReader);
  RepeatForReaders(plan.pause, &CrashScenario::PauseReader);
  RepeatForReaders(plan.cut, &CrashScenario::CutReader);
  RepeatForReaders(plan.lie, &CrashScenario::LieToReader);
}

Duration CrashScenario::AroundForReaders(Duration mean) {
  return Duration(static_cast<int64_t>(static_cast<double>(mean.count()) * -std::log(1 - readers_prng_.Uniform())));
}

void CrashScenario::RepeatForReaders(Duration mean, void (CrashScenario::*fault)()) {
  if (mean == Duration::zero() || calm_) return;
  world_.events().After(AroundForReaders(mean), [this, mean, fault] {
    if (!calm_ && !succeeded_) (this->*fault)();
    RepeatForReaders(mean, fault);
  });
}

void CrashScenario::StartReaderSoon(int number, uint64_t run) {
  world_.events().After(AroundForReaders(1s), [this, number, run] { StartReader(number, run); });
}

// `run`: of which training; 0: of whichever it finds.
void CrashScenario::StartReader(int number, uint64_t run) {
  if (succeeded_) return;
  const Viewer::Place place = WhereChiefIs();
  if (place.endpoint.empty()) return StartReaderSoon(number, run);  // the folder names no chief yet
  const bool knows_secret = readers_prng_.Chance(0.8);              // else it is that of the chief before
  ReaderOptions options{.chief = place.endpoint,
                        .secret = knows_secret ? place.secret : "of another chief",
                        .run = run,
                        .refresh = plan_.readers.refresh,
                        .timing = plan_.timing};
  auto viewer = std::make_unique<Viewer>(Viewer::Options{.reader = std::move(options),
                                                         .plan = plan_.readers,
                                                         .oracle = &oracle_,
                                                         .seed = readers_prng_.Next(),
                                                         .look = [this] { return WhereChiefIs(); }});
  const Duration clock = readers_prng_.Chance(0.5) ? Duration::zero() : 1s * readers_prng_.Below(1000000);
  Reader& reader = readers_[static_cast<size_t>(number)];
  reader = {.life = world_.StartReader(absl::StrCat("reader-", number), std::move(viewer), clock)};
}

Viewer::Place CrashScenario::WhereChiefIs() const {
  if (last_chief_ == Life::kNone) return {};
  return {.endpoint = world_.EndpointForReaders(last_chief_), .secret = kSecret, .is_over = succeeded_};
}

// It says why, and that is so. Another one comes in its place, unless the job is over for good.
void CrashScenario::OnReaderExit(const Process& reader, const std::string& why) {
  bool has_ended = succeeded_;                                        // under some chief
  bool has_other_run = faults_["another job's end to a reader"] > 0;  // likewise
  world_.ForEach([&](const Process& process) {
    if (process.chief == nullptr) return;
    has_ended |= process.chief->state() > JobState::kRunning;
    has_other_run |= RunOf(process) != 0 && RunOf(process) != RunOf(reader);
  });
  const bool is_over = has_ended && absl::StrContains(why, "the job is over");
  const bool is_other = has_other_run && absl::StrContains(why, "another run of the job");
  if (!is_over && !is_other) findings_.Add(absl::StrCat(reader.name, " ends without cause: ", why));
  const auto at = std::ranges::find(readers_, reader.life, &Reader::life);
  if (at == readers_.end()) return;
  StartReaderSoon(static_cast<int>(at - readers_.begin()), !is_other && readers_prng_.Chance(0.5) ? RunOf(reader) : 0);
}

Life CrashScenario::OneReader() {
  const Life life = readers_[readers_prng_.Below(readers_.size())].life;
  return life != Life::kNone && world_.process(life).alive ? life : Life::kNone;
}

void CrashScenario::KillReader() {
  const Life life = OneReader();
  if (life == Life::kNone) return;
  ++faults_["reader killed"];
  world_.Kill(life);
  const auto at = std::ranges::find(readers_, life, &Reader::life);
  StartReaderSoon(static_cast<int>(at - readers_.begin()), readers_prng_.Chance(0.5) ? RunOf(world_.process(life)) : 0);
}

void CrashScenario::PauseReader() {
  const Life life = OneReader();
  if (life == Life::kNone) return;
  ++faults_["reader paused"];
  world_.Pause(life, std::min(AroundForReaders(plan_.timing.dead_after), 2 * plan_.timing.dead_after));
}

void CrashScenario::CutReader() {
  const Life life = OneReader();
  const std::vector<Life> others = world_.Alive();
  if (life == Life::kNone || others.empty()) return;
  ++faults_["reader cut off"];
  const Life other = others[readers_prng_.Below(others.size())];
  const Duration length = AroundForReaders(plan_.timing.dead_after / 2);
  const bool loses = readers_prng_.Chance(0.5);
  world_.network().Cut(life, other, length, loses);
  if (readers_prng_.Chance(0.5)) world_.network().Cut(other, life, length, loses);
}

// Over a connection that it has dialled. Nothing of it may show.
void CrashScenario::LieToReader() {
  const Life life = OneReader();
  if (life == Life::kNone || RunOf(world_.process(life)) == 0) return;
  const Process& reader = world_.process(life);
  const std::map<PeerId, Pull>& asked = reader.viewer->asked();
  if (readers_prng_.Chance(0.05)) {
    ++faults_["another job's end to a reader"];
    return world_.Tell(life, JobEnd{.succeeded = true, .why = "another job has succeeded"}, readers_prng_.Next());
  }
  if (asked.empty()) return;
  const auto [peer, pull] = *std::next(asked.begin(), static_cast<std::ptrdiff_t>(readers_prng_.Below(asked.size())));
  if (readers_prng_.Chance(0.2)) {
    ++faults_["anything said to a reader"];
    Random random(readers_prng_.Next());
    Message message = RandomMessage(readers_prng_.Below(std::variant_size_v<MessageKinds>), random);
    return world_.TellBy(peer, life, std::move(message), RunOf(reader));
  }
  const uint64_t what = readers_prng_.Below(5);
  std::optional<PullReply> answer = FalseAnswer(*reader.viewer, pull, what);
  if (!answer) return;
  ++faults_["a false answer to a reader"];
  world_.TellBy(peer, life, *std::move(answer), what == 4 ? readers_prng_.Next() : RunOf(reader));
}

// Junk as an answer that it must not take: to another question, or in the name of another process, or of values in
// another epoch or of another length; else it must be said in another run.
std::optional<PullReply> CrashScenario::FalseAnswer(const Viewer& viewer, const Pull& asked, uint64_t what) {
  const Placement& placement = viewer.placement();
  PullReply answer{.from = Incarnation::kNone, .request = asked.request, .slices = {}, .window = 1 << 20};
  for (const Pull::Item& wanted : asked.slices) {
    const auto place = std::ranges::find(placement.slices, wanted.slice, &Placement::Item::slice);
    if (place == placement.slices.end()) return std::nullopt;
    answer.from = placement.servers[place->server].incarnation;
    PullReply::Item& item = answer.slices.emplace_back();
    item.slice = wanted.slice;
    item.version = {place->epoch, wanted.have.n + 1};
    item.values = Junk(wanted);
    if (what == 2) item.version.epoch.n += readers_prng_.Chance(0.5) ? 1 : -1;
    if (what == 3) item.values = Payload::Zeros(item.values.size() + 4);
  }
  if (what == 0) answer.request += 1000;  // behind all that it has asked
  if (what == 1) answer.from = Incarnation{ToNumber(answer.from) + 1 + readers_prng_.Below(2)};
  return answer;
}

Payload CrashScenario::Junk(const Pull::Item& asked) {
  const SliceGrid& grid = oracle_.grid();
  const size_t bytes = grid.IsBucket(asked.slice) ? AnswerBytes(asked.keys, grid.row_widths)
                                                  : static_cast<size_t>(grid.WireBytes(asked.slice));
  Payload junk = Payload::Allocate(bytes);
  for (std::byte& one : junk.mutable_as<std::byte>()) one = std::byte(0x40 + readers_prng_.Below(8));
  return junk;
}

// To find the chief and hear of the placement, and to ask again however rarely.
Duration CrashScenario::PatienceOfReaders() const {
  const Timing& timing = plan_.timing;
  const Duration way = plan_.network.delay + plan_.network.spread;
  return 5s + 2 * timing.control_retry + PsLink::kMaxBackoff * timing.data_retry + 4 * way;
}

// Each slice is where the chief has it, at a ps that is up.
bool CrashScenario::CanBeRead(const Process& chief) const {
  if (chief.paused || chief.chief->state() != JobState::kRunning || !chief.chief->all_reported()) return false;
  std::vector<SliceEpoch> lacking = chief.chief->epochs();
  for (const Life life : world_.Alive(TaskRole::kPs)) {
    const Process& ps = world_.process(life);
    for (size_t i = 0; i < lacking.size() && !ps.paused && RunOf(ps) == RunOf(chief); ++i) {
      const ServedSlice* served = ps.ps->Find(SliceId{static_cast<uint32_t>(i)});
      if (served != nullptr && served->epoch == lacking[i]) lacking[i] = {};
    }
  }
  return std::ranges::all_of(lacking, [](SliceEpoch epoch) { return epoch == SliceEpoch(); });
}

// In a calm cluster one whole set follows the other, and questions are answered.
void CrashScenario::LookForReaders(const Process& process) {
  const bool can_be_read = CanBeRead(process);
  for (Reader& reader : readers_) {
    if (reader.life == Life::kNone || !world_.process(reader.life).alive) continue;
    const Process& one = world_.process(reader.life);
    const std::string name = absl::StrCat(one.name, "#", static_cast<uint32_t>(one.life));
    const bool reads = std::exchange(reader.sets, one.viewer->sets()) != one.viewer->sets();
    const auto& questions = one.viewer->questions();
    const uint64_t oldest = questions.empty() ? 0 : questions.begin()->first;
    const bool is_answered = std::exchange(reader.question, oldest) != oldest || oldest == 0;
    const bool pauses = one.viewer->next_round() - one.clock > world_.now();
    Due(name + " shows no whole set", can_be_read && !one.paused && !reads && !pauses, PatienceOfReaders());
    Due(name + " has no answer to its question", can_be_read && !one.paused && !is_answered, PatienceOfReaders());
  }
}

bool CrashScenario::ReadersAreGone() const {
  return std::ranges::none_of(readers_, [this](const Reader& reader) {
    return reader.life != Life::kNone && world_.process(reader.life).alive;
  });
}

// Some time after the end.
void CrashScenario::EndOfReaders() {
  for (const Reader& reader : readers_) {
    if (reader.life == Life::kNone || !world_.process(reader.life).alive) continue;
    const Process& process = world_.process(reader.life);
    if (!process.paused) findings_.Add(absl::StrCat(process.name, " reads on after the job's end"));
    world_.Kill(reader.life);
  }
}

void CrashScenario::CountReaders(RunResult& result) const {
  uint64_t moves = 0;
  world_.ForEach([&](const Process& process) {
    if (process.viewer == nullptr) return;
    result.sets += process.viewer->sets();
    result.rows += process.viewer->rows();
    moves += process.viewer->moves();
  });
  if (moves > 0) result.faults["chief found elsewhere"] += moves;
}

}  // namespace downpour
