// Membership, and the questions of the command-line tool.
#include "schema/codec_parts.h"

namespace downpour {

flatbuffers::Offset<wire::Join> Write(const Join& m, Writer& out) {
  const auto role = static_cast<wire::TaskRole>(m.role);
  return wire::CreateJoin(out.fbb, m.protocol, m.oldest_protocol, role, m.index, out.Text(m.host), m.pid,
                          out.Text(m.endpoint), out.Text(m.launcher), m.attempt, m.nonce, out.Text(m.device), m.run,
                          ToNumber(m.was), m.number);
}

Join Read(const wire::Join& t, Reader& in) {
  if (t.index() < -1) in.Fail("index", "is negative");
  return {.protocol = t.protocol(),
          .oldest_protocol = t.oldest_protocol(),
          .role = in.Known<TaskRole>(t.role(), "role"),
          .index = t.index(),
          .host = in.Text(t.host(), "host"),
          .pid = t.pid(),
          .endpoint = in.Text(t.endpoint(), "endpoint"),
          .launcher = in.Text(t.launcher(), "launcher"),
          .attempt = t.attempt(),
          .nonce = t.nonce(),
          .device = in.Text(t.device(), "device"),
          .run = t.run(),
          .was = Incarnation{t.was()},
          .number = t.number()};
}

flatbuffers::Offset<wire::Welcome> Write(const Welcome& m, Writer& out) {
  return wire::CreateWelcome(out.fbb, ToNumber(m.you), m.term, out.Text(m.name), out.Text(m.job, kMaxTextBytes), m.run,
                             m.nonce, m.number);
}

Welcome Read(const wire::Welcome& t, Reader& in) {
  return {.you = Incarnation{t.you()},
          .term = t.term(),
          .name = in.Text(t.name(), "name"),
          .job = in.Text(t.job(), "job", kMaxTextBytes),
          .run = t.run(),
          .nonce = t.nonce(),
          .number = t.number()};
}

flatbuffers::Offset<wire::Refused> Write(const Refused& m, Writer& out) {
  return wire::CreateRefused(out.fbb, static_cast<wire::RefusalCode>(m.code), m.for_good, out.Text(m.why),
                             ToNumber(m.member), m.run, m.number);
}

Refused Read(const wire::Refused& t, Reader& in) {
  return {.code = in.Known<RefusalCode>(t.code(), "code"),
          .for_good = t.for_good(),
          .why = in.Text(t.why(), "why"),
          .member = Incarnation{t.member()},
          .run = t.run(),
          .number = t.number()};
}

namespace {

flatbuffers::Offset<wire::Gpu> WriteGpu(const GpuStats& g, Writer& out) {
  return wire::CreateGpu(out.fbb, out.Text(g.address), out.Text(g.name), g.utilisation, g.celsius, g.memory_used,
                         g.memory_total);
}

flatbuffers::Offset<wire::TaskStats> WriteStats(const TaskStats& s, Writer& out) {
  const Staleness& d = s.staleness;
  const auto staleness = wire::CreateStaleness(out.fbb, d.pushes, d.unknown, d.sum, d.max, out.Vector(d.histogram));
  return wire::CreateTaskStats(out.fbb, s.steps, s.examples, s.pushes_acknowledged, s.pushes_resent, s.pushes_duplicate,
                               s.pushes_refused, s.pushes_skipped, s.messages_rejected, s.handshakes_refused,
                               out.Text(s.refused_from), s.cpu_seconds, s.resident_bytes, s.bytes_in, s.bytes_out,
                               staleness, out.Text(s.waiting_for), WriteGpu(s.gpu, out), out.Text(s.warning),
                               s.warned_ms_ago, s.pushes_dropped, s.table_rows, s.table_bytes, s.keys_unborn);
}

GpuStats ReadGpu(const wire::Gpu& t, Reader& in) {
  return {.address = in.Text(t.address(), "address"),
          .name = in.Text(t.name(), "name"),
          .utilisation = t.utilisation(),
          .celsius = t.celsius(),
          .memory_used = t.memory_used(),
          .memory_total = t.memory_total()};
}

Staleness ReadStaleness(const wire::Staleness& t, Reader& in) {
  const auto histogram = in.Items(t.histogram(), "histogram");
  return {.pushes = t.pushes(),
          .unknown = t.unknown(),
          .sum = t.sum(),
          .max = t.max(),
          .histogram = {histogram.begin(), histogram.end()}};
}

TaskStats ReadStats(const wire::TaskStats& t, Reader& in) {
  return {.steps = t.steps(),
          .examples = t.examples(),
          .pushes_acknowledged = t.pushes_acknowledged(),
          .pushes_resent = t.pushes_resent(),
          .pushes_duplicate = t.pushes_duplicate(),
          .pushes_refused = t.pushes_refused(),
          .pushes_skipped = t.pushes_skipped(),
          .messages_rejected = t.messages_rejected(),
          .handshakes_refused = t.handshakes_refused(),
          .refused_from = in.Text(t.refused_from(), "refused_from"),
          .cpu_seconds = in.Finite(t.cpu_seconds(), "cpu_seconds"),
          .resident_bytes = t.resident_bytes(),
          .bytes_in = t.bytes_in(),
          .bytes_out = t.bytes_out(),
          .staleness = t.staleness() == nullptr ? Staleness{} : ReadStaleness(*t.staleness(), in),
          .waiting_for = in.Text(t.waiting_for(), "waiting_for"),
          .gpu = t.gpu() == nullptr ? GpuStats{} : ReadGpu(*t.gpu(), in),
          .warning = in.Text(t.warning(), "warning"),
          .warned_ms_ago = t.warned_ms_ago(),
          .pushes_dropped = t.pushes_dropped(),
          .table_rows = t.table_rows(),
          .table_bytes = t.table_bytes(),
          .keys_unborn = t.keys_unborn()};
}

}  // namespace

flatbuffers::Offset<wire::Heartbeat> Write(const Heartbeat& m, Writer& out) {
  return wire::CreateHeartbeat(out.fbb, ToNumber(m.from), m.placement, WriteStats(m.stats, out), m.log_from,
                               out.Texts(m.log_lines), out.Text(m.leaving));
}

Heartbeat Read(const wire::Heartbeat& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .placement = t.placement(),
          .stats = t.stats() == nullptr ? TaskStats{} : ReadStats(*t.stats(), in),
          .log_from = t.log_from(),
          .log_lines = in.Texts(t.log_lines(), "log_lines"),
          .leaving = in.Text(t.leaving(), "leaving")};
}

