#include "tests/sim/describe.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

std::string Of(const Payload& payload) {
  return payload.empty() ? "-" : absl::StrCat(payload.size(), "B#", absl::Hex(Crc32c(payload.bytes())));
}

std::string Of(Version version) { return absl::StrCat(ToString(version.epoch), "v", version.n); }

std::string Of(const IntervalSet& set) {
  std::string text = "{";
  for (const IntervalSet::Interval& run : set.Intervals()) absl::StrAppend(&text, run.begin, "-", run.end - 1, ",");
  return text + "}";
}

// The fields that tell one message of a kind from another; the rest by name alone.
struct Fields {
  std::string operator()(const Join& m) const {
    return absl::StrCat(" index=", m.index, " attempt=", m.attempt, " nonce=", absl::Hex(m.nonce));
  }
  std::string operator()(const Welcome& m) const {
    return absl::StrCat(" you=", ToNumber(m.you), " name=", m.name, " term=", m.term);
  }
  std::string operator()(const Refused& m) const {
    return absl::StrCat(" code=", static_cast<int>(m.code), " for_good=", m.for_good, " why=", m.why);
  }
  std::string operator()(const Heartbeat& m) const {
    return absl::StrCat(" from=", ToNumber(m.from), " placement=", m.placement, m.leaving.empty() ? "" : " leaving");
  }
  std::string operator()(const JobEnd& m) const {
    return absl::StrCat(" succeeded=", m.succeeded, " cancelled=", m.cancelled, " why=", m.why);
  }
  std::string operator()(const Leave& m) const { return absl::StrCat(" from=", ToNumber(m.from), " why=", m.why); }
  std::string operator()(const Assign& m) const {
    std::string text = absl::StrCat(" to=", ToNumber(m.to));
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", ToNumber(item.slice), "@", ToString(item.epoch), "/", static_cast<int>(item.source));
    }
    return text;
  }
  std::string operator()(const RestoreSlice& m) const {
    return absl::StrCat(" slice=", ToNumber(m.slice), "@", ToString(m.epoch), " round=", ToString(m.round));
  }
  std::string operator()(const SliceReport& m) const {
    std::string text;
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", ToNumber(item.slice), "@", ToString(item.epoch), Of(item.finished), item.error);
    }
    return text;
  }
  std::string operator()(const Placement& m) const {
    return absl::StrCat(" to=", ToNumber(m.to), " number=", m.number, " term=", m.term, " servers=", m.servers.size());
  }
  std::string operator()(const WorkRequest& m) const {
    std::string text = absl::StrCat(" from=", ToNumber(m.from), " wanted=", m.wanted, " holding=");
    for (LeaseId lease : m.holding) absl::StrAppend(&text, ToNumber(lease), ",");
    return text;
  }
  std::string operator()(const Grant& m) const {
    return absl::StrCat(" to=", ToNumber(m.to), " lease=", ToNumber(m.lease));
  }
  std::string operator()(const EvalGrant& m) const {
    return absl::StrCat(" to=", ToNumber(m.to), " round=", m.round, " batches=", m.first_batch, "+", m.batches);
  }
  std::string operator()(const EvalDone& m) const {
    return absl::StrCat(" round=", m.round, " batches=", m.first_batch, "+", m.batches,
                        " digest=", absl::Hex(m.versions_digest));
  }
  std::string operator()(const LeaseDone& m) const {
    return absl::StrCat(" from=", ToNumber(m.from), " lease=", ToNumber(m.lease));
  }
  std::string operator()(const LeaseDoneReply& m) const {
    return absl::StrCat(" lease=", ToNumber(m.lease), " committed=", m.committed);
  }
  std::string operator()(const Push& m) const {
    std::string text = absl::StrCat(" lease=", ToNumber(m.lease), " step=", m.step);
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", ToNumber(item.slice), "@", ToString(item.epoch), " from ", Of(item.computed_from),
                      "=", Of(item.gradient));
    }
    return text;
  }
  std::string operator()(const PushReply& m) const {
    std::string text = absl::StrCat(" lease=", ToNumber(m.lease), " window=", m.window);
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", ToNumber(item.slice), "@", ToString(item.epoch), " consumed=", item.consumed,
                      " acked=", item.acked);
      if (item.refusal != SliceRefusal::kNone) absl::StrAppend(&text, " refused ", static_cast<int>(item.refusal));
    }
    return text;
  }
  std::string operator()(const Probe& m) const {
    std::string text = absl::StrCat(" lease=", ToNumber(m.lease));
    for (const auto& item : m.slices) absl::StrAppend(&text, " ", ToNumber(item.slice), "@", ToString(item.epoch));
    return text;
  }
  std::string operator()(const Pull& m) const {
    std::string text = absl::StrCat(" request=", m.request);
    for (const auto& item : m.slices) absl::StrAppend(&text, " ", ToNumber(item.slice), " have ", Of(item.have));
    return text;
  }
  std::string operator()(const PullReply& m) const {
    std::string text = absl::StrCat(" request=", m.request);
    for (const auto& item : m.slices) {
      absl::StrAppend(&text, " ", ToNumber(item.slice), " ", Of(item.version), "=", Of(item.values));
      if (item.refusal != SliceRefusal::kNone) absl::StrAppend(&text, " refused ", static_cast<int>(item.refusal));
    }
    return text;
  }
  std::string operator()(const SnapshotRequest& m) const {
    std::string text = absl::StrCat(" round=", ToString(m.round), m.urgent ? " urgent" : "");
    for (const auto& item : m.slices) absl::StrAppend(&text, " ", ToNumber(item.slice), "@", ToString(item.epoch));
    return text;
  }
  std::string operator()(const SliceRecord& m) const {
    return absl::StrCat(" round=", ToString(m.round), " slice=", ToNumber(m.slice), "@", ToString(m.epoch),
                        Of(m.finished));
  }
  std::string operator()(const WriteShard& m) const {
    return absl::StrCat(" round=", ToString(m.round), m.urgent ? " urgent " : " ", m.file);
  }
  std::string operator()(const ShardWritten& m) const {
    return absl::StrCat(" round=", ToString(m.round), " bytes=", m.bytes, " ", m.error);
  }
  std::string operator()(const auto&) const { return ""; }
};

