#include "runtime/row_frames.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/prng.h"
#include "schema/limits.h"

namespace downpour {
namespace {

constexpr uint64_t kBucketStream = 11;  // apart from other draws

size_t CountBytes(size_t tables) { return (tables + tables % 2) * sizeof(uint32_t); }

size_t BytesOfRows(absl::Span<const uint32_t> counts, absl::Span<const uint32_t> widths) {
  size_t numbers = 0;
  for (size_t table = 0; table < widths.size(); ++table) numbers += size_t{counts[table]} * widths[table];
  return numbers * sizeof(float);
}

// The counts of a frame that is long enough for its keys; the bytes of both.
struct Head {
  std::vector<uint32_t> counts;
  size_t keys = 0;
  size_t bytes = 0;
};

uint64_t KeyAt(const Payload& frame, size_t offset) {
  uint64_t key;
  std::memcpy(&key, frame.data() + offset, sizeof key);
  return key;
}

bool Ascend(const Payload& frame, const Head& head) {
  size_t at = CountBytes(head.counts.size());
  for (const uint32_t count : head.counts) {
    for (uint32_t i = 1; i < count; ++i) {
      if (KeyAt(frame, at + (i - 1) * sizeof(uint64_t)) >= KeyAt(frame, at + i * sizeof(uint64_t))) return false;
    }
    at += count * sizeof(uint64_t);
  }
  return true;
}

absl::StatusOr<Head> ReadHead(const Payload& frame, size_t tables) {
  const size_t before = CountBytes(tables);
  if (frame.size() < before) {
    return absl::InvalidArgumentError(absl::StrCat("has ", frame.size(), " bytes for counts of ", tables, " tables"));
  }
  Head head;
  head.counts.resize(tables);
  std::memcpy(head.counts.data(), frame.data(), tables * sizeof(uint32_t));
  head.keys = std::accumulate(head.counts.begin(), head.counts.end(), size_t{0});
  head.bytes = before + head.keys * sizeof(uint64_t);
  if (head.keys == 0 || frame.size() < head.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("has ", frame.size(), " bytes for ", head.keys, " keys"));
  }
  return head;
}

// Also whether the keys ascend, and the rest is as long as it should be: `rows` of them or none.
absl::StatusOr<Head> ReadWhole(const Payload& frame, absl::Span<const uint32_t> widths, bool rows) {
  absl::StatusOr<Head> head = ReadHead(frame, widths.size());
  if (!head.ok()) return head;
  if (!Ascend(frame, *head)) return absl::InvalidArgumentError("has keys of a table that do not ascend");
  const size_t wanted = head->bytes + (rows ? BytesOfRows(head->counts, widths) : 0);
  if (frame.size() == wanted) return head;
  return absl::InvalidArgumentError(absl::StrCat("has ", frame.size(), " bytes, where its counts make ", wanted));
}

RowKeys ReadKeys(const Payload& frame, Head head) {
  const size_t before = CountBytes(head.counts.size());
  RowKeys rows{.counts = std::move(head.counts), .keys = std::vector<uint64_t>(head.keys)};
  std::memcpy(rows.keys.data(), frame.data() + before, head.keys * sizeof(uint64_t));
  return rows;
}

}  // namespace

uint32_t BucketOf(uint64_t table, uint64_t key, uint32_t buckets) {
  return static_cast<uint32_t>((MixAll(kBucketStream, table, key) >> 32) * buckets >> 32);
}

size_t RowBytes(const RowKeys& rows, absl::Span<const uint32_t> widths) { return BytesOfRows(rows.counts, widths); }

Payload PackKeys(const RowKeys& rows) { return PackGradients(rows, {}); }

Payload PackGradients(const RowKeys& rows, absl::Span<const float> numbers) {
  const size_t before = CountBytes(rows.counts.size()), of_keys = rows.keys.size() * sizeof(uint64_t);
  Payload frame = Payload::Allocate(before + of_keys + numbers.size() * sizeof(float));
  std::byte* to = frame.mutable_data();
  std::memset(to, 0, before);
  std::memcpy(to, rows.counts.data(), rows.counts.size() * sizeof(uint32_t));
  std::memcpy(to + before, rows.keys.data(), of_keys);
  if (!numbers.empty()) std::memcpy(to + before + of_keys, numbers.data(), numbers.size() * sizeof(float));
  return frame;
}

absl::StatusOr<RowKeys> UnpackKeys(const Payload& frame, absl::Span<const uint32_t> widths) {
  absl::StatusOr<Head> head = ReadWhole(frame, widths, /*rows=*/false);
  if (!head.ok()) return head.status();
  return ReadKeys(frame, *std::move(head));
}

absl::StatusOr<RowGradients> UnpackGradients(const Payload& frame, absl::Span<const uint32_t> widths) {
  absl::StatusOr<Head> head = ReadWhole(frame, widths, /*rows=*/true);
  if (!head.ok()) return head.status();
  const size_t before = head->bytes;
  RowGradients gradients{.rows = ReadKeys(frame, *std::move(head)), .numbers = {}};
  gradients.numbers.resize((frame.size() - before) / sizeof(float));
  std::memcpy(gradients.numbers.data(), frame.data() + before, frame.size() - before);
  return gradients;
}

absl::Status CheckKeys(const Payload& frame, absl::Span<const uint32_t> widths) {
  return ReadWhole(frame, widths, /*rows=*/false).status();
}

absl::Status CheckGradients(const Payload& frame, absl::Span<const uint32_t> widths) {
  return ReadWhole(frame, widths, /*rows=*/true).status();
}

bool AreInBucket(const Payload& frame, size_t tables, uint32_t bucket, uint32_t buckets) {
  const absl::StatusOr<Head> head = ReadHead(frame, tables);
  if (!head.ok()) return false;
  size_t at = CountBytes(tables);
  for (size_t table = 0; table < tables; ++table) {
    for (uint32_t i = 0; i < head->counts[table]; ++i, at += sizeof(uint64_t)) {
      if (BucketOf(table, KeyAt(frame, at), buckets) != bucket) return false;
    }
  }
  return true;
}

absl::Status CheckRowsOfBucket(size_t bytes) {
  if (bytes <= kMaxFrameBytes) return absl::OkStatus();
  return absl::CancelledError(
      absl::StrCat("a step needs ", bytes, " bytes of rows of one bucket, of at most ", kMaxFrameBytes,
                   ": give the job more buckets (model.tableBuckets) or smaller batches"));
}

size_t AnswerBytes(const Payload& keys, absl::Span<const uint32_t> widths) {
  const absl::StatusOr<Head> head = ReadHead(keys, widths.size());
  return head.ok() ? BytesOfRows(head->counts, widths) : 0;
}

}  // namespace downpour
