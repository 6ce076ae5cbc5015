// Placement and work: what chief and members say about slices and leases.
#include "schema/codec_parts.h"

namespace downpour {

flatbuffers::Offset<wire::Assign> Write(const Assign& m, Writer& out) {
  const auto slices = out.Structs(m.slices, [](const Assign::Item& i) {
    return wire::AssignItem(ToNumber(i.slice), ToWire(i.epoch), static_cast<wire::SliceSource>(i.source));
  });
  return wire::CreateAssign(out.fbb, ToNumber(m.to), m.train_examples, slices);
}

Assign Read(const wire::Assign& t, Reader& in) {
  return {.to = Incarnation{t.to()},
          .train_examples = t.train_examples(),
          .slices = in.Map(t.slices(), "slices", [&in](const wire::AssignItem& i) {
            return Assign::Item{SliceId{i.slice()}, FromWire(i.epoch()), in.Known<SliceSource>(i.source(), "source")};
          })};
}

flatbuffers::Offset<wire::RestoreSlice> Write(const RestoreSlice& m, Writer& out) {
  return wire::CreateRestoreSlice(out.fbb, ToNumber(m.to), ToNumber(m.slice), Address(ToWire(m.epoch)),
                                  out.Frames(m.blocks, kMaxRecordBytes), Address(ToWire(m.round)), m.piece, m.more);
}

RestoreSlice Read(const wire::RestoreSlice& t, Reader& in) {
  return {.to = Incarnation{t.to()},
          .slice = SliceId{t.slice()},
          .epoch = FromWire(t.epoch()),
          .blocks = in.Frames(t.block_bytes(), kMaxRecordBytes),
          .round = FromWire(t.round()),
          .piece = t.piece(),
          .more = t.more()};
}

flatbuffers::Offset<wire::SliceReport> Write(const SliceReport& m, Writer& out) {
  std::vector<wire::Interval> finished;
  std::vector<std::string> errors;
  const auto slices = out.Structs(m.slices, [&](const SliceReport::Item& i) {
    const auto intervals = i.finished.Intervals();
    for (const auto& interval : intervals) finished.push_back(ToWire(interval));
    if (!i.error.empty()) errors.push_back(i.error);
    return wire::ReportItem(ToNumber(i.slice), ToWire(i.epoch), static_cast<uint32_t>(intervals.size()),
                            !i.error.empty());
  });
  const auto pieces = out.NumbersBeside(m.slices, [](const SliceReport::Item& i) { return i.pieces; });
  return wire::CreateSliceReport(out.fbb, ToNumber(m.from), slices, out.Vector(finished), out.Texts(errors), pieces);
}

SliceReport Read(const wire::SliceReport& t, Reader& in) {
  auto finished = in.Items(t.finished(), "finished");
  const std::vector<std::string> error_texts = in.Texts(t.errors(), "errors");
  absl::Span<const std::string> errors = error_texts;
  auto pieces = in.Items(t.pieces(), "pieces");
  const bool any = !pieces.empty();
  SliceReport m;
  m.from = Incarnation{t.from()};
  m.slices = in.Map(t.slices(), "slices", [&](const wire::ReportItem& i) {
    SliceReport::Item item;
    item.slice = SliceId{i.slice()};
    item.epoch = FromWire(i.epoch());
    for (const std::string& error : in.Take(errors, i.failed() ? 1 : 0, "errors")) item.error = error;
    item.finished = in.Intervals(in.Take(finished, i.intervals(), "finished"));
    item.pieces = in.TakeNumber(pieces, "pieces", any);
    return item;
  });
  in.ExpectEmpty(finished, "finished");
  in.ExpectEmpty(errors, "errors");
  in.ExpectEmpty(pieces, "pieces");
  return m;
}

flatbuffers::Offset<wire::Placement> Write(const Placement& m, Writer& out) {
  std::vector<uint64_t> servers;
  std::vector<std::string> names;
  std::vector<std::string> endpoints;
  for (const Placement::Server& server : m.servers) {
    servers.push_back(ToNumber(server.incarnation));
    names.push_back(server.name);
    endpoints.push_back(server.endpoint);
  }
  const auto slices = out.Structs(m.slices, [](const Placement::Item& i) {
    return wire::PlacedSlice(ToNumber(i.slice), ToWire(i.epoch), i.server);
  });
  return wire::CreatePlacement(out.fbb, ToNumber(m.to), m.number, m.term, m.train_examples, out.Vector(servers),
                               out.Texts(names), out.Texts(endpoints), slices, out.Text(m.job, kMaxTextBytes));
}

Placement Read(const wire::Placement& t, Reader& in) {
  Placement m;
  m.to = Incarnation{t.to()};
  m.number = t.number();
  m.term = t.term();
  m.train_examples = t.train_examples();
  const auto servers = in.Items(t.servers(), "servers");
  std::vector<std::string> names = in.Texts(t.server_names(), "server_names");
  std::vector<std::string> endpoints = in.Texts(t.server_endpoints(), "server_endpoints");
  if (names.size() != servers.size() || endpoints.size() != servers.size()) {
    in.Fail("servers", "do not have one name and one endpoint each");
    return m;
  }
  for (size_t i = 0; i < servers.size(); ++i) {
    m.servers.push_back({Incarnation{servers[i]}, std::move(names[i]), std::move(endpoints[i])});
  }
  m.slices = in.Map(t.slices(), "slices", [&](const wire::PlacedSlice& i) {
    if (i.server() >= servers.size()) in.Fail("slices", "name a server that is not there");
    return Placement::Item{SliceId{i.slice()}, FromWire(i.epoch()), i.server()};
  });
  m.job = in.Text(t.job(), "job", kMaxTextBytes);
  return m;
}

flatbuffers::Offset<wire::PlacementRequest> Write(const PlacementRequest& m, Writer& out) {
  return wire::CreatePlacementRequest(out.fbb, m.term, m.number, out.Text(m.secret));
}

PlacementRequest Read(const wire::PlacementRequest& t, Reader& in) {
  return {.term = t.term(), .number = t.number(), .secret = in.Text(t.secret(), "secret")};
}

flatbuffers::Offset<wire::DataReport> Write(const DataReport& m, Writer& out) {
  const wire::Guess train = ToWire(m.guesses.train), eval = ToWire(m.guesses.eval);
  std::vector<std::string> names;
  std::vector<uint64_t> examples, fingerprints;
  for (const DataFile& file : m.files) {
    names.push_back(file.name);
    examples.push_back(file.examples);
    fingerprints.push_back(file.fingerprint);
  }
  return wire::CreateDataReport(out.fbb, ToNumber(m.from), m.train_examples, m.eval_examples, m.fingerprint,
                                out.Text(m.error), &train, &eval, m.eval_fingerprint,
                                out.Texts(names, kMaxFileName, kMostFilesTold), out.Vector(examples),
                                out.Vector(fingerprints));
}

DataReport Read(const wire::DataReport& t, Reader& in) {
  DataReport m = {.from = Incarnation{t.from()},
                  .train_examples = t.train_examples(),
                  .eval_examples = t.eval_examples(),
                  .fingerprint = t.fingerprint(),
                  .error = in.Text(t.error(), "error"),
                  .guesses = {FromWire(t.train_guess()), FromWire(t.eval_guess())},
                  .eval_fingerprint = t.eval_fingerprint(),
                  .files = {}};
  std::vector<std::string> names = in.Texts(t.file_names(), "file_names", kMaxFileName, kMostFilesTold);
  const auto examples = in.Items(t.file_examples(), "file_examples");
  const auto fingerprints = in.Items(t.file_fingerprints(), "file_fingerprints");
  if (examples.size() != names.size() || fingerprints.size() != names.size()) {
    in.Fail("file_names", "do not have one count and one fingerprint each");
    return m;
  }
  for (size_t i = 0; i < names.size(); ++i) m.files.push_back({std::move(names[i]), examples[i], fingerprints[i]});
  return m;
}

flatbuffers::Offset<wire::WorkRequest> Write(const WorkRequest& m, Writer& out) {
  std::vector<uint64_t> holding;
  for (const LeaseId lease : m.holding) holding.push_back(ToNumber(lease));
  return wire::CreateWorkRequest(out.fbb, ToNumber(m.from), out.Vector(holding), m.wanted, m.number);
}

WorkRequest Read(const wire::WorkRequest& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .holding = in.Map(t.holding(), "holding", [](uint64_t lease) { return LeaseId{lease}; }),
          .wanted = t.wanted(),
          .number = t.number()};
}

