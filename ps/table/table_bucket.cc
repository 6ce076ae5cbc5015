#include "ps/table/table_bucket.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/prefetch.h"

namespace downpour {
namespace {

constexpr size_t kBlock = 16;                      // keys whose cache misses overlap
constexpr size_t kSwept = 64;                      // places that a push looks at, and more for each of its keys
constexpr size_t kSweptForKey = 4;                 // so that sweeping keeps up with births
constexpr size_t kPlacesInPart = size_t{1} << 18;  // that a part may have passed, so that none takes long

// Rows that begin with draws of this range are bounded by it, and slots by 0.
Magnitudes BoundsOfNew(const TableSpec& spec) { return {spec.initial * (1 + 0x1p-7), 0, 0}; }

}  // namespace

TableBucket::TableBucket(const TableSpec& spec, uint64_t copy)
    : spec_(spec),
      shape_(ShapeOf(spec)),
      copy_(copy),
      bounds_(BoundsOfNew(spec)),
      index_(MixAll(spec.seed, copy)),
      pages_(shape_.bytes()),
      initial_(spec.width) {
  const absl::Status status = CheckTable(spec);
  CHECK(status.ok()) << status;
  if (spec.admit_after > 1) counts_.emplace(spec.admission_counts);
  if (spec.max_rows > 0 && spec.evict_after > 0) alive_.emplace(spec.evict_after);
}

size_t TableBucket::bytes() const {
  return index_.bytes() + pages_.bytes() + (counts_ ? counts_->bytes() : 0) + (alive_ ? alive_->bytes() : 0) +
         record_bytes();
}

inline void TableBucket::FetchRow(uint32_t place, size_t bytes) const {
  const std::byte* const row = pages_.row(place);
  for (size_t at = 0; at < bytes; at += 64) Prefetch(row + at);
}

// Four stages for each key, kBlock keys apart, so no cache miss holds up another: fetch its line of the index; look
// there for its place, and fetch the row; do so for a key that lies further on; use the rows, a block at a time. The
// first three alternate key by key, so that a core is never asked for many lines at once.
template <class Fetch, class Use>
void TableBucket::ForEachBlock(absl::Span<const uint64_t> keys, const Fetch& fetch, const Use& use) const {
  constexpr size_t kInFlight = 4 * kBlock;
  std::array<uint64_t, kInFlight> hashes;
  std::array<uint32_t, kInFlight> places;
  const size_t end = (keys.size() + kBlock - 1) / kBlock * kBlock;
  // An index below 0 is a large one, of no key.
  for (size_t i = 0; i < end + 3 * kBlock; ++i) {
    if (i < keys.size()) {
      hashes[i % kInFlight] = index_.HashOf(keys[i]);
      index_.Prefetch(hashes[i % kInFlight]);
    }
    if (const size_t j = i - kBlock; j < keys.size()) {
      const uint32_t place = index_.FindAtHome(keys[j], hashes[j % kInFlight]);
      places[j % kInFlight] = place;
      if (place < KeyIndex::kFurther) fetch(place);
    }
    if (const size_t j = i - 2 * kBlock; j < keys.size() && places[j % kInFlight] == KeyIndex::kFurther) {
      const uint32_t place = index_.Find(keys[j], hashes[j % kInFlight]);
      places[j % kInFlight] = place;
      if (place != kNoPlace) fetch(place);
    }
    if (const size_t begin = i + 1 - kInFlight; begin % kBlock == 0 && begin < keys.size()) {
      use(begin, absl::MakeConstSpan(&places[begin % kInFlight], std::min(kBlock, keys.size() - begin)));
    }
  }
}

void TableBucket::Gather(absl::Span<const uint64_t> keys, float* values) const {
  const auto fetch = [this](uint32_t place) {
    FetchRow(place, shape_.value_bytes());
    if (spec_.evict_after > 0) Prefetch(&pages_.at(place));
  };
  const auto use = [&](size_t begin, absl::Span<const uint32_t> places) {
    for (size_t i = 0; i < places.size(); ++i) {
      float* const to = values + (begin + i) * spec_.width;
      if (IsAbsent(places[i])) {
        InitialRow(spec_, keys[begin + i], to);
      } else {
        ReadValues(shape_, pages_.row(places[i]), to);
      }
    }
  };
  ForEachBlock(keys, fetch, use);
}

absl::StatusOr<PushEffect> TableBucket::Apply(const RowPush& push) {
  if (push.gradients.size() != push.keys.size() * spec_.width) {
    return absl::InvalidArgumentError(absl::StrCat("a push to table ", spec_.id, " has ", push.gradients.size(),
                                                   " gradients for ", push.keys.size(), " keys of width ",
                                                   spec_.width));
  }
  if (HasDuplicate(push.keys)) {
    return absl::InvalidArgumentError(absl::StrCat("a push to table ", spec_.id, " has a key twice"));
  }
  CHECK(!push.stale || spec_.row_staleness);
  if (clock_ == std::numeric_limits<uint32_t>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat("bucket ", spec_.bucket, " of table ", spec_.id, " has had ",
                                                     clock_, " pushes, and counts no more: begin a new job"));
  }
  PushEffect effect;
  if (!push.keys.empty() && !IsSafe(push)) {
    effect.skipped = true;
  } else {
    const bool knows_last = KnowsLastPush(spec_);
    const auto fetch = [this, knows_last](uint32_t place) {
      if (knows_last) Prefetch(&pages_.at(place));
      FetchRow(place, shape_.bytes());
    };
    ForEachBlock(push.keys, fetch,
                 [&](size_t begin, absl::Span<const uint32_t> places) { UpdateBlock(push, begin, places, &effect); });
  }
  ++clock_;
  unborn_ += effect.unborn;
  if (alive_) alive_->Consumed(clock_);
  if (spec_.evict_after > 0) Sweep(kSwept + kSweptForKey * push.keys.size());
  return effect;
}

