// What the parts of the codec share: a Writer that gathers header and payload frames, a Reader that checks as it reads,
// and for each message a Write and a Read, side by side in codec_membership.cc, codec_work.cc and codec_slices.cc.
//
// Cost: a header holds no vector of tables and each flat vector is consumed once, so reading is linear in its bytes.
// Errors: a Reader keeps its first error and reads on with empty values, so that Read functions stay straight lines.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/downpour_generated.h"
#include "schema/limits.h"
#include "schema/message.h"

namespace downpour {

static_assert(std::endian::native == std::endian::little, "vectors of numbers are read in place");

class Writer {
 public:
  flatbuffers::FlatBufferBuilder fbb;
  std::vector<Payload> frames;
  std::string exceeded;  // the first limit that the message exceeds, as its Reader would say it; empty: none

  // Cut and cleaned, so that a string that came from outside (a file name, a peer's words) never makes a message that
  // its receiver must refuse.
  flatbuffers::Offset<flatbuffers::String> Text(const std::string& text, size_t limit = kMaxStringBytes);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> Texts(
      const std::vector<std::string>& texts, size_t limit = kMaxStringBytes, size_t most = kMaxItems);

  // A vector of what `to_wire` makes of each item. (The builder's own CreateUninitializedVectorOfStructs misaligns.)
  template <typename Items, typename ToWire>
  auto Structs(const Items& items, ToWire to_wire) {
    using Struct = decltype(to_wire(*items.begin()));
    std::vector<Struct> structs;
    structs.reserve(items.size());
    for (const auto& item : items) structs.push_back(to_wire(item));
    return Vector(structs);
  }
  template <typename Struct>
  auto Vector(const std::vector<Struct>& structs) {
    CheckElements(structs.size());
    if constexpr (std::is_arithmetic_v<Struct>) {
      return fbb.CreateVector(structs);
    } else {
      return fbb.CreateVectorOfStructs(structs.data(), structs.size());
    }
  }

  // A number of each item, parallel to the items; nothing where all are 0.
  template <typename Items, typename NumberOf>
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> NumbersBeside(const Items& items, NumberOf number_of) {
    std::vector<uint32_t> numbers;
    bool any = false;
    for (const auto& item : items) any |= (numbers.push_back(number_of(item)), numbers.back() != 0);
    if (!any) numbers.clear();
    return Vector(numbers);
  }

  // Adds the payload as a frame, unless it is empty; its size goes into the header. All frames of a message together
  // stay within `total`, as for Reader::Frame.
  uint32_t Frame(const Payload& payload, size_t total);
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> Frames(const std::vector<Payload>& payloads, size_t total);

 private:
  void Exceed(const std::string& what) {
    if (exceeded.empty()) exceeded = what;
  }
  void CheckElements(size_t size, size_t most = kMaxItems);

  size_t payload_bytes_ = 0;
};

class Reader {
 public:
  explicit Reader(const std::vector<Payload>& frames) : frames_(frames), text_bytes_left_(frames[0].size()) {}

  void Fail(const std::string& field, const std::string& what);
  // The first error, or that frames are left over.
  absl::Status Finish();

  std::string Text(const flatbuffers::String* text, const char* field, size_t limit = kMaxStringBytes);
  std::vector<std::string> Texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* texts,
                                 const char* field, size_t limit = kMaxStringBytes, size_t most = kMaxItems);
  double Finite(double value, const char* field);

  // The value as message.h has it, if this build knows it; else the first one.
  template <typename Enum, typename WireEnum>
  Enum Known(WireEnum value, const char* field) {
    if (value <= WireEnum::MAX) return static_cast<Enum>(value);
    Fail(field, "is " + std::to_string(static_cast<int>(value)) + ", which this build does not know");
    return Enum{};
  }