flatbuffers::Offset<wire::Grant> Write(const Grant& m, Writer& out) {
  return wire::CreateGrant(out.fbb, ToNumber(m.to), ToNumber(m.lease));
}

Grant Read(const wire::Grant& t, Reader&) { return {.to = Incarnation{t.to()}, .lease = LeaseId{t.lease()}}; }

flatbuffers::Offset<wire::EvalGrant> Write(const EvalGrant& m, Writer& out) {
  return wire::CreateEvalGrant(out.fbb, ToNumber(m.to), m.round, m.first_batch, m.batches);
}

EvalGrant Read(const wire::EvalGrant& t, Reader&) {
  return {.to = Incarnation{t.to()}, .round = t.round(), .first_batch = t.first_batch(), .batches = t.batches()};
}

flatbuffers::Offset<wire::LeaseDone> Write(const LeaseDone& m, Writer& out) {
  const auto evidence = out.Structs(m.evidence, [](const auto& e) { return SliceToWire(e); });
  return wire::CreateLeaseDone(out.fbb, ToNumber(m.from), ToNumber(m.lease), evidence, m.loss_sum, m.examples,
                               m.weight);
}

LeaseDone Read(const wire::LeaseDone& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .lease = LeaseId{t.lease()},
          .evidence = in.Map(t.evidence(), "evidence", SliceFromWire<LeaseDone::Evidence>),
          .loss_sum = t.loss_sum(),
          .examples = t.examples(),
          .weight = t.weight()};
}

