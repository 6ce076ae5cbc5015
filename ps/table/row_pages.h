// RowPages: the rows of a bucket at numbered places, and of each place what the bucket knows of it.
//
//   const uint32_t place = pages.Take();
//   std::memcpy(pages.row(place), row, shape.bytes());
//   pages.Free(place);
//
// Shapes: a page has 2 MiB: rows side by side, then a Place for each. Numbers of places have gaps at the ends of pages:
//   Next(place) leaps over them. end() is behind the last one that was ever taken.
// Order: rows do not move, so that a number is good as long as its row lives. Places are taken in the order of their
//   numbers; freed ones first, the last freed before the others. Contents of a new row are undefined, and its Place is
//   empty with mark 0. A freed place keeps its mark.
// Cost: address arithmetic; no division. bytes() is what was touched.
// Tests: tests/unit/ps/table/row_pages_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ps/table/arena.h"

namespace downpour {

inline constexpr uint32_t kNoPlace = ~uint32_t{0};

struct Place {
  uint64_t key = 0;
  uint32_t mark = 0;  // points that this copy of the bucket had taken when the place last changed
  uint32_t last = 0;  // which push to the bucket was the last of the row, from 1 on; 0: the place is empty
};

class RowPages {
 public:
  explicit RowPages(size_t row_bytes);  // a multiple of 4

  // That so many rows are to come, so that their pages are huge at once.
  void Expect(uint64_t rows) { expected_pages_ = rows / rows_in_page_; }

  uint32_t Take();
  void Free(uint32_t place);

  std::byte* row(uint32_t place) { return arenas_[place >> bits_] + (place & mask_) * row_bytes_; }
  const std::byte* row(uint32_t place) const { return arenas_[place >> bits_] + (place & mask_) * row_bytes_; }
  Place& at(uint32_t place) { return PlacesOf(place >> bits_)[place & mask_]; }
  const Place& at(uint32_t place) const { return PlacesOf(place >> bits_)[place & mask_]; }

  // The number behind this one.
  uint32_t Next(uint32_t place) const {
    return (place & mask_) + 1 < rows_in_page_ ? place + 1 : ((place >> bits_) + 1) << bits_;
  }
  uint32_t end() const { return end_; }
  size_t row_bytes() const { return row_bytes_; }
  uint32_t page_of(uint32_t place) const { return place >> bits_; }
  uint32_t slot_of(uint32_t place) const { return place & mask_; }
  uint32_t rows_in_page() const { return rows_in_page_; }
  size_t bytes() const;

 private:
  Place* PlacesOf(uint32_t page) const { return reinterpret_cast<Place*>(arenas_[page] + places_at_); }

  size_t row_bytes_;
  uint32_t rows_in_page_;
  uint32_t bits_;  // of a place's number within its page
  uint32_t mask_;
  size_t places_at_;  // in a page
  uint64_t expected_pages_ = 0;
  uint32_t end_ = 0;
  std::vector<uint32_t> free_;
  Arenas arenas_;
};

}  // namespace downpour
