#include "ps/table/row_pages.h"

#include <glog/logging.h>

#include <bit>

namespace downpour {
namespace {

constexpr size_t kFirstHugePage = 32;  // of a bucket so large it does not count that the last page may be empty

}  // namespace

RowPages::RowPages(size_t row_bytes)
    : row_bytes_(row_bytes), rows_in_page_(static_cast<uint32_t>(Arenas::kBytes / (row_bytes + sizeof(Place)))) {
  CHECK_GT(rows_in_page_, 0u);
  bits_ = static_cast<uint32_t>(std::bit_width(rows_in_page_ - 1));
  mask_ = (uint32_t{1} << bits_) - 1;
  places_at_ = Arenas::kBytes - rows_in_page_ * sizeof(Place);
}

uint32_t RowPages::Take() {
  if (!free_.empty()) {
    const uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  if (page_of(end_) == arenas_.size()) {
    CHECK_LT(end_, kNoPlace - mask_ - 1) << "a bucket has 2^32 places; give the job more buckets";
    arenas_.Add(arenas_.size() < expected_pages_ || arenas_.size() >= kFirstHugePage);
  }
  const uint32_t place = end_;
  at(place) = {};
  end_ = Next(place);
  if (page_of(end_) != page_of(place)) Arenas::Filled(arenas_[page_of(place)]);
  return place;
}

void RowPages::Free(uint32_t place) {
  at(place).last = 0;
  free_.push_back(place);
}

size_t RowPages::bytes() const {
  const size_t full = page_of(end_), touched = slot_of(end_);
  return full * Arenas::kBytes + touched * (row_bytes_ + sizeof(Place)) + free_.capacity() * sizeof(uint32_t);
}

}  // namespace downpour
