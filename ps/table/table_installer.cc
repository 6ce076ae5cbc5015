#include "ps/table/table_installer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr uint32_t kNoRow = ~uint32_t{0};

absl::Status Wrong(const TablePartHeader& header, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the record of bucket ", header.bucket, " of table ", header.table,
                                                 ", part ", header.index, ": ", what));
}

bool AllFinite(const Magnitudes& magnitudes) {
  return std::all_of(magnitudes.begin(), magnitudes.end(), [](double m) { return std::isfinite(m); });
}

}  // namespace

bool TableInstaller::Numbers::Take(uint32_t number) {
  if (number <= own_) return false;
  own_ = number;
  while (next_ < newer_.size() && newer_[next_] < number) ++next_;
  if (has_base_) named_.push_back(number);
  return true;
}

void TableInstaller::Numbers::Begin(bool has_base) {
  std::vector<uint32_t> all;
  std::set_union(newer_.begin(), newer_.end(), named_.begin(), named_.end(), std::back_inserter(all));
  newer_ = std::move(all);
  named_.clear();
  next_ = 0;
  own_ = -1;
  has_base_ = has_base;
}

absl::Status TableInstaller::Add(absl::Span<const std::byte> part) {
  if (failed_) return absl::FailedPreconditionError("a part of the record was refused before");
  const absl::Status status = Take(part);
  failed_ = !status.ok();
  return status;
}

absl::Status TableInstaller::Take(absl::Span<const std::byte> bytes) {
  const absl::StatusOr<TablePart> part = ReadTablePart(bytes, bucket_.spec());
  if (!part.ok()) return part.status();
  const TablePartHeader& header = part->header;
  if (absl::Status status = CheckOrder(header); !status.ok()) return status;
  if (!last_) BeginBucket(header);
  if (header.index == 0) {
    places_.Begin(header.base != 0);
    entries_.Begin(header.base != 0);
  }
  if (absl::Status status = TakePlaces(*part); !status.ok()) return status;
  if (absl::Status status = TakeCounts(*part); !status.ok()) return status;
  last_ = header;
  if (header.is_last == 0 || header.base != 0) return absl::OkStatus();
  whole_[header.bucket] = true;
  last_.reset();
  return absl::OkStatus();
}

// Parts of one scan make a record, and records of one copy a chain: nothing is put together of several.
absl::Status TableInstaller::CheckOrder(const TablePartHeader& header) const {
  if (header.point.number == 0 || header.base >= header.point.number || header.is_last > 1) {
    return Wrong(header, "no writer names points so");
  }
  if (header.buckets < 1 || header.buckets > kMostBuckets || header.bucket >= header.buckets) {
    return Wrong(header, absl::StrCat("there is no such bucket among ", header.buckets));
  }
  if (!last_) {
    if (header.index != 0) return Wrong(header, "the first part is missing");
    if (!whole_.empty() && whole_.size() != header.buckets) {
      return Wrong(header, absl::StrCat("it is one of ", header.buckets, " buckets, those before of ", whole_.size()));
    }
    if (!whole_.empty() && whole_[header.bucket]) return Wrong(header, "it was there before");
    return absl::OkStatus();
  }
  const bool same_bucket = header.bucket == last_->bucket && header.buckets == last_->buckets;
  if (!same_bucket || header.point.copy != last_->point.copy) return Wrong(header, "the one before is not complete");
  if (last_->is_last == 0) {
    const bool same_record = header.point == last_->point && header.base == last_->base;
    if (same_record && header.index == last_->index + 1) return absl::OkStatus();
    return Wrong(header, absl::StrCat("part ", last_->index + 1, " of point ", last_->point.number, " is due"));
  }
  if (header.index == 0 && header.point.number == last_->base && header.point.clock <= last_->point.clock) {
    return absl::OkStatus();
  }
  return Wrong(header, absl::StrCat("the record of point ", last_->base, " is due, on which that of point ",
                                    last_->point.number, " builds"));
}

// Clocks of several buckets differ. Ages of rows count, so they are kept: the clock here is the latest.
void TableInstaller::BeginBucket(const TablePartHeader& header) {
  whole_.resize(header.buckets);
  places_ = {};
  entries_ = {};
  if (header.point.clock > bucket_.clock_) bucket_.ShiftClock(header.point.clock - bucket_.clock_);
  shift_ = bucket_.clock_ - header.point.clock;
  bucket_.unborn_ += header.unborn;
  bucket_.pages_.Expect(
      bucket_.rows_ + std::min<uint64_t>(header.born, uint64_t{header.born} * header.buckets / bucket_.spec_.buckets));
}