flatbuffers::Offset<wire::LeaseDoneReply> Write(const LeaseDoneReply& m, Writer& out) {
  return wire::CreateLeaseDoneReply(out.fbb, ToNumber(m.lease), m.committed);
}

LeaseDoneReply Read(const wire::LeaseDoneReply& t, Reader&) {
  return {.lease = LeaseId{t.lease()}, .committed = t.committed()};
}

flatbuffers::Offset<wire::EvalDone> Write(const EvalDone& m, Writer& out) {
  return wire::CreateEvalDone(out.fbb, ToNumber(m.from), m.round, m.first_batch, m.batches, m.loss_sum, m.correct,
                              m.examples, m.versions_digest, m.oldest_version, m.newest_version,
                              out.Vector(m.metric_sums), m.weight, m.right);
}

EvalDone Read(const wire::EvalDone& t, Reader& in) {
  const auto sums = in.Items(t.metric_sums(), "metric_sums");
  return {.from = Incarnation{t.from()},
          .round = t.round(),
          .first_batch = t.first_batch(),
          .batches = t.batches(),
          .loss_sum = t.loss_sum(),
          .correct = t.correct(),
          .examples = t.examples(),
          .versions_digest = t.versions_digest(),
          .oldest_version = t.oldest_version(),
          .newest_version = t.newest_version(),
          .metric_sums = {sums.begin(), sums.end()},
          .weight = t.weight(),
          .right = t.right()};
}

flatbuffers::Offset<wire::EvalDoneReply> Write(const EvalDoneReply& m, Writer& out) {
  return wire::CreateEvalDoneReply(out.fbb, m.round, m.first_batch);
}

EvalDoneReply Read(const wire::EvalDoneReply& t, Reader&) {
  return {.round = t.round(), .first_batch = t.first_batch()};
}

flatbuffers::Offset<wire::CodeRequest> Write(const CodeRequest& m, Writer& out) {
  return wire::CreateCodeRequest(out.fbb, ToNumber(m.from), out.Text(m.sha256), m.block);
}

CodeRequest Read(const wire::CodeRequest& t, Reader& in) {
  return {.from = Incarnation{t.from()}, .sha256 = in.Text(t.sha256(), "sha256"), .block = t.block()};
}

flatbuffers::Offset<wire::CodeBlock> Write(const CodeBlock& m, Writer& out) {
  return wire::CreateCodeBlock(out.fbb, ToNumber(m.to), out.Text(m.sha256), m.block,
                               out.Frame(m.bytes, kCodeBlockBytes));
}

CodeBlock Read(const wire::CodeBlock& t, Reader& in) {
  return {.to = Incarnation{t.to()},
          .sha256 = in.Text(t.sha256(), "sha256"),
          .block = t.block(),
          .bytes = in.Frame(t.bytes(), kCodeBlockBytes)};
}

flatbuffers::Offset<wire::EpilogueGrant> Write(const EpilogueGrant& m, Writer& out) {
  return wire::CreateEpilogueGrant(out.fbb, ToNumber(m.to), m.attempt, out.Text(m.history, kMaxTextBytes));
}

EpilogueGrant Read(const wire::EpilogueGrant& t, Reader& in) {
  return {.to = Incarnation{t.to()}, .attempt = t.attempt(), .history = in.Text(t.history(), "history", kMaxTextBytes)};
}

flatbuffers::Offset<wire::RecordRequest> Write(const RecordRequest& m, Writer& out) {
  return wire::CreateRecordRequest(out.fbb, ToNumber(m.from), m.attempt, ToNumber(m.slice));
}

RecordRequest Read(const wire::RecordRequest& t, Reader&) {
  return {.from = Incarnation{t.from()}, .attempt = t.attempt(), .slice = SliceId{t.slice()}};
}

flatbuffers::Offset<wire::EpilogueDone> Write(const EpilogueDone& m, Writer& out) {
  return wire::CreateEpilogueDone(out.fbb, ToNumber(m.from), m.attempt, out.Text(m.error));
}

EpilogueDone Read(const wire::EpilogueDone& t, Reader& in) {
  return {.from = Incarnation{t.from()}, .attempt = t.attempt(), .error = in.Text(t.error(), "error")};
}

flatbuffers::Offset<wire::Violation> Write(const Violation& m, Writer& out) {
  return wire::CreateViolation(out.fbb, ToNumber(m.from), ToNumber(m.by), out.Text(m.what));
}

Violation Read(const wire::Violation& t, Reader& in) {
  return {.from = Incarnation{t.from()}, .by = Incarnation{t.by()}, .what = in.Text(t.what(), "what")};
}

}  // namespace downpour