  template <typename Struct>
  absl::Span<const Struct> Items(const flatbuffers::Vector<const Struct*>* items, const char* field) {
    return items == nullptr ? absl::Span<const Struct>() : Checked<Struct>(items->Data(), items->size(), field);
  }
  template <typename Number>
  requires std::is_arithmetic_v<Number> absl::Span<const Number> Items(const flatbuffers::Vector<Number>* items,
                                                                       const char* field) {
    return items == nullptr ? absl::Span<const Number>() : Checked<Number>(items->Data(), items->size(), field);
  }
  template <typename Items, typename FromWire>
  auto Map(const Items* items, const char* field, FromWire from_wire) {
    const auto span = this->Items(items, field);
    std::vector<decltype(from_wire(span[0]))> mapped;
    mapped.reserve(span.size());
    for (const auto& item : span) mapped.push_back(from_wire(item));
    return mapped;
  }
  // The next `count` elements of a flat vector that several items share.
  template <typename Struct>
  absl::Span<const Struct> Take(absl::Span<const Struct>& rest, size_t count, const char* field) {
    if (count > rest.size()) Fail(field, "holds fewer elements than its items name");
    const auto taken = rest.subspan(0, count);
    rest.remove_prefix(taken.size());
    return taken;
  }
  // Of such numbers the next item's.
  uint32_t TakeNumber(absl::Span<const uint32_t>& numbers, const char* field, bool any) {
    const auto taken = any ? Take(numbers, 1, field) : absl::Span<const uint32_t>();
    return taken.empty() ? 0 : taken[0];
  }
  template <typename Struct>
  void ExpectEmpty(absl::Span<const Struct> rest, const char* field) {
    if (!rest.empty()) Fail(field, "holds more elements than its items name");
  }

  // The next frame, which must have as many bytes as the header says; none if that is 0. All frames of a message
  // together stay within `total`.
  Payload Frame(size_t bytes, size_t total);
  Payload NumberFrame(size_t bytes, size_t total);  // floats or halves of them
  std::vector<Payload> Frames(const flatbuffers::Vector<uint32_t>* bytes, size_t total);

  // Ascending, disjoint, not adjacent.
  IntervalSet Intervals(absl::Span<const wire::Interval> intervals);

 private:
  // The Verifier checks neither the number of elements nor, for vectors, their alignment.
  template <typename T>
  absl::Span<const T> Checked(const uint8_t* data, size_t size, const char* field) {
    if (size == 0) return {};
    CheckElements(size, reinterpret_cast<uintptr_t>(data) % alignof(T) == 0, field);
    return error_.empty() ? absl::Span<const T>(reinterpret_cast<const T*>(data), size) : absl::Span<const T>();
  }
  void CheckElements(size_t size, bool aligned, const char* field, size_t most = kMaxItems);

  const std::vector<Payload>& frames_;
  size_t next_frame_ = 1;
  size_t payload_bytes_ = 0;
  size_t text_bytes_left_;  // many offsets may point at one string, but an honest header is longer than its texts
  std::string error_;
};

inline wire::Epoch ToWire(SliceEpoch epoch) { return {epoch.term, epoch.n}; }
inline wire::Round ToWire(Round round) { return {round.term, round.n}; }
inline wire::Version ToWire(Version version) { return {ToWire(version.epoch), version.n}; }
inline wire::Interval ToWire(const IntervalSet::Interval& interval) { return {interval.begin, interval.end}; }
inline wire::Guess ToWire(const Guess& guess) { return {guess.loss, guess.accuracy}; }
inline SliceEpoch FromWire(const wire::Epoch& epoch) { return {epoch.term(), epoch.n()}; }
inline Version FromWire(const wire::Version& version) { return {FromWire(version.epoch()), version.n()}; }
// Fields of a table; an absent one is zero.
inline SliceEpoch FromWire(const wire::Epoch* epoch) { return epoch == nullptr ? SliceEpoch{} : FromWire(*epoch); }
inline Round FromWire(const wire::Round* round) {
  return round == nullptr ? Round{} : Round{round->term(), round->n()};
}
inline Guess FromWire(const wire::Guess* guess) {
  return guess == nullptr ? Guess{} : Guess{guess->loss(), guess->accuracy()};
}

