#include "schema/codec.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "schema/codec_parts.h"
#include "schema/text.h"

namespace downpour {
namespace {

template <typename OffsetType>
struct TableOfOffset;
template <typename Table>
struct TableOfOffset<flatbuffers::Offset<Table>> {
  using Type = Table;
};
// wire::Push for Push, and so on.
template <typename M>
using TableOf = typename TableOfOffset<decltype(Write(std::declval<const M&>(), std::declval<Writer&>()))>::Type;
template <typename M>
constexpr wire::Body kBodyOf = wire::BodyTraits<TableOf<M>>::enum_value;

template <typename M>
bool ReadIf(const wire::Envelope& envelope, Reader& in, Message* message) {
  if (envelope.body_type() != kBodyOf<M>) return false;
  *message = Read(*static_cast<const TableOf<M>*>(envelope.body()), in);
  return true;
}

template <size_t... I>
bool ReadAny(const wire::Envelope& envelope, Reader& in, Message* message, std::index_sequence<I...>) {
  return (ReadIf<std::variant_alternative_t<I, MessageKinds>>(envelope, in, message) || ...);
}

void WriteFrames(const Message& message, uint64_t run, Writer& out) {
  out.frames.emplace_back();  // the header's place
  std::visit(
      [&out, run]<typename M>(const M& m) {
        const auto body = Write(m, out);
        out.fbb.Finish(wire::CreateEnvelope(out.fbb, kBodyOf<M>, body.Union(), run), wire::EnvelopeIdentifier());
      },
      message);
  out.frames[0] = Payload::CopyOf(out.fbb.GetBufferPointer(), out.fbb.GetSize());
}

absl::Status CheckFrames(const std::vector<Payload>& frames) {
  if (frames.empty() || frames[0].empty()) return absl::InvalidArgumentError("no message: it has no header");
  if (frames.size() > kMaxFrames) {
    return absl::InvalidArgumentError(absl::StrCat("no message: ", frames.size(), " frames, of at most ", kMaxFrames));
  }
  if (frames[0].size() > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("no message: a header of ", frames[0].size(), " bytes, of at most ", kMaxHeaderBytes));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Payload> Encode(const Message& message, uint64_t run) {
  Writer out;
  WriteFrames(message, run, out);
  return std::move(out.frames);
}

absl::StatusOr<std::vector<Payload>> EncodeWithinLimits(const Message& message, uint64_t run) {
  Writer out;
  WriteFrames(message, run, out);
  absl::Status status = out.exceeded.empty() ? CheckFrames(out.frames) : absl::InvalidArgumentError(out.exceeded);
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(NameOf(message), ": ", status.message()));
  return std::move(out.frames);
}

absl::StatusOr<Message> Decode(const std::vector<Payload>& frames, uint64_t* run) {
  if (absl::Status status = CheckFrames(frames); !status.ok()) return status;
  const Payload header = Payload::CopyOf(frames[0].data(), frames[0].size());
  // The most: envelope, heartbeat, stats, and below them staleness and GPU. No vector holds tables.
  constexpr int kMaxDepth = 4;
  constexpr int kMaxTables = 5;
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(header.data()), header.size(), kMaxDepth, kMaxTables);
  if (!wire::VerifyEnvelopeBuffer(verifier)) return absl::InvalidArgumentError("no message: the header is damaged");

  const wire::Envelope& envelope = *wire::GetEnvelope(header.data());
  if (envelope.body_type() > wire::Body::MAX) {
    return absl::UnimplementedError(
        absl::StrCat("a message of kind ", static_cast<int>(envelope.body_type()), ", which this build does not know"));
  }
  if (envelope.body() == nullptr) return absl::InvalidArgumentError("no message: the header has no body");

  Reader in(frames);
  Message message;
  if (!ReadAny(envelope, in, &message, std::make_index_sequence<std::variant_size_v<MessageKinds>>())) {
    return absl::InvalidArgumentError("no message: the header has no body");
  }
  if (absl::Status status = in.Finish(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(NameOf(message), ": ", status.message()));
  }
  if (run != nullptr) *run = envelope.run();
  return message;
}

const char* NameOf(const Message& message) {
  return std::visit([]<typename M>(const M&) { return wire::EnumNameBody(kBodyOf<M>); }, message);
}

}  // namespace downpour
