// Slice records: see docs/CHECKPOINT_FORMAT.md for the table of bytes.
#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"
#include "schema/codec.h"

namespace downpour {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and copied as it lies in memory");

constexpr char kMagic[8] = {'D', 'P', 'S', 'L', 'I', 'C', 'E', '1'};

// What every record begins with. After it: a checksum for the values and one for each slot, the intervals, the
// counters, how many pushes were skipped and how stale they usually are (the latter unless it is 0, the former unless
// both are), and the checksum of all before it.
struct Head {
  char magic[8];
  uint32_t header_bytes;  // of all up to the values
  uint32_t slice;
  uint32_t term;
  uint32_t n;
  uint64_t version;
  uint32_t value_bytes;  // of the values and of each slot
  uint32_t slots;
  uint32_t intervals;
  uint32_t counters;
};
static_assert(sizeof(Head) == 48);

constexpr size_t kChecksumBytes = 4;
constexpr size_t kIntervalBytes = 16;
constexpr size_t kCounterBytes = 12;
constexpr size_t kSkippedBytes = 8;
constexpr size_t kStalenessBytes = 8;

uint64_t HeaderBytes(uint64_t slots, uint64_t intervals, uint64_t counters) {
  return sizeof(Head) + kChecksumBytes * (1 + slots) + kIntervalBytes * intervals + kCounterBytes * counters +
         kChecksumBytes;
}

uint64_t HeaderBytes(const Head& head) { return HeaderBytes(head.slots, head.intervals, head.counters); }

size_t TailBytes(const SliceState& state) {
  if (state.usual_staleness > 0) return kSkippedBytes + kStalenessBytes;
  return state.skipped > 0 ? kSkippedBytes : 0;
}

template <typename T>
void Put(std::byte*& to, T value) {
  std::memcpy(to, &value, sizeof value);
  to += sizeof value;
}

template <typename T>
T Get(const std::byte*& from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  from += sizeof value;
  return value;
}

// Reads pieces as if they were one.
class Joined {
 public:
  explicit Joined(absl::Span<const Payload> pieces) : pieces_(pieces) {
    for (const Payload& piece : pieces) left_ += piece.size();
  }

  size_t left() const { return left_; }

  void Read(std::byte* out, size_t bytes) {  // bytes <= left()
    left_ -= bytes;
    while (bytes > 0) {
      const size_t some = std::min(bytes, pieces_[0].size() - at_);
      if (some > 0) std::memcpy(out, pieces_[0].data() + at_, some);
      out += some;
      bytes -= some;
      at_ += some;
      if (at_ == pieces_[0].size()) {
        pieces_.remove_prefix(1);
        at_ = 0;
      }
    }
  }

 private:
  absl::Span<const Payload> pieces_;
  size_t at_ = 0;  // in the first of them
  size_t left_ = 0;
};

absl::Status Lost(const std::string& what) { return absl::DataLossError("a damaged slice record: " + what); }

// The header block, whole and as its checksum has it; *head is its beginning.
absl::StatusOr<Payload> ReadHeader(Joined& in, Head* head) {
  const size_t total = in.left();
  if (total > kMaxRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat("no slice record: ", total, " bytes, of at most ", kMaxRecordBytes));
  }
  if (total < HeaderBytes(0, 0, 0)) return Lost(absl::StrCat("it ends at byte ", total, ", within its header"));
  in.Read(reinterpret_cast<std::byte*>(head), sizeof *head);
  if (std::memcmp(head->magic, kMagic, sizeof kMagic) != 0) return Lost("bytes 0 to 8 are not those that begin one");
  if (head->header_bytes < HeaderBytes(0, 0, 0) || head->header_bytes > std::min(total, kMaxFrameBytes)) {
    return Lost(absl::StrCat("byte 8 names a header of ", head->header_bytes, " bytes, of ", total));
  }
  Payload header = Payload::Allocate(head->header_bytes);
  std::memcpy(header.mutable_data(), head, sizeof *head);
  in.Read(header.mutable_data() + sizeof *head, header.size() - sizeof *head);
  const auto covered = header.bytes().subspan(0, header.size() - kChecksumBytes);
  const std::byte* checksum = header.data() + covered.size();
  if (Get<uint32_t>(checksum) != Crc32c(covered)) {
    return Lost(absl::StrCat("the checksum of its header, bytes 0 to ", header.size(), ", differs (slice ", head->slice,
                             ", if that much is right)"));
  }
  return header;
}

