// RecordScan: a cursor over the places of a bucket, and what changed before it came by.
//
//   scan.Save(pages, place);                        // before the first change of a place since the point
//   const auto [place, row] = scan.AtCursor(pages);
//   scan.Advance(pages);
//
// Source: copy-on-update of Cao et al., "Fast Checkpoint Recovery Algorithms for Frequently Consistent Applications",
//   SIGMOD 2011: the record is of one point, and nothing waits for it.
// Order: the scan goes by places, which do not move, and not by the index, which is rebuilt under it. "Empty" is
//   content as well: a place that is born into, or freed, is saved before.
// Cost: memory for the rows that were pushed before the cursor came to them, page by page; it is given back as the
//   cursor leaves a page.
// Tests: tests/unit/ps/table/table_record_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ps/table/admission_counts.h"
#include "ps/table/row_pages.h"
#include "ps/table/table_part.h"

namespace downpour {

class RecordScan {
 public:
  // `base`: number 0 for a whole record. Counts are copied at the point: they are few.
  RecordScan(const RecordPoint& point, const RecordPoint& base, uint64_t unborn, uint64_t born, const RowPages& pages,
             std::vector<AdmissionCounts::Entry> counts);

  const RecordPoint& point() const { return point_; }
  const RecordPoint& base() const { return base_; }
  uint64_t unborn() const { return unborn_; }
  uint64_t born() const { return born_; }

  // Whether the cursor is to come to this place yet.
  bool IsAhead(uint32_t number) const { return number >= cursor_ && number < end_; }
  void Save(const RowPages& pages, uint32_t number);

  bool AtEnd() const { return cursor_ >= end_ && next_count_ >= counts_.size(); }
  bool HasPlaces() const { return cursor_ < end_; }
  uint32_t NextCount() { return next_count_++; }
  uint32_t NextPart() { return next_part_++; }

  // The place that the cursor comes to, and what it was at the point. What is saved in a page goes with the next one.
  uint32_t cursor() const { return cursor_; }
  std::pair<const Place*, const std::byte*> AtCursor(const RowPages& pages) const;
  void Advance(const RowPages& pages);
  const AdmissionCounts::Entry& CountAt(uint32_t number) const { return counts_[number]; }

  size_t bytes() const;

 private:
  struct SavedPage {
    std::vector<uint32_t> entry_of;  // by slot in the page; 0: not saved, else one more than its entry
    std::vector<std::byte> entries;  // a Place and its row, each
  };

  RecordPoint point_;
  RecordPoint base_;
  uint64_t unborn_;
  uint64_t born_;
  uint32_t end_;  // places that there were at the point
  std::vector<AdmissionCounts::Entry> counts_;
  uint32_t cursor_ = 0;
  uint32_t next_count_ = 0;
  uint32_t next_part_ = 0;
  std::vector<SavedPage> saved_;  // by page
};

}  // namespace downpour
