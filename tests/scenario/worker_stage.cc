#include "tests/scenario/worker_stage.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "schema/checkpoint_format.h"
#include "tests/scenario/tiny_job.h"
#include "tests/scenario/wording.h"

namespace downpour {
namespace {

constexpr PeerId kChief{1};
constexpr uint64_t kFirstLife = 5;

WorkerOptions Options() {
  WorkerOptions options;
  options.member.chief = "chief";
  return options;
}

// The answer to its newest Join.
Welcome WelcomeAs(const Command& command, uint64_t run, uint64_t number) {
  return {.you = Incarnation{command.Number("incarnation", kFirstLife)},
          .term = static_cast<uint32_t>(command.Number("term", 1)),
          .name = "worker-0",
          .job = CanonicalJob(TinyJobOf(command)),
          .run = run,
          .nonce = 0,
          .number = number};
}

Payload Zeros(SliceId slice) { return Payload::Zeros(static_cast<size_t>(TinyGrid().at(slice).bytes())); }

SliceRefusal ParseRefusal(const std::string& word) {
  if (word == "other-epoch") return SliceRefusal::kOtherEpoch;
  if (word == "wrong-shape") return SliceRefusal::kWrongShape;
  if (word == "too-stale") return SliceRefusal::kTooStale;
  if (word == "too-early") return SliceRefusal::kTooEarly;
  CHECK_EQ(word, "not-here");
  return SliceRefusal::kNotHere;
}

}  // namespace

WorkerStage::WorkerStage() : role_(Options()) {
  Give(Started{});
  Do(Command("welcome"));
  Computed(Command("computed"));
}

std::string WorkerStage::NameOf(PeerId peer) const {
  const auto found = dialled_.find(peer);
  return found == dialled_.end() ? "nobody" : found->second;
}

PeerId WorkerStage::NewestLinkTo(const std::string& server) const {
  PeerId peer{};
  for (const auto& [id, name] : dialled_) {
    if (name == server) peer = id;
  }
  return peer;
}

Incarnation WorkerStage::IncarnationOf(const std::string& server) {
  return servers_.emplace(server, Incarnation{10 + servers_.size()}).first->second;
}

std::vector<std::string> WorkerStage::Give(Input input) {
  Effects effects;
  role_.Step(now_, std::move(input), effects);
  std::vector<std::string> lines;
  for (const Effect& effect : effects.Take()) {
    if (const auto* dial = std::get_if<Dial>(&effect)) dialled_[dial->peer] = dial->endpoint;
    if (const auto* compute = std::get_if<Compute>(&effect)) before_ = std::exchange(computing_, *compute);
    const auto* send = std::get_if<Send>(&effect);
    if (const auto* join = send == nullptr ? nullptr : std::get_if<Join>(&send->message)) join_ = join->number;
    const std::string line = Word(effect, [this](PeerId peer) { return NameOf(peer); });
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> WorkerStage::FromChief(Message message) {
  return Give(Received{kChief, std::move(message), run_.value_or(role_.run())});
}

std::vector<std::string> WorkerStage::Pass(Duration duration) {
  std::vector<std::string> lines;
  for (const Time end = now_ + duration; now_ < end;) {
    now_ += 100ms;
    for (std::string& line : FromChief(HeartbeatReply{.to = role_.incarnation()}))
      lines.push_back(std::move(line));  // the chief lives
    for (std::string& line : Give(Tick())) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> WorkerStage::Do(const Command& command) {
  const std::string& name = command.name();
  run_ = command.Has("run") ? std::optional(command.Number("run")) : std::nullopt;
  const auto word = [&](size_t i) { return command.words().at(i); };
  if (name == "answer" || name == "refuse" || name == "values") return FromPs(command);
  if (name == "computed") return Computed(command);
  if (name == "reconnected") return Give(Reconnected{NewestLinkTo(word(0))});
  if (name == "pass") return Pass(std::chrono::milliseconds(std::stoul(word(0))));
  if (name == "stats") return {Stats()};
  if (name == "stop") return Give(StopRequested{15});
  if (name == "retire") return FromChief(HeartbeatReply{.retired = true, .to = role_.incarnation()});
  if (name == "end") return FromChief(JobEnd{true, "done"});
  if (name == "place") return FromChief(PlacementOf(command));
  if (name == "grant") {
    return FromChief(
        Grant{Incarnation{command.Number("to", ToNumber(role_.incarnation()))}, LeaseId{std::stoull(word(0))}});
  }
  if (name == "committed") return FromChief(LeaseDoneReply{LeaseId{std::stoull(word(0))}, command.words().size() == 1});
  if (name == "evaluate") {
    return FromChief(
        EvalGrant{role_.incarnation(), command.Number("round"), command.Number("first"), command.Number("batches")});
  }
  if (name == "epilogue") return FromChief(EpilogueGrant{role_.incarnation(), command.Number("attempt"), "[]"});
  if (name == "record") {
    SliceState state;
    state.slice = SliceId{static_cast<uint32_t>(command.Number("holds", std::stoull(word(0))))};
    state.values = Payload::Zeros(command.Number("bytes"));
    RestoreSlice record;
    record.to = role_.incarnation();
    record.slice = SliceId{static_cast<uint32_t>(std::stoul(word(0)))};
    record.blocks = EncodeRecord(state);
    record.round = {1, static_cast<uint32_t>(command.Number("round", 1))};
    return FromChief(std::move(record));
  }
  if (name == "code") {
    const uint64_t block = std::stoull(word(0));
    const size_t bytes = command.Number("bytes", block == 0 ? kCodeBlockBytes : 5);
    Payload content = Payload::Zeros(bytes);
    if (command.Has("spoilt")) content.mutable_data()[0] = std::byte{1};
    return FromChief(CodeBlock{Incarnation{command.Number("to", ToNumber(role_.incarnation()))},
                               command.Text("of", Sha256Of({TinyCode()})), block, content});
  }
  if (name == "evaluated") return FromChief(EvalDoneReply{command.Number("round"), command.Number("first")});
  if (name == "unknown") {
    return FromChief(
        Refused{RefusalCode::kUnknown, false, "no heartbeat", role_.incarnation(), run_.value_or(role_.run())});
  }
  CHECK_EQ(name, "welcome") << "no such command";
  return FromChief(WelcomeAs(command, run_.value_or(role_.run()), join_));
}

Placement WorkerStage::PlacementOf(const Command& command) {
  Placement placement{Incarnation{command.Number("to", ToNumber(role_.incarnation()))},
                      command.Number("number"),
                      static_cast<uint32_t>(command.Number("term", 1)),
                      command.Number("examples", kTinyExamples),
                      {},
                      {}};
  for (const std::string& word : command.words()) {
    const SlicePlace place = ParsePlace(word);
    const Incarnation incarnation = IncarnationOf(place.rest);
    const auto at = std::find_if(placement.servers.begin(), placement.servers.end(),
                                 [&](const Placement::Server& s) { return s.incarnation == incarnation; });
    const auto server = static_cast<uint32_t>(at - placement.servers.begin());
    if (at == placement.servers.end()) placement.servers.push_back({incarnation, place.rest, place.rest});
    placement.slices.push_back({place.slice, place.epoch, server});
  }
  return placement;
}

// The first word names the ps, by its newest connection.
std::vector<std::string> WorkerStage::FromPs(const Command& command) {
  const std::string& server = command.words().at(0);
  constexpr uint64_t kWindow = 1 << 20;
  PushReply answer{IncarnationOf(server), LeaseId{command.Number("lease")}, {}, kWindow};
  PullReply values{IncarnationOf(server), command.Number("request"), {}, kWindow};
  const auto consumed = static_cast<Step>(command.Number("consumed"));
  for (size_t i = 1; i < command.words().size(); ++i) {
    if (command.words()[i] == "refused") continue;
    const auto [slice, epoch, version] = ParsePlace(command.words()[i]);
    const bool refused = command.name() == "refuse" || command.words().back() == "refused";
    const SliceRefusal refusal = refused ? ParseRefusal(command.Text("because", "not-here")) : SliceRefusal::kNone;
    answer.slices.push_back({slice, epoch, refusal, refused ? 0 : consumed,
                             refused ? 0 : static_cast<Step>(command.Number("acked", consumed)),
                             command.Number("staleness")});
    values.slices.push_back(
        {slice, refusal, {epoch, version.empty() ? 0 : std::stoull(version)}, refused ? Payload() : Zeros(slice)});
  }
  return Give(Received{NewestLinkTo(server), command.name() == "values" ? Message(values) : Message(answer),
                       run_.value_or(role_.run())});
}

std::vector<std::string> WorkerStage::Computed(const Command& command) {
  const bool late = command.Has("late");
  if (late ? !before_ : !computing_) return {"the device has nothing to do"};
  const Compute compute = late ? *before_ : *computing_;
  if (command.Has("part")) {  // one slice's gradient, before the others
    const SliceId slice{static_cast<uint32_t>(command.Number("part"))};
    return Give(ComputeDone{compute.ticket, absl::OkStatus(), Gradients{{{slice, Zeros(slice)}}, false, 0, 0}});
  }
  if (command.Has("preparing")) {
    return Give(ComputeDone{compute.ticket, absl::OkStatus(), Preparing{"installs packages", "its packages"}});
  }
  (late ? before_ : computing_).reset();
  if (command.Has("error")) return Give(ComputeDone{compute.ticket, absl::InternalError(command.Text("error")), {}});
  if (command.Has("killed")) return Give(ComputeDone{compute.ticket, absl::CancelledError(command.Text("killed")), {}});
  if (command.Has("raised")) return Give(ComputeDone{compute.ticket, absl::AbortedError(command.Text("raised")), {}});
  if (command.Has("needs-code"))
    return Give(ComputeDone{compute.ticket, absl::OkStatus(), Prepared{.needs_code = true}});
  if (std::holds_alternative<Prepare>(compute.request)) {
    return Give(
        ComputeDone{compute.ticket, absl::OkStatus(), Prepared{command.Number("examples", kTinyExamples), 4, 99}});
  }
  if (std::holds_alternative<EpilogueStep>(compute.request)) {
    return Give(ComputeDone{compute.ticket, absl::OkStatus(), EpilogueEnded{command.Text("failed")}});
  }
  if (std::holds_alternative<EvalStep>(compute.request)) {
    return Give(ComputeDone{compute.ticket, absl::OkStatus(), Evaluated{1, 1, 2}});
  }
  Gradients gradients{{}, true, 1, 1};
  gradients.reading = std::chrono::milliseconds(command.Number("reading"));
  for (const Slice& slice : TinyGrid().slices) {
    if (command.Text("missing") != absl::StrCat(ToNumber(slice.id)))
      gradients.slices.emplace_back(slice.id, Zeros(slice.id));
  }
  return Give(ComputeDone{compute.ticket, absl::OkStatus(), gradients});
}

std::string WorkerStage::Stats() const {
  const TaskStats& stats = role_.stats();
  return absl::StrCat("steps=", stats.steps, " acknowledged=", stats.pushes_acknowledged,
                      " rejected=", stats.messages_rejected, " staleness: pushes=", stats.staleness.pushes,
                      " sum=", stats.staleness.sum, " unknown=", stats.staleness.unknown,
                      stats.waiting_for.empty() ? "" : absl::StrCat(" waiting for ", stats.waiting_for));
}

}  // namespace downpour