// Errors: what a header with a right checksum may not say.
absl::Status CheckHead(const Head& head) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("slice ", head.slice, ": its record's header ", what));
  };
  const bool is_bucket = head.value_bytes == 0 && head.slots == 0;
  if ((head.value_bytes == 0 && !is_bucket) || head.value_bytes > kMaxFrameBytes ||
      head.value_bytes % sizeof(float) != 0) {
    return wrong(absl::StrCat("names values of ", head.value_bytes, " bytes"));
  }
  const size_t more = head.header_bytes - HeaderBytes(head);  // beyond all sizes where there is less
  if (more != 0 && more != kSkippedBytes && more != kSkippedBytes + kStalenessBytes)
    return wrong("has another length than its counts make");
  return absl::OkStatus();
}

absl::Status ReadCounters(const Head& head, const std::byte* from, SliceState* state) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("slice ", head.slice, ": in its record ", what));
  };
  uint64_t last_end = 0;
  for (uint32_t i = 0; i < head.intervals; ++i) {
    const auto begin = Get<uint64_t>(from);
    const auto end = Get<uint64_t>(from);
    if (begin >= end || (i > 0 && begin <= last_end))
      return wrong("the intervals of finished leases are not ascending");
    state->finished.InsertRange(begin, end);
    last_end = end;
  }
  for (uint32_t i = 0; i < head.counters; ++i) {
    const auto lease = Get<uint64_t>(from);
    const auto consumed = Get<uint32_t>(from);
    if (i > 0 && lease <= ToNumber(state->counters.back().lease)) return wrong("the open leases are not ascending");
    if (state->finished.Contains(lease)) return wrong(absl::StrCat("lease ", lease, " is both open and finished"));
    state->counters.push_back({LeaseId{lease}, consumed});
  }
  if (head.header_bytes == HeaderBytes(head)) return absl::OkStatus();
  state->skipped = Get<uint64_t>(from);
  if (head.header_bytes == HeaderBytes(head) + kSkippedBytes) {
    return state->skipped > 0 ? absl::OkStatus() : wrong("no skipped push is counted");
  }
  state->usual_staleness = Get<uint64_t>(from);
  if (state->usual_staleness == 0 || state->usual_staleness > kMostUsualStaleness) {
    return wrong(absl::StrCat("pushes are usually ", state->usual_staleness, "/", kStalenessOne, " updates stale"));
  }
  return absl::OkStatus();
}

}  // namespace

uint32_t Crc32c(absl::Span<const std::byte> bytes, uint32_t so_far) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  while (!bytes.empty()) {
    const auto some = bytes.subspan(0, kMost);
    // The library does not write to it, but says so nowhere.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(some.data()));
    so_far = ~crc32_iscsi(data, static_cast<int>(some.size()), ~so_far);
    bytes.remove_prefix(some.size());
  }
  return so_far;
}