// Probe::Item and its like, which are a slice in an epoch.
template <typename Item>
wire::SliceInEpoch SliceToWire(const Item& item) {
  return {ToNumber(item.slice), ToWire(item.epoch)};
}
template <typename Item>
Item SliceFromWire(const wire::SliceInEpoch& item) {
  return {SliceId{item.slice()}, FromWire(item.epoch())};
}

// For the generated functions, which take a table's struct fields by pointer.
template <typename T>
const T* Address(const T& value) {
  return &value;
}

// ---- Each message ---------------------------------------------------------------------------------------------------

flatbuffers::Offset<wire::Join> Write(const Join& m, Writer& out);
flatbuffers::Offset<wire::Welcome> Write(const Welcome& m, Writer& out);
flatbuffers::Offset<wire::Refused> Write(const Refused& m, Writer& out);
flatbuffers::Offset<wire::Heartbeat> Write(const Heartbeat& m, Writer& out);
flatbuffers::Offset<wire::HeartbeatReply> Write(const HeartbeatReply& m, Writer& out);
flatbuffers::Offset<wire::OpenBulk> Write(const OpenBulk& m, Writer& out);
flatbuffers::Offset<wire::Leave> Write(const Leave& m, Writer& out);
flatbuffers::Offset<wire::JobEnd> Write(const JobEnd& m, Writer& out);
flatbuffers::Offset<wire::Assign> Write(const Assign& m, Writer& out);
flatbuffers::Offset<wire::RestoreSlice> Write(const RestoreSlice& m, Writer& out);
flatbuffers::Offset<wire::SliceReport> Write(const SliceReport& m, Writer& out);
flatbuffers::Offset<wire::Placement> Write(const Placement& m, Writer& out);
flatbuffers::Offset<wire::DataReport> Write(const DataReport& m, Writer& out);
flatbuffers::Offset<wire::WorkRequest> Write(const WorkRequest& m, Writer& out);
flatbuffers::Offset<wire::Grant> Write(const Grant& m, Writer& out);
flatbuffers::Offset<wire::EvalGrant> Write(const EvalGrant& m, Writer& out);
flatbuffers::Offset<wire::LeaseDone> Write(const LeaseDone& m, Writer& out);
flatbuffers::Offset<wire::LeaseDoneReply> Write(const LeaseDoneReply& m, Writer& out);
flatbuffers::Offset<wire::EvalDone> Write(const EvalDone& m, Writer& out);
flatbuffers::Offset<wire::EvalDoneReply> Write(const EvalDoneReply& m, Writer& out);
flatbuffers::Offset<wire::CodeRequest> Write(const CodeRequest& m, Writer& out);
flatbuffers::Offset<wire::CodeBlock> Write(const CodeBlock& m, Writer& out);
flatbuffers::Offset<wire::EpilogueGrant> Write(const EpilogueGrant& m, Writer& out);
flatbuffers::Offset<wire::RecordRequest> Write(const RecordRequest& m, Writer& out);
flatbuffers::Offset<wire::EpilogueDone> Write(const EpilogueDone& m, Writer& out);
flatbuffers::Offset<wire::PlacementRequest> Write(const PlacementRequest& m, Writer& out);
flatbuffers::Offset<wire::ShareMemory> Write(const ShareMemory& m, Writer& out);
flatbuffers::Offset<wire::MemoryDoor> Write(const MemoryDoor& m, Writer& out);
flatbuffers::Offset<wire::Violation> Write(const Violation& m, Writer& out);
flatbuffers::Offset<wire::Push> Write(const Push& m, Writer& out);
flatbuffers::Offset<wire::PushReply> Write(const PushReply& m, Writer& out);
flatbuffers::Offset<wire::Probe> Write(const Probe& m, Writer& out);
flatbuffers::Offset<wire::Pull> Write(const Pull& m, Writer& out);
flatbuffers::Offset<wire::PullReply> Write(const PullReply& m, Writer& out);
flatbuffers::Offset<wire::SnapshotRequest> Write(const SnapshotRequest& m, Writer& out);
flatbuffers::Offset<wire::SliceRecord> Write(const SliceRecord& m, Writer& out);
flatbuffers::Offset<wire::WriteShard> Write(const WriteShard& m, Writer& out);
flatbuffers::Offset<wire::ShardWritten> Write(const ShardWritten& m, Writer& out);
flatbuffers::Offset<wire::StatusRequest> Write(const StatusRequest& m, Writer& out);
flatbuffers::Offset<wire::StatusReply> Write(const StatusReply& m, Writer& out);
flatbuffers::Offset<wire::Control> Write(const Control& m, Writer& out);
flatbuffers::Offset<wire::ControlReply> Write(const ControlReply& m, Writer& out);

