#include "runtime/row_frames.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr uint64_t kBucketStream = 11;  // apart from other draws

size_t CountBytes(size_t tables) { return (tables + tables % 2) * sizeof(uint32_t); }

// The counts of a frame that is long enough for its keys; the bytes of both.
struct Head {
  RowKeys rows;  // without the keys
  size_t bytes = 0;
};
absl::StatusOr<Head> ReadHead(const Payload& frame, size_t tables) {
  const size_t before = CountBytes(tables);
  if (frame.size() < before) {
    return absl::InvalidArgumentError(absl::StrCat("has ", frame.size(), " bytes for counts of ", tables, " tables"));
  }
  Head head;
  head.rows.counts.resize(tables);
  std::memcpy(head.rows.counts.data(), frame.data(), tables * sizeof(uint32_t));
  const size_t keys = std::accumulate(head.rows.counts.begin(), head.rows.counts.end(), size_t{0});
  head.bytes = before + keys * sizeof(uint64_t);
  if (keys > 0 && frame.size() >= head.bytes) return head;
  return absl::InvalidArgumentError(absl::StrCat("has ", frame.size(), " bytes for ", keys, " keys"));
}

void ReadKeys(const Payload& frame, Head* head) {
  const size_t before = CountBytes(head->rows.counts.size());
  head->rows.keys.resize((head->bytes - before) / sizeof(uint64_t));
  std::memcpy(head->rows.keys.data(), frame.data() + before, head->bytes - before);
}

}  // namespace

uint32_t BucketOf(uint64_t table, uint64_t key, uint32_t buckets) {
  return static_cast<uint32_t>((MixAll(kBucketStream, table, key) >> 32) * buckets >> 32);
}

size_t RowBytes(const RowKeys& rows, absl::Span<const uint32_t> widths) {
  size_t numbers = 0;
  for (size_t table = 0; table < widths.size(); ++table) numbers += size_t{rows.counts[table]} * widths[table];
  return numbers * sizeof(float);
}

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
  absl::StatusOr<Head> head = ReadHead(frame, widths.size());
  if (!head.ok()) return head.status();
  if (frame.size() != head->bytes) {
    return absl::InvalidArgumentError(absl::StrCat("has ", frame.size(), " bytes, of which keys are ", head->bytes));
  }
  ReadKeys(frame, &*head);
  return std::move(head->rows);
}

absl::StatusOr<RowGradients> UnpackGradients(const Payload& frame, absl::Span<const uint32_t> widths) {
  absl::StatusOr<Head> head = ReadHead(frame, widths.size());
  if (!head.ok()) return head.status();
  const size_t numbers = RowBytes(head->rows, widths);
  if (frame.size() != head->bytes + numbers) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", frame.size(), " bytes, of which keys and rows are ", head->bytes + numbers));
  }
  ReadKeys(frame, &*head);
  RowGradients gradients{.rows = std::move(head->rows), .numbers = std::vector<float>(numbers / sizeof(float))};
  std::memcpy(gradients.numbers.data(), frame.data() + head->bytes, numbers);
  return gradients;
}

size_t AnswerBytes(const Payload& keys, absl::Span<const uint32_t> widths) {
  const absl::StatusOr<Head> head = ReadHead(keys, widths.size());
  return head.ok() ? RowBytes(head->rows, widths) : 0;
}

}  // namespace downpour