absl::Status TableInstaller::TakePlaces(const TablePart& part) {
  const TablePartHeader& header = part.header;
  // Rows and empty places are two lists. Each ascends if they do so once they are merged and sorted by nobody.
  std::vector<std::pair<uint32_t, uint32_t>> rows, empties, all;
  for (uint32_t i = 0; i < header.rows; ++i) rows.emplace_back(part.Row(i).number, i);
  for (uint32_t i = 0; i < header.empties; ++i) empties.emplace_back(part.Empty(i), kNoRow);
  std::merge(rows.begin(), rows.end(), empties.begin(), empties.end(), std::back_inserter(all));
  for (const auto& [number, i] : all) {
    if (!places_.Take(number)) return Wrong(header, absl::StrCat("place ", number, " comes late or twice"));
    if (i == kNoRow) continue;
    const RowEntry entry = part.Row(i);
    if (absl::Status status = CheckEntry(header, entry.key, entry.last); !status.ok()) return status;
    if (places_.WasNewer() || !IsWanted(entry.key)) continue;
    if (absl::Status status = TakeRow(header, entry, part.Content(i)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TableInstaller::TakeRow(const TablePartHeader& header, const RowEntry& entry, const std::byte* row) {
  const uint32_t place = bucket_.InstallRow(entry.key, entry.last + shift_, row);
  if (place == kNoPlace) return Wrong(header, absl::StrCat("key ", entry.key, " comes twice"));
  // Looked at where it lies now, since a part that came by a socket may begin at an odd address.
  const RowShape& shape = bucket_.shape_;
  const std::byte* const installed = bucket_.pages_.row(place);
  Magnitudes magnitudes = {};
  RaiseToRow(shape, installed, &magnitudes);
  if (!AllFinite(magnitudes)) return Wrong(header, absl::StrCat("key ", entry.key, " has numbers that are not finite"));
  if (const size_t squares = SlotOfSquares(bucket_.spec_); squares < shape.slots) {
    const float* const slot = shape.slot(installed, squares);
    if (std::any_of(slot, slot + shape.slot_width(), [](float s) { return s < 0; })) {
      return Wrong(header, absl::StrCat("key ", entry.key, " has a sum of squares below 0"));
    }
  }
  for (size_t i = 0; i < magnitudes.size(); ++i) bucket_.bounds_[i] = std::max(bucket_.bounds_[i], magnitudes[i]);
  return absl::OkStatus();
}

absl::Status TableInstaller::TakeCounts(const TablePart& part) {
  const TablePartHeader& header = part.header;
  for (uint32_t i = 0; i < header.counts; ++i) {
    const CountEntry entry = part.Count(i);
    if (!entries_.Take(entry.number))
      return Wrong(header, absl::StrCat("count ", entry.number, " comes late or twice"));
    if (entry.count == 0) continue;
    if (absl::Status status = CheckEntry(header, entry.key, entry.last); !status.ok()) return status;
    if (entries_.WasNewer() || !IsWanted(entry.key) || !bucket_.counts_) continue;
    if (!bucket_.counts_->Put({.key = entry.key, .last = entry.last + shift_, .count = entry.count})) {
      return Wrong(header, absl::StrCat("key ", entry.key, " is counted twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status TableInstaller::CheckEntry(const TablePartHeader& header, uint64_t key, uint32_t last) const {
  // Before any push there are rows that the job began with: they count as if the first push had them.
  if (last == 0 || last > std::max<uint32_t>(header.point.clock, 1)) {
    return Wrong(header, absl::StrCat("key ", key, " was pushed by push ", last, " of ", header.point.clock));
  }
  const uint32_t bucket = BucketOf(header.table, key, header.buckets);
  if (bucket != header.bucket) return Wrong(header, absl::StrCat("key ", key, " belongs to bucket ", bucket));
  return absl::OkStatus();
}

bool TableInstaller::IsWanted(uint64_t key) const {
  const TableSpec& spec = bucket_.spec_;
  return BucketOf(spec.id, key, spec.buckets) == spec.bucket;
}

absl::StatusOr<TableBucket> TableInstaller::Finish() && {
  if (failed_) return absl::FailedPreconditionError("a part of the record was refused before");
  const TableSpec& spec = bucket_.spec_;
  if (last_) return Wrong(*last_, "it is not complete");
  if (whole_.empty()) return absl::InvalidArgumentError("a table's bucket has no record");
  for (uint64_t i = 0; i < whole_.size(); ++i) {
    const bool shares = i * spec.buckets < (spec.bucket + uint64_t{1}) * whole_.size() &&
                        (i + 1) * spec.buckets > spec.bucket * uint64_t{whole_.size()};
    if (shares && !whole_[i]) {
      return absl::InvalidArgumentError(absl::StrCat("bucket ", spec.bucket, " of ", spec.buckets, " of table ",
                                                     spec.id, " has keys of bucket ", i, " of ", whole_.size(),
                                                     ", whose record is missing"));
    }
  }
  bucket_.CountAlive();
  return std::move(bucket_);
}

}  // namespace downpour
