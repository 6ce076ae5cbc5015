// The data plane and checkpoints: what carries values and gradients.
#include "schema/codec_parts.h"
#include "schema/text.h"

namespace downpour {

flatbuffers::Offset<wire::Push> Write(const Push& m, Writer& out) {
  const auto slices = out.Structs(m.slices, [&out](const Push::Item& i) {
    return wire::PushItem(ToNumber(i.slice), ToWire(i.epoch), out.Frame(i.gradient, kMaxMessagePayload),
                          ToWire(i.computed_from));
  });
  return wire::CreatePush(out.fbb, ToNumber(m.from), ToNumber(m.lease), m.step, slices);
}

Push Read(const wire::Push& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .lease = LeaseId{t.lease()},
          .step = t.step(),
          .slices = in.Map(t.slices(), "slices", [&in](const wire::PushItem& i) {
            return Push::Item{SliceId{i.slice()}, FromWire(i.epoch()), FromWire(i.computed_from()),
                              in.NumberFrame(i.bytes(), kMaxMessagePayload)};
          })};
}

flatbuffers::Offset<wire::PushReply> Write(const PushReply& m, Writer& out) {
  const auto slices = out.Structs(m.slices, [](const PushReply::Item& i) {
    return wire::PushReplyItem(ToNumber(i.slice), ToWire(i.epoch), i.consumed, i.acked,
                               static_cast<wire::SliceRefusal>(i.refusal), i.counted, i.staleness);
  });
  return wire::CreatePushReply(out.fbb, ToNumber(m.from), ToNumber(m.lease), slices, m.window);
}

PushReply Read(const wire::PushReply& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .lease = LeaseId{t.lease()},
          .slices = in.Map(t.slices(), "slices",
                           [&in](const wire::PushReplyItem& i) {
                             return PushReply::Item{.slice = SliceId{i.slice()},
                                                    .epoch = FromWire(i.epoch()),
                                                    .refusal = in.Known<SliceRefusal>(i.refusal(), "refusal"),
                                                    .consumed = i.consumed(),
                                                    .acked = i.acked(),
                                                    .staleness = i.staleness(),
                                                    .counted = i.counted()};
                           }),
          .window = t.window()};
}

flatbuffers::Offset<wire::Probe> Write(const Probe& m, Writer& out) {
  const auto slices = out.Structs(m.slices, [](const auto& i) { return SliceToWire(i); });
  return wire::CreateProbe(out.fbb, ToNumber(m.from), ToNumber(m.lease), slices);
}

Probe Read(const wire::Probe& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .lease = LeaseId{t.lease()},
          .slices = in.Map(t.slices(), "slices", SliceFromWire<Probe::Item>)};
}

flatbuffers::Offset<wire::Pull> Write(const Pull& m, Writer& out) {
  const auto slices = out.Structs(
      m.slices, [](const Pull::Item& i) { return wire::PullItem(ToNumber(i.slice), ToWire(i.epoch), ToWire(i.have)); });
  const auto key_bytes =
      out.NumbersBeside(m.slices, [&out](const Pull::Item& i) { return out.Frame(i.keys, kMaxMessagePayload); });
  return wire::CreatePull(out.fbb, ToNumber(m.from), m.request, slices, key_bytes);
}

Pull Read(const wire::Pull& t, Reader& in) {
  auto key_bytes = in.Items(t.key_bytes(), "key_bytes");
  const bool any = !key_bytes.empty();
  Pull m{.from = Incarnation{t.from()},
         .request = t.request(),
         .slices = in.Map(t.slices(), "slices", [&](const wire::PullItem& i) {
           return Pull::Item{SliceId{i.slice()}, FromWire(i.epoch()), FromWire(i.have()),
                             in.Frame(in.TakeNumber(key_bytes, "key_bytes", any), kMaxMessagePayload)};
         })};
  in.ExpectEmpty(key_bytes, "key_bytes");
  return m;
}

flatbuffers::Offset<wire::PullReply> Write(const PullReply& m, Writer& out) {
  const auto slices = out.Structs(m.slices, [&out](const PullReply::Item& i) {
    return wire::PullReplyItem(ToNumber(i.slice), out.Frame(i.values, kMaxMessagePayload), ToWire(i.version),
                               static_cast<wire::SliceRefusal>(i.refusal));
  });
  return wire::CreatePullReply(out.fbb, ToNumber(m.from), m.request, slices, m.window);
}

PullReply Read(const wire::PullReply& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .request = t.request(),
          .slices = in.Map(t.slices(), "slices",
                           [&in](const wire::PullReplyItem& i) {
                             return PullReply::Item{SliceId{i.slice()}, in.Known<SliceRefusal>(i.refusal(), "refusal"),
                                                    FromWire(i.version()),
                                                    in.NumberFrame(i.bytes(), kMaxMessagePayload)};
                           }),
          .window = t.window()};
}