// Ascending keys tell by themselves. Others are looked up among those before.
bool TableBucket::HasDuplicate(absl::Span<const uint64_t> keys) {
  if (std::adjacent_find(keys.begin(), keys.end(), std::greater_equal<>()) == keys.end()) return false;
  const int bits = std::bit_width(keys.size() - 1) + 1;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  seen_.assign(mask + 1, 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    uint64_t at = index_.HashOf(keys[i]) >> (64 - bits);
    for (; seen_[at] != 0; at = (at + 1) & mask) {
      if (keys[seen_[at] - 1] == keys[i]) return true;
    }
    seen_[at] = static_cast<uint32_t>(i + 1);
  }
  return false;
}

// By the bounds of all rows, and where these have grown beyond reason by what the push's own rows hold. Both say yes
// where the second does (row_kernels.h), so it does not matter that bounds differ between copies of a bucket.
bool TableBucket::IsSafe(const RowPush& push) {
  const double largest = LargestMagnitude(push.gradients);
  if (!std::isfinite(largest)) return false;
  const auto stay_safe = [&](Magnitudes* bounds) {
    Magnitudes by_fresh = *bounds, by_stale = *bounds;
    if (!RowsStaySafe(push.fresh, shape_, largest, &by_fresh)) return false;
    if (push.stale && !RowsStaySafe(*push.stale, shape_, largest, &by_stale)) return false;
    for (size_t i = 0; i < bounds->size(); ++i) (*bounds)[i] = std::max(by_fresh[i], by_stale[i]);
    if (shape_.halves) (*bounds)[0] *= 1 + 0x1p-8;  // as they are rounded
    return true;
  };
  if (stay_safe(&bounds_)) return true;
  Magnitudes own = BoundsOfNew(spec_);
  const auto raise = [&](size_t, absl::Span<const uint32_t> places) {
    for (uint32_t place : places) {
      if (!IsAbsent(place)) RaiseToRow(shape_, pages_.row(place), &own);
    }
  };
  ForEachBlock(
      push.keys, [this](uint32_t place) { FetchRow(place, shape_.bytes()); }, raise);
  return stay_safe(&own);
}