std::vector<Payload> EncodeRecord(const SliceState& state) {
  const std::vector<IntervalSet::Interval> intervals = state.finished.Intervals();
  Payload header =
      Payload::Allocate(HeaderBytes(state.slots.size(), intervals.size(), state.counters.size()) + TailBytes(state));
  Head head{.magic = {},
            .header_bytes = static_cast<uint32_t>(header.size()),
            .slice = ToNumber(state.slice),
            .term = state.epoch.term,
            .n = state.epoch.n,
            .version = state.version,
            .value_bytes = static_cast<uint32_t>(state.values.size()),
            .slots = static_cast<uint32_t>(state.slots.size()),
            .intervals = static_cast<uint32_t>(intervals.size()),
            .counters = static_cast<uint32_t>(state.counters.size())};
  std::memcpy(head.magic, kMagic, sizeof kMagic);

  std::vector<Payload> blocks = {Payload(),
                                 state.values};  // a bucket's values are none, and have a checksum all the same
  blocks.insert(blocks.end(), state.slots.begin(), state.slots.end());
  std::byte* to = header.mutable_data();
  Put(to, head);
  for (size_t i = 1; i < blocks.size(); ++i) Put(to, Crc32c(blocks[i].bytes()));
  for (const auto& interval : intervals) {
    Put(to, interval.begin);
    Put(to, interval.end);
  }
  for (const LeaseCounter& counter : state.counters) {
    Put(to, ToNumber(counter.lease));
    Put(to, counter.consumed);
  }
  if (TailBytes(state) > 0) Put(to, state.skipped);
  if (state.usual_staleness > 0) Put(to, state.usual_staleness);
  Put(to, Crc32c(header.bytes().subspan(0, header.size() - kChecksumBytes)));
  blocks[0] = std::move(header);
  return blocks;
}

std::optional<size_t> HeaderBytesOf(absl::Span<const std::byte> record) {
  constexpr size_t kUpTo = offsetof(Head, header_bytes) + sizeof(uint32_t);
  if (record.size() < kUpTo) return std::nullopt;
  const std::byte* from = record.data() + offsetof(Head, header_bytes);
  return Get<uint32_t>(from);
}

absl::Status CheckRecordSize(absl::Span<const Payload> blocks) {
  const uint64_t bytes = RecordBytes(blocks);
  if (bytes == 0 || bytes > kMaxRecordBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice record of ", bytes, " bytes, of at most ", kMaxRecordBytes));
  }
  if (blocks[0].size() <= kMaxFrameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a slice record whose counters take ", blocks[0].size(), " bytes, of at most ", kMaxFrameBytes));
}

uint64_t LeastRecordBytes(uint64_t value_bytes, uint64_t slots) {
  return HeaderBytes(slots, 0, 0) + (1 + slots) * value_bytes;
}

uint64_t RecordBytes(absl::Span<const Payload> blocks) {
  uint64_t bytes = 0;
  for (const Payload& block : blocks) bytes += block.size();
  return bytes;
}

uint32_t RecordChecksum(absl::Span<const Payload> blocks) {
  uint32_t checksum = 0;
  for (const Payload& block : blocks) checksum = Crc32c(block.bytes(), checksum);
  return checksum;
}

absl::StatusOr<SliceState> DecodeRecord(absl::Span<const Payload> pieces) {
  Joined in(pieces);
  const size_t total = in.left();
  Head head;
  const absl::StatusOr<Payload> header = ReadHeader(in, &head);
  if (!header.ok()) return header.status();
  if (absl::Status status = CheckHead(head); !status.ok()) return status;
  if (in.left() != (uint64_t{1} + head.slots) * head.value_bytes) {
    return Lost(absl::StrCat("slice ", head.slice, " ends at byte ", total, ", where its header wants ",
                             head.header_bytes + (uint64_t{1} + head.slots) * head.value_bytes));
  }

  SliceState state;
  state.slice = SliceId{head.slice};
  state.epoch = {head.term, head.n};
  state.version = head.version;
  const std::byte* checksums = header->data() + sizeof head;
  const std::byte* counters = checksums + kChecksumBytes * (size_t{1} + head.slots);
  if (absl::Status status = ReadCounters(head, counters, &state); !status.ok()) return status;
  for (uint32_t i = 0; i <= head.slots; ++i) {
    const size_t begin = total - in.left();
    Payload block = Payload::Allocate(head.value_bytes);
    in.Read(block.mutable_data(), block.size());
    if (Get<uint32_t>(checksums) != Crc32c(block.bytes())) {
      return Lost(absl::StrCat("slice ", head.slice, ": the checksum of bytes ", begin, " to ", begin + block.size(),
                               " differs"));
    }
    (i == 0 ? state.values : state.slots.emplace_back()) = std::move(block);
  }
  return state;
}

}  // namespace downpour