flatbuffers::Offset<wire::SnapshotRequest> Write(const SnapshotRequest& m, Writer& out) {
  const auto slices = out.Structs(m.slices, [](const auto& i) { return SliceToWire(i); });
  const auto parts = out.NumbersBeside(m.slices, [](const auto& i) { return i.parts; });
  return wire::CreateSnapshotRequest(out.fbb, ToNumber(m.to), Address(ToWire(m.round)), slices, m.urgent, parts);
}

SnapshotRequest Read(const wire::SnapshotRequest& t, Reader& in) {
  auto parts = in.Items(t.parts(), "parts");
  const bool any = !parts.empty();
  SnapshotRequest m{.to = Incarnation{t.to()},
                    .round = FromWire(t.round()),
                    .slices = in.Map(t.slices(), "slices",
                                     [&](const wire::SliceInEpoch& i) {
                                       auto item = SliceFromWire<SnapshotRequest::Item>(i);
                                       item.parts = in.TakeNumber(parts, "parts", any);
                                       return item;
                                     }),
                    .urgent = t.urgent()};
  in.ExpectEmpty(parts, "parts");
  return m;
}

flatbuffers::Offset<wire::SliceRecord> Write(const SliceRecord& m, Writer& out) {
  const auto finished = out.Structs(m.finished.Intervals(), [](const auto& i) { return ToWire(i); });
  return wire::CreateSliceRecord(out.fbb, ToNumber(m.from), Address(ToWire(m.round)), ToNumber(m.slice),
                                 Address(ToWire(m.epoch)), finished, out.Frames(m.blocks, kMaxRecordBytes), m.skipped,
                                 m.version, m.scan, m.part, m.more);
}

SliceRecord Read(const wire::SliceRecord& t, Reader& in) {
  return {.from = Incarnation{t.from()},
          .round = FromWire(t.round()),
          .slice = SliceId{t.slice()},
          .epoch = FromWire(t.epoch()),
          .finished = in.Intervals(in.Items(t.finished(), "finished")),
          .blocks = in.Frames(t.block_bytes(), kMaxRecordBytes),
          .skipped = t.skipped(),
          .version = t.version(),
          .scan = t.scan(),
          .part = t.part(),
          .more = t.more()};
}

flatbuffers::Offset<wire::WriteShard> Write(const WriteShard& m, Writer& out) {
  const auto slices = out.Structs(m.slices, [](const auto& i) { return SliceToWire(i); });
  return wire::CreateWriteShard(out.fbb, ToNumber(m.to), Address(ToWire(m.round)), out.Text(m.file), slices, m.urgent);
}

WriteShard Read(const wire::WriteShard& t, Reader& in) {
  WriteShard m{.to = Incarnation{t.to()},
               .round = FromWire(t.round()),
               .file = in.Text(t.file(), "file"),
               .slices = in.Map(t.slices(), "slices", SliceFromWire<SnapshotRequest::Item>),
               .urgent = t.urgent()};
  if (!IsPlainName(m.file)) in.Fail("file", "is no plain name");
  return m;
}

flatbuffers::Offset<wire::ShardWritten> Write(const ShardWritten& m, Writer& out) {
  std::vector<wire::Interval> finished;
  const auto slices = out.Structs(m.slices, [&](const ShardWritten::Item& i) {
    const auto intervals = i.finished.Intervals();
    for (const auto& interval : intervals) finished.push_back(ToWire(interval));
    return wire::WrittenItem(ToNumber(i.slice), ToWire(i.epoch), static_cast<uint32_t>(intervals.size()), i.offset,
                             i.bytes, i.crc32c);
  });
  return wire::CreateShardWritten(out.fbb, ToNumber(m.from), Address(ToWire(m.round)), out.Text(m.error), m.bytes,
                                  slices, out.Vector(finished), m.skipped, m.oldest_version, m.newest_version);
}

ShardWritten Read(const wire::ShardWritten& t, Reader& in) {
  auto finished = in.Items(t.finished(), "finished");
  ShardWritten m{.from = Incarnation{t.from()},
                 .round = FromWire(t.round()),
                 .error = in.Text(t.error(), "error"),
                 .bytes = t.bytes(),
                 .slices = in.Map(t.slices(), "slices",
                                  [&](const wire::WrittenItem& i) {
                                    return ShardWritten::Item{
                                        .slice = SliceId{i.slice()},
                                        .epoch = FromWire(i.epoch()),
                                        .finished = in.Intervals(in.Take(finished, i.intervals(), "finished")),
                                        .offset = i.offset(),
                                        .bytes = i.bytes(),
                                        .crc32c = i.crc32c()};
                                  }),
                 .skipped = t.skipped(),
                 .oldest_version = t.oldest_version(),
                 .newest_version = t.newest_version()};
  in.ExpectEmpty(finished, "finished");
  return m;
}

}  // namespace downpour