void TableBucket::UpdateBlock(const RowPush& push, size_t begin, absl::Span<const uint32_t> places,
                              PushEffect* effect) {
  std::array<UpdatedRow, kBlock> fresh, stale;
  size_t fresh_count = 0, stale_count = 0;
  const bool knows_last = KnowsLastPush(spec_);
  for (size_t i = 0; i < places.size(); ++i) {
    uint32_t place = places[i];
    const bool absent = IsAbsent(place);
    if (absent) place = Admit(push.keys[begin + i], place, effect);
    if (place == kNoPlace) continue;
    // A row that nobody has pushed since the pull missed nothing, however many pushes the bucket has had.
    const bool is_stale = push.stale && !absent && pages_.at(place).last > push.pulled_at;
    if (!absent) {
      BeforeChange(place);
      if (alive_) alive_->Pushed(pages_.at(place).last, clock_ + 1);
      if (knows_last) pages_.at(place).last = clock_ + 1;
    }
    (is_stale ? stale[stale_count++] : fresh[fresh_count++]) = {pages_.row(place), begin + i};
  }
  UpdateRows(push.fresh, shape_, push.gradients, absl::MakeConstSpan(fresh.data(), fresh_count));
  if (stale_count > 0) {
    UpdateRows(*push.stale, shape_, push.gradients, absl::MakeConstSpan(stale.data(), stale_count));
  }
}

// Of a key that is absent; `place` is where its row lay until it expired, if it did. Returns where the row is, or
// kNoPlace if it is not born.
uint32_t TableBucket::Admit(uint64_t key, uint32_t place, PushEffect* effect) {
  if (counts_ && counts_->Raise(key, age(), clock_ + 1, points_) < spec_.admit_after) {
    ++effect->counted;
    return kNoPlace;
  }
  if (spec_.max_rows > 0 && (alive_ ? alive_->alive() : rows_) >= spec_.max_rows) {
    ++effect->unborn;
    return kNoPlace;
  }
  if (counts_) counts_->Remove(key, points_);
  if (alive_) alive_->Born(clock_ + 1);
  ++effect->born;
  return Bear(key, place);
}

uint32_t TableBucket::Bear(uint64_t key, uint32_t place) {
  if (place == kNoPlace) {
    place = pages_.Take();
    index_.Insert(key, index_.HashOf(key), place);
    ++rows_;
  }
  BeforeChange(place);
  pages_.at(place).key = key;
  pages_.at(place).last = clock_ + 1;
  InitialRow(spec_, key, initial_.data());
  BeginRow(shape_, initial_.data(), pages_.row(place));
  return place;
}

void TableBucket::BeforeChange(uint32_t place) {
  if (!pages_.Touch(place)) return;  // it has changed since the last point, and has that mark
  if (scan_ && scan_->IsAhead(place)) scan_->Save(pages_, place);
  pages_.at(place).mark = points_;
}

void TableBucket::Sweep(size_t places) {
  for (size_t i = 0; i < places && pages_.end() > 0; ++i) {
    if (sweep_ >= pages_.end()) sweep_ = 0;
    const uint32_t place = sweep_;
    sweep_ = pages_.Next(place);
    const Place& at = pages_.at(place);
    if (at.last == 0 || !age().Expired(at.last)) continue;
    BeforeChange(place);
    index_.Remove(at.key, index_.HashOf(at.key));
    pages_.Free(place);
    --rows_;
  }
}

