#include "tests/scenario/ps_stage.h"

#include <glog/logging.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "ps/shard.h"
#include "runtime/initial_values.h"
#include "tests/scenario/tiny_job.h"
#include "tests/scenario/wording.h"

namespace downpour {
namespace {

constexpr PeerId kControl{1}, kBulk{2};
constexpr uint64_t kUsualWorker = 5;
constexpr uint64_t kFirstLife = 10;

// Each worker has a connection of its own.
PeerId ConnectionOf(const Command& command) {
  return PeerId{ToNumber(PeerId::kFirstAccepted) +
                command.Number("connection", command.Number("worker", kUsualWorker))};
}

std::string PeerName(PeerId peer) { return peer == kControl || peer == kBulk ? "chief" : "worker"; }

PsOptions Options() {
  PsOptions options;
  options.member.chief = "chief";
  return options;
}

// The answer to its newest Join.
Welcome WelcomeAs(const Command& command, uint64_t run, uint64_t number) {
  return {.you = Incarnation{command.Number("incarnation", kFirstLife)},
          .term = static_cast<uint32_t>(command.Number("term", 1)),
          .name = "ps-0",
          .job = CanonicalJob(TinyJobOf(command)),
          .run = run,
          .nonce = 0,
          .number = number};
}

SliceSource ParseSource(const std::string& word) {
  if (word == "held") return SliceSource::kHeld;
  return word == "checkpoint" ? SliceSource::kCheckpoint : SliceSource::kInitialValues;
}

Payload Gradient(const std::string& kind, SliceId slice) {
  const SliceGrid grid = TinyGrid();
  const size_t elements = grid.Contains(slice) ? static_cast<size_t>(grid.at(slice).elements) : 1;
  if (kind == "empty") return Payload();
  if (kind == "short") return Payload::Zeros((elements - 1) * sizeof(float));
  const float value = kind == "nan" ? std::numeric_limits<float>::quiet_NaN() : std::stof(kind);
  const std::vector<float> values(elements, value);
  return Payload::CopyOf(values.data(), elements * sizeof(float));
}

Version ParseVersion(const std::string& word) {
  Version version;
  unsigned long long n = 0;
  CHECK_EQ(std::sscanf(word.c_str(), "%u.%uv%llu", &version.epoch.term, &version.epoch.n, &n), 3) << word;
  version.n = n;
  return version;
}

}  // namespace

PsStage::PsStage() : role_(Options()) {
  Give(Started{0, "ps-0"});
  Do(Command("welcome"));
}

std::vector<std::string> PsStage::Give(Input input) {
  Effects effects;
  role_.Step(now_, std::move(input), effects);
  std::vector<std::string> lines;
  for (const Effect& effect : effects.Take()) {
    if (const std::string line = Word(effect, PeerName); !line.empty()) lines.push_back(line);
    const auto* send = std::get_if<Send>(&effect);
    if (const auto* join = send == nullptr ? nullptr : std::get_if<Join>(&send->message)) join_ = join->number;
    const auto* record = send == nullptr ? nullptr : std::get_if<SliceRecord>(&send->message);
    if (record != nullptr && !saving_.empty()) records_[std::exchange(saving_, "")] = record->blocks;
  }
  return lines;
}

std::vector<std::string> PsStage::Deliver(PeerId from, Message message, const Command& command) {
  return Give(Received{from, std::move(message), command.Number("run", role_.run())});
}

std::vector<std::string> PsStage::Pass(Duration duration) {
  std::vector<std::string> lines;
  for (const Time end = now_ + duration; now_ < end;) {
    now_ += 100ms;
    for (std::string& line : Deliver(kControl, HeartbeatReply{.to = role_.incarnation()}, Command("beat")))
      lines.push_back(std::move(line));
    for (std::string& line : Give(Tick())) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> PsStage::Do(const Command& command) {
  const std::string& name = command.name();
  if (name == "show") return Show(SliceId{static_cast<uint32_t>(std::stoul(command.words().at(0)))});
  if (name == "stats") return {Stats()};
  if (name == "stop") return Give(StopRequested{15});
  if (name == "let_go") return Deliver(kControl, HeartbeatReply{.may_leave = true, .to = role_.incarnation()}, command);
  if (name == "pass") return Pass(std::chrono::milliseconds(std::stoul(command.words().at(0))));
  if (name == "push" || name == "probe" || name == "pull")
    return Deliver(ConnectionOf(command), FromWorker(command), command);
  return Deliver(kControl, FromChief(command), command);
}

Message PsStage::FromWorker(const Command& command) const {
  const Incarnation worker{command.Number("worker", kUsualWorker)};
  const LeaseId lease{command.Number("lease")};
  Push push{worker, lease, static_cast<Step>(command.Number("step")), {}};
  Probe probe{worker, lease, {}};
  Pull pull{worker, command.Number("request"), {}};
  for (const std::string& word : command.words()) {
    const auto [slice, epoch, rest] = ParsePlace(word);
    const Version from = command.Has("from") ? ParseVersion(command.Text("from")) : Version{epoch, 0};
    push.slices.push_back({slice, epoch, from, Gradient(command.Text("gradient", "1"), slice)});
    probe.slices.push_back({slice, epoch});
    pull.slices.push_back({slice, epoch, command.Has("have") ? ParseVersion(command.Text("have")) : Version()});
  }
  if (command.name() == "push") return push;
  if (command.name() == "probe") return probe;
  return pull;
}

Message PsStage::FromChief(const Command& command) {
  const Incarnation me{command.Number("to", ToNumber(role_.incarnation()))};
  const std::string& name = command.name();
  if (name == "drop")
    return Refused{RefusalCode::kUnknown, false, "no heartbeat", role_.incarnation(),
                   command.Number("run", role_.run())};
  if (name == "welcome") return WelcomeAs(command, command.Number("run", role_.run()), join_);
  if (name == "assign") {
    Assign assign{me, kTinyExamples, {}};
    for (const std::string& word : command.words()) {
      const auto [slice, epoch, source] = ParsePlace(word);
      assign.slices.push_back({slice, epoch, ParseSource(source)});
    }
    return assign;
  }
  const Round round = ParseRoundName(command.Text("round", "1-1"));
  const SlicePlace place = ParsePlace(command.words().at(0));
  if (name == "restore") return RestoreSlice{me, place.slice, place.epoch, records_.at(command.Text("record")), round};
  CHECK_EQ(name, "snapshot") << "no such command";
  saving_ = command.Text("as");
  return SnapshotRequest{me, round, {{place.slice, place.epoch}}};
}

std::vector<std::string> PsStage::Show(SliceId id) const {
  const ServedSlice* slice = role_.Find(id);
  if (slice == nullptr) return {"not here"};
  const SliceState state = StateOf(id, *slice);
  std::vector<float> initial(state.values.floats().size());
  InitialValues(TinyJob().seed, TinyGrid(), id, initial.data());
  std::string open;
  for (const LeaseCounter& counter : slice->counters.open()) {
    absl::StrAppend(&open, ToNumber(counter.lease), ":", counter.consumed, ";");
  }
  // Gradients are whole numbers and the rate is 1, so that the way from the initial value is their sum.
  return {absl::StrCat("epoch=", ToString(slice->epoch), " v", slice->version,
                       " sum=", std::lround(initial[0] - state.values.floats()[0]),
                       " finished=", Word(slice->counters.finished()), " open={", open, "}")};
}

std::string PsStage::Stats() const {
  const TaskStats& stats = role_.stats();
  return absl::StrCat("consumed=", stats.steps, " duplicate=", stats.pushes_duplicate,
                      " refused=", stats.pushes_refused, " skipped=", stats.pushes_skipped,
                      stats.pushes_dropped > 0 ? absl::StrCat(" dropped=", stats.pushes_dropped) : "",
                      " rejected=", stats.messages_rejected, " staleness: pushes=", stats.staleness.pushes,
                      " sum=", stats.staleness.sum, " unknown=", stats.staleness.unknown);
}

}  // namespace downpour
