#include "tests/scenario/wording.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

std::string Place(SliceId slice, SliceEpoch epoch) { return absl::StrCat(ToNumber(slice), "@", ToString(epoch)); }
std::string Word(Version version) { return absl::StrCat(ToString(version.epoch), "v", version.n); }

std::string Places(const auto& items) {
  std::string text;
  for (const auto& item : items) absl::StrAppend(&text, " ", Place(item.slice, item.epoch));
  return text;
}

const char* Word(SliceRefusal refusal) {
  switch (refusal) {
    case SliceRefusal::kNone:
      return "none";
    case SliceRefusal::kNotHere:
      return "not-here";
    case SliceRefusal::kOtherEpoch:
      return "other-epoch";
    case SliceRefusal::kWrongShape:
      return "wrong-shape";
    case SliceRefusal::kTooStale:
      return "too-stale";
    case SliceRefusal::kTooEarly:
      return "too-early";
  }
  return "?";
}

struct MessageWords {
  std::string operator()(const SliceReport& m) const {
    std::string text;
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", Place(item.slice, item.epoch), " finished=", downpour::Word(item.finished),
                      item.error.empty() ? "" : " error");
    }
    return text;
  }
  std::string operator()(const WorkRequest& m) const {
    std::string text = " holding={";
    for (const LeaseId lease : m.holding) absl::StrAppend(&text, ToNumber(lease), ";");
    return absl::StrCat(text, "} wanted=", m.wanted);
  }
  std::string operator()(const DataReport& m) const {
    return absl::StrCat(" examples=", m.train_examples, " ", m.error);
  }
  std::string operator()(const CodeRequest& m) const { return absl::StrCat(" block=", m.block); }
  std::string operator()(const RecordRequest& m) const {
    return absl::StrCat(" attempt=", m.attempt, " slice=", ToNumber(m.slice));
  }
  std::string operator()(const EpilogueDone& m) const {
    return absl::StrCat(" attempt=", m.attempt, m.error.empty() ? "" : " error=", m.error);
  }
  std::string operator()(const LeaseDone& m) const {
    return absl::StrCat(" lease=", ToNumber(m.lease), Places(m.evidence), " examples=", m.examples);
  }
  std::string operator()(const EvalDone& m) const {
    return absl::StrCat(" round=", m.round, " batches=", m.first_batch, "+", m.batches, " versions=", m.oldest_version,
                        "..", m.newest_version);
  }
  std::string operator()(const Violation& m) const { return absl::StrCat(" by=", ToNumber(m.by), " ", m.what); }
  std::string operator()(const Leave& m) const {
    return absl::StrCat(" ", m.why, m.code_failed ? absl::StrCat(" (the code, in lease ", ToNumber(m.lease), ")") : "");
  }
  std::string operator()(const Push& m) const {
    std::string text = absl::StrCat(" lease=", ToNumber(m.lease), " step=", m.step);
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", Place(item.slice, item.epoch), item.gradient.empty() ? " empty" : "", " from ",
                      Word(item.computed_from));
    }
    return text;
  }
  std::string operator()(const PushReply& m) const {
    std::string text = absl::StrCat(" lease=", ToNumber(m.lease));
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", Place(item.slice, item.epoch));
      if (item.refusal == SliceRefusal::kNone) {
        absl::StrAppend(&text, " consumed=", item.consumed, " acked=", item.acked);
      } else {
        absl::StrAppend(&text, " refused=", Word(item.refusal));
      }
    }
    return text;
  }
  std::string operator()(const Probe& m) const { return absl::StrCat(" lease=", ToNumber(m.lease), Places(m.slices)); }
  std::string operator()(const Pull& m) const {
    std::string text = absl::StrCat(" request=", m.request);
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", Place(item.slice, item.epoch), " have ", Word(item.have));
    }
    return text;
  }
  std::string operator()(const PullReply& m) const {
    std::string text = absl::StrCat(" request=", m.request);
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", ToNumber(item.slice), " ");
      absl::StrAppend(&text, item.refusal == SliceRefusal::kNone ? Word(item.version) : Word(item.refusal),
                      item.values.empty() ? "" : " with values");
    }
    return text;
  }
  std::string operator()(const SliceRecord& m) const {
    return absl::StrCat(" round=", ToString(m.round), " ", Place(m.slice, m.epoch),
                        " finished=", downpour::Word(m.finished));
  }
  std::string operator()(const auto&) const { return ""; }
};