RecordPoint TableBucket::BeginRecord(const std::optional<RecordPoint>& base) {
  const bool is_own = base && base->copy == copy_ && base->number >= 1 && base->number <= points_;
  const RecordPoint point = {copy_, ++points_, clock_};
  pages_.ForgetTouched();
  scan_.emplace(point, is_own ? *base : RecordPoint(), unborn_, rows_, pages_,
                counts_ ? counts_->entries() : std::vector<AdmissionCounts::Entry>());
  return point;
}

Payload TableBucket::NextPart(size_t max_bytes) {
  CHECK(scan_.has_value());
  const TablePartHeader header = {.table = spec_.id,
                                  .point = scan_->point(),
                                  .unborn = scan_->unborn(),
                                  .base = scan_->base().number,
                                  .index = scan_->NextPart(),
                                  .width = spec_.width,
                                  .form = FormOf(spec_),
                                  .bucket = spec_.bucket,
                                  .buckets = spec_.buckets,
                                  .born = static_cast<uint32_t>(scan_->born())};
  TablePartWriter part(header, spec_, max_bytes);
  FillPart(&part);
  const bool is_last = scan_->AtEnd();
  if (is_last) scan_.reset();
  return std::move(part).Finish(is_last);
}

void TableBucket::FillPart(TablePartWriter* part) {
  const RecordPoint base = scan_->base();
  const AgeRule then = {spec_.evict_after, base.clock};
  const AgeRule at_point = {spec_.evict_after, scan_->point().clock};
  for (size_t passed = 0; scan_->HasPlaces() && passed < kPlacesInPart && part->HasRoom(); ++passed) {
    const auto [place, row] = scan_->AtCursor(pages_);
    const bool is_row = place->last != 0 && !at_point.Expired(place->last);
    // What expired since the base has changed without a push.
    const bool went = place->last != 0 && !is_row && !then.Expired(place->last);
    if (base.number == 0 ? is_row : place->mark >= base.number || went) {
      // Where it is not known, the last push counts as that before the point, or as the first.
      const uint32_t last = KnowsLastPush(spec_) ? place->last : std::max<uint32_t>(scan_->point().clock, 1);
      is_row ? part->AddRow({scan_->cursor(), last, place->key}, row) : part->AddEmpty(scan_->cursor());
    }
    scan_->Advance(pages_);
  }
  while (!scan_->HasPlaces() && !scan_->AtEnd() && part->HasRoom()) {
    const uint32_t number = scan_->NextCount();
    const AdmissionCounts::Entry& entry = scan_->CountAt(number);
    const bool is_counted = entry.last != 0 && !at_point.Expired(entry.last);
    if (base.number == 0 ? is_counted : entry.mark >= base.number) {
      part->AddCount(number, is_counted ? entry : AdmissionCounts::Entry());
    }
  }
}

uint32_t TableBucket::InstallRow(uint64_t key, uint32_t last, const std::byte* row) {
  const uint64_t hash = index_.HashOf(key);
  if (index_.Find(key, hash) != kNoPlace) return kNoPlace;
  const uint32_t place = pages_.Take();
  index_.Insert(key, hash, place);
  ++rows_;
  pages_.at(place) = {.key = key, .last = last};
  std::memcpy(pages_.row(place), row, shape_.bytes());
  return place;
}

// Each push was so many pushes later: so ages stay what they are.
void TableBucket::ShiftClock(uint32_t pushes) {
  clock_ += pushes;
  for (uint32_t place = 0; place < pages_.end(); place = pages_.Next(place)) {
    if (pages_.at(place).last != 0) pages_.at(place).last += pushes;
  }
  if (counts_) counts_->Shift(pushes);
}

void TableBucket::CountAlive() {
  if (!alive_) return;
  for (uint32_t place = 0; place < pages_.end(); place = pages_.Next(place)) {
    if (const uint32_t last = pages_.at(place).last; last != 0 && !age().Expired(last)) alive_->Born(last);
  }
}

}  // namespace downpour