const char* NameOf(StorageOp::Kind kind) {
  static constexpr const char* kNames[] = {"mkdir",  "write",  "append", "sync", "syncdir",
                                           "rename", "remove", "read",   "list"};
  return kNames[static_cast<size_t>(kind)];
}

struct InputText {
  std::string operator()(const Started& i) const { return absl::StrCat("Started ", i.endpoint); }
  std::string operator()(const Tick&) const { return "Tick"; }
  std::string operator()(const Received& i) const {
    return absl::StrCat("<- ", Describe(i.message), " from ", static_cast<uint64_t>(i.from) & 0xffffffff, " in run ",
                        i.run);
  }
  std::string operator()(const Malformed& i) const { return absl::StrCat("Malformed ", i.why); }
  std::string operator()(const Reconnected& i) const {
    return absl::StrCat("Reconnected ", static_cast<uint64_t>(i.peer));
  }
  std::string operator()(const Warned& i) const { return absl::StrCat("Warned ", i.text); }
  std::string operator()(const StorageDone& i) const {
    return absl::StrCat("StorageDone ", static_cast<uint64_t>(i.ticket), " ", std::string(i.status.ToString()));
  }
  std::string operator()(const ComputeDone& i) const {
    return absl::StrCat("ComputeDone ", static_cast<uint64_t>(i.ticket));
  }
  std::string operator()(const ResourceSample&) const { return "ResourceSample"; }
  std::string operator()(const StopRequested& i) const { return absl::StrCat("StopRequested ", i.signal); }
};

struct EffectText {
  std::string operator()(const Dial& e) const {
    return absl::StrCat("Dial ", static_cast<uint64_t>(e.peer), " ", e.endpoint);
  }
  std::string operator()(const HangUp& e) const { return absl::StrCat("HangUp ", static_cast<uint64_t>(e.peer)); }
  std::string operator()(const Send& e) const {
    return absl::StrCat("-> ", Describe(e.message), " to ", static_cast<uint64_t>(e.to) & 0xffffffff);
  }
  std::string operator()(const StorageOp& e) const {
    return absl::StrCat("Storage ", static_cast<uint64_t>(e.ticket), " ", NameOf(e.kind), " ", e.path, " ", e.target);
  }
  std::string operator()(const Compute& e) const {
    std::string text = absl::StrCat("Compute ", static_cast<uint64_t>(e.ticket), " kind ", e.request.index());
    if (const auto* step = std::get_if<TrainStep>(&e.request)) {
      absl::StrAppend(&text, " lease=", ToNumber(step->lease), " step=", step->step);
      if (step->next) absl::StrAppend(&text, " then ", ToNumber(step->next->first), "/", step->next->second);
    }
    return text;
  }
  std::string operator()(const PrefetchParameters& e) const {
    return absl::StrCat("PrefetchParameters ", e.values.size());
  }
  std::string operator()(const Wake& e) const { return absl::StrCat("Wake in ", e.in.count(), " ns"); }
  std::string operator()(const Log& e) const { return absl::StrCat("log: ", e.text); }
  std::string operator()(const TraceRecord& e) const {
    return absl::StrCat("trace: ", NameOf(e.kind), " lease=", LeaseField(e), " step=", e.step,
                        " slice=", ToNumber(e.slice), "@", ToString(e.epoch), " count=", e.count);
  }
  std::string operator()(const Exit& e) const { return absl::StrCat("Exit ", e.code, " ", e.why); }
};

}  // namespace

std::string Describe(const Message& message) { return absl::StrCat(NameOf(message), std::visit(Fields(), message)); }
std::string Describe(const Input& input) { return std::visit(InputText(), input); }
std::string Describe(const Effect& effect) { return std::visit(EffectText(), effect); }

}  // namespace downpour