std::string Loads(const SliceValues& updates) {
  std::string text = " loads";
  for (const auto& [slice, values] : updates) absl::StrAppend(&text, " ", ToNumber(slice));
  return updates.empty() ? "" : text;
}

// The lease's next step goes without saying.
std::string Next(const TrainStep& step) {
  const std::string behind = step.lease_behind ? absl::StrCat(" before lease ", ToNumber(*step.lease_behind)) : "";
  if (!step.next) return " then nothing" + behind;
  const auto& [lease, number] = *step.next;
  const bool goes_on = lease == step.lease && number == step.step + 1;
  return (goes_on ? "" : absl::StrCat(" then ", ToNumber(lease), "/", number)) + behind;
}

struct EffectWords {
  const PeerNames& names;

  std::string operator()(const Send& e) const {
    const bool routine = std::holds_alternative<Join>(e.message) || std::holds_alternative<Heartbeat>(e.message) ||
                         std::holds_alternative<OpenBulk>(e.message);
    if (routine) return "";
    return absl::StrCat("to ", names(e.to), ": ", NameOf(e.message), std::visit(MessageWords(), e.message));
  }
  std::string operator()(const Dial& e) const { return absl::StrCat("dial ", e.endpoint); }
  std::string operator()(const HangUp& e) const { return absl::StrCat("hang up ", names(e.peer)); }
  std::string operator()(const StorageOp& e) const { return absl::StrCat("storage ", e.path); }
  std::string operator()(const Compute& e) const {
    if (const auto* step = std::get_if<TrainStep>(&e.request)) {
      return absl::StrCat("device: lease=", ToNumber(step->lease), " step=", step->step, Loads(step->updates),
                          Next(*step));
    }
    if (const auto* step = std::get_if<EvalStep>(&e.request)) {
      return absl::StrCat("device: evaluate ", step->first_batch, "+", step->batches, Loads(step->updates));
    }
    if (const auto* rest = std::get_if<EpilogueStep>(&e.request)) {
      return absl::StrCat("device: the rest of the program", Loads(rest->values));
    }
    const std::vector<Payload>& code = std::get<Prepare>(e.request).code;
    size_t bytes = 0;
    for (const Payload& block : code) bytes += block.size();
    return code.empty() ? "device: prepare" : absl::StrCat("device: prepare with ", bytes, " bytes of code");
  }
  std::string operator()(const PrefetchParameters&) const { return ""; }  // says no more than the answer to the pull
  std::string operator()(const Wake& e) const { return absl::StrCat("wake in ", e.in / 1ms, "ms"); }
  std::string operator()(const Log& e) const { return absl::StrCat("log ", e.text); }
  std::string operator()(const TraceRecord& e) const {
    return absl::StrCat("trace ", NameOf(e.kind), " lease=", LeaseField(e), " step=", e.step, " ",
                        Place(e.slice, e.epoch), " v", e.count);
  }
  std::string operator()(const Exit& e) const { return absl::StrCat("exit ", e.code, ": ", e.why); }
};

}  // namespace

std::string Word(const IntervalSet& set) {
  std::string text = "{";
  for (const auto [begin, end] : set.Intervals()) {
    absl::StrAppend(&text, begin, end == begin + 1 ? "" : absl::StrCat("-", end - 1), ";");
  }
  return text + "}";
}

std::string Word(const Effect& effect, const PeerNames& names) { return std::visit(EffectWords{names}, effect); }

}  // namespace downpour
