#include "predict/table_rows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/prefetch.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr int kGroupBits = 16;
constexpr uint64_t kGroups = uint64_t{1} << kGroupBits;
constexpr int kRestBits = 64 - kGroupBits;
constexpr uint64_t kRestMask = (uint64_t{1} << kRestBits) - 1;
constexpr size_t kRestBytes = kRestBits / 8;
constexpr uint64_t kNear = 12;  // places; more than the spread of 150 keys

}  // namespace

TableRows::TableRows(const TableSpec& spec)
    : spec_(spec), shape_(ShapeOf(spec)), row_bytes_(shape_.value_bytes()), ends_(kGroups + 1) {}

// Mix is a permutation: two keys never have the same group and rest.
void TableRows::Count(uint64_t key) {
  ++ends_[(Mix(key) >> kRestBits) + 1];
  ++rows_;
}

absl::Status TableRows::Allocate() {
  // Until Finish ends_[g] is where the next row of group g goes.
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  // 8 bytes are read where 6 are meant.
  rests_.reset(new (std::nothrow) std::byte[rows_ * kRestBytes + sizeof(uint64_t)]);
  values_.reset(new (std::nothrow) std::byte[rows_ * row_bytes_ + sizeof(uint64_t)]);
  if (rests_ != nullptr && values_ != nullptr) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("no memory for ", rows_, " rows of a table, ", bytes(), " bytes"));
}

absl::Status TableRows::Add(uint64_t key, const std::byte* content) {
  const uint64_t mixed = Mix(key);
  uint64_t& next = ends_[mixed >> kRestBits];
  if (next >= rows_) return absl::InvalidArgumentError(absl::StrCat("a row of key ", key, " that was not counted"));
  ++added_;
  PutRest(next, mixed & kRestMask);
  std::memcpy(values_.get() + next * row_bytes_, content, row_bytes_);
  ++next;
  return absl::OkStatus();
}

absl::Status TableRows::Finish() {
  // Now ends_[g] is where group g ends, and so where the next one begins.
  if (added_ != rows_) return absl::InvalidArgumentError("rows of a table that were counted did not come");
  std::move_backward(ends_.begin(), ends_.end() - 1, ends_.end());
  ends_[0] = 0;
  for (uint64_t group = 0; group < kGroups; ++group) {
    if (ends_[group] > ends_[group + 1]) return absl::InvalidArgumentError("rows of a table that were not counted");
    if (absl::Status status = SortGroup(ends_[group], ends_[group + 1]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TableRows::SortGroup(uint64_t begin, uint64_t end) {
  std::vector<std::pair<uint64_t, uint64_t>> order;  // rests, and where they lie
  for (uint64_t place = begin; place < end; ++place) order.emplace_back(RestAt(place), place - begin);
  std::sort(order.begin(), order.end());
  const std::vector<std::byte> values(values_.get() + begin * row_bytes_, values_.get() + end * row_bytes_);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && order[i].first == order[i - 1].first) return absl::InvalidArgumentError("a key has two rows");
    PutRest(begin + i, order[i].first);
    std::memcpy(values_.get() + (begin + i) * row_bytes_, values.data() + order[i].second * row_bytes_, row_bytes_);
  }
  return absl::OkStatus();
}

void TableRows::Prefetch(uint64_t key) const { downpour::Prefetch(&ends_[Mix(key) >> kRestBits]); }

const float* TableRows::Find(uint64_t key, float* scratch) const {
  const uint64_t mixed = Mix(key), rest = mixed & kRestMask;
  const uint64_t begin = ends_[mixed >> kRestBits], end = ends_[(mixed >> kRestBits) + 1];
  // Rests are spread evenly, so the place is mostly near this one.
  const uint64_t guess = begin + (end - begin) * (rest >> kGroupBits) / (uint64_t{1} << (kRestBits - kGroupBits));
  uint64_t place = begin, above = end;  // the place is among these
  if (guess - begin > kNear && RestAt(guess - kNear) < rest) place = guess - kNear;
  if (end - guess > kNear && RestAt(guess + kNear) >= rest) above = guess + kNear;
  while (place < above) {
    const uint64_t middle = place + (above - place) / 2;
    (RestAt(middle) < rest ? place = middle + 1 : above = middle);
  }
  if (place == end || RestAt(place) != rest) {
    InitialRow(spec_, key, scratch);
    return scratch;
  }
  const std::byte* const row = values_.get() + place * row_bytes_;
  if (!spec_.halves) return reinterpret_cast<const float*>(row);
  ReadValues(shape_, row, scratch);
  return scratch;
}

uint64_t TableRows::bytes() const { return ends_.size() * sizeof(uint64_t) + rows_ * (kRestBytes + row_bytes_); }

uint64_t TableRows::RestAt(uint64_t place) const {
  uint64_t rest;
  std::memcpy(&rest, rests_.get() + place * kRestBytes, sizeof(rest));
  return rest & kRestMask;
}

void TableRows::PutRest(uint64_t place, uint64_t rest) {
  std::memcpy(rests_.get() + place * kRestBytes, &rest, kRestBytes);  // little-endian
}

}  // namespace downpour