flatbuffers::Offset<wire::HeartbeatReply> Write(const HeartbeatReply& m, Writer& out) {
  return wire::CreateHeartbeatReply(out.fbb, m.log_kept, m.may_leave, m.retired, ToNumber(m.to));
}

HeartbeatReply Read(const wire::HeartbeatReply& t, Reader&) {
  return {.log_kept = t.log_kept(), .may_leave = t.may_leave(), .retired = t.retired(), .to = Incarnation{t.to()}};
}

flatbuffers::Offset<wire::OpenBulk> Write(const OpenBulk& m, Writer& out) {
  return wire::CreateOpenBulk(out.fbb, ToNumber(m.from));
}

OpenBulk Read(const wire::OpenBulk& t, Reader&) { return {.from = Incarnation{t.from()}}; }

flatbuffers::Offset<wire::Leave> Write(const Leave& m, Writer& out) {
  return wire::CreateLeave(out.fbb, ToNumber(m.from), out.Text(m.why), m.code_failed, ToNumber(m.lease), m.code_ended);
}

Leave Read(const wire::Leave& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .why = in.Text(t.why(), "why"),
          .code_failed = t.code_failed(),
          .lease = LeaseId{t.lease()},
          .code_ended = t.code_ended()};
}

flatbuffers::Offset<wire::JobEnd> Write(const JobEnd& m, Writer& out) {
  return wire::CreateJobEnd(out.fbb, m.succeeded, out.Text(m.why), m.cancelled);
}

JobEnd Read(const wire::JobEnd& t, Reader& in) {
  return {.succeeded = t.succeeded(), .why = in.Text(t.why(), "why"), .cancelled = t.cancelled()};
}

flatbuffers::Offset<wire::ShareMemory> Write(const ShareMemory& m, Writer& out) {
  return wire::CreateShareMemory(out.fbb, out.Text(m.boot));
}

ShareMemory Read(const wire::ShareMemory& t, Reader& in) { return {.boot = in.Text(t.boot(), "boot")}; }

flatbuffers::Offset<wire::MemoryDoor> Write(const MemoryDoor& m, Writer& out) {
  return wire::CreateMemoryDoor(out.fbb, out.Text(m.address), out.Text(m.ticket), out.Text(m.proof));
}

MemoryDoor Read(const wire::MemoryDoor& t, Reader& in) {
  return {.address = in.Text(t.address(), "address"),
          .ticket = in.Text(t.ticket(), "ticket"),
          .proof = in.Text(t.proof(), "proof")};
}

flatbuffers::Offset<wire::StatusRequest> Write(const StatusRequest& m, Writer& out) {
  return wire::CreateStatusRequest(out.fbb, m.protocol, m.again_in_ms, m.knows_end, out.Text(m.secret));
}

StatusRequest Read(const wire::StatusRequest& t, Reader& in) {
  return {.protocol = t.protocol(),
          .again_in_ms = t.again_in_ms(),
          .knows_end = t.knows_end(),
          .secret = in.Text(t.secret(), "secret")};
}

flatbuffers::Offset<wire::StatusReply> Write(const StatusReply& m, Writer& out) {
  return wire::CreateStatusReply(out.fbb, out.Text(m.json, kMaxStatusBytes));
}

StatusReply Read(const wire::StatusReply& t, Reader& in) {
  return {.json = in.Text(t.json(), "json", kMaxStatusBytes)};
}

flatbuffers::Offset<wire::Control> Write(const Control& m, Writer& out) {
  const auto kind = static_cast<wire::ControlKind>(m.kind);
  return wire::CreateControl(out.fbb, m.term, m.number, m.nonce, kind, m.workers, out.Text(m.secret));
}

Control Read(const wire::Control& t, Reader& in) {
  return {.term = t.term(),
          .number = t.number(),
          .nonce = t.nonce(),
          .kind = in.Known<ControlKind>(t.kind(), "kind"),
          .workers = t.workers(),
          .secret = in.Text(t.secret(), "secret")};
}

flatbuffers::Offset<wire::ControlReply> Write(const ControlReply& m, Writer& out) {
  const auto verdict = static_cast<wire::ControlVerdict>(m.verdict);
  return wire::CreateControlReply(out.fbb, m.nonce, verdict, out.Text(m.why));
}

ControlReply Read(const wire::ControlReply& t, Reader& in) {
  return {
      .nonce = t.nonce(), .verdict = in.Known<ControlVerdict>(t.verdict(), "verdict"), .why = in.Text(t.why(), "why")};
}

}  // namespace downpour