Join Read(const wire::Join& t, Reader& in);
Welcome Read(const wire::Welcome& t, Reader& in);
Refused Read(const wire::Refused& t, Reader& in);
Heartbeat Read(const wire::Heartbeat& t, Reader& in);
HeartbeatReply Read(const wire::HeartbeatReply& t, Reader& in);
OpenBulk Read(const wire::OpenBulk& t, Reader& in);
Leave Read(const wire::Leave& t, Reader& in);
JobEnd Read(const wire::JobEnd& t, Reader& in);
Assign Read(const wire::Assign& t, Reader& in);
RestoreSlice Read(const wire::RestoreSlice& t, Reader& in);
SliceReport Read(const wire::SliceReport& t, Reader& in);
Placement Read(const wire::Placement& t, Reader& in);
DataReport Read(const wire::DataReport& t, Reader& in);
WorkRequest Read(const wire::WorkRequest& t, Reader& in);
Grant Read(const wire::Grant& t, Reader& in);
EvalGrant Read(const wire::EvalGrant& t, Reader& in);
LeaseDone Read(const wire::LeaseDone& t, Reader& in);
LeaseDoneReply Read(const wire::LeaseDoneReply& t, Reader& in);
EvalDone Read(const wire::EvalDone& t, Reader& in);
EvalDoneReply Read(const wire::EvalDoneReply& t, Reader& in);
CodeRequest Read(const wire::CodeRequest& t, Reader& in);
CodeBlock Read(const wire::CodeBlock& t, Reader& in);
EpilogueGrant Read(const wire::EpilogueGrant& t, Reader& in);
RecordRequest Read(const wire::RecordRequest& t, Reader& in);
EpilogueDone Read(const wire::EpilogueDone& t, Reader& in);
PlacementRequest Read(const wire::PlacementRequest& t, Reader& in);
ShareMemory Read(const wire::ShareMemory& t, Reader& in);
MemoryDoor Read(const wire::MemoryDoor& t, Reader& in);
Violation Read(const wire::Violation& t, Reader& in);
Push Read(const wire::Push& t, Reader& in);
PushReply Read(const wire::PushReply& t, Reader& in);
Probe Read(const wire::Probe& t, Reader& in);
Pull Read(const wire::Pull& t, Reader& in);
PullReply Read(const wire::PullReply& t, Reader& in);
SnapshotRequest Read(const wire::SnapshotRequest& t, Reader& in);
SliceRecord Read(const wire::SliceRecord& t, Reader& in);
WriteShard Read(const wire::WriteShard& t, Reader& in);
ShardWritten Read(const wire::ShardWritten& t, Reader& in);
StatusRequest Read(const wire::StatusRequest& t, Reader& in);
StatusReply Read(const wire::StatusReply& t, Reader& in);
Control Read(const wire::Control& t, Reader& in);
ControlReply Read(const wire::ControlReply& t, Reader& in);

}  // namespace downpour
