#include "ps/table/record_scan.h"

#include <cstring>
#include <utility>

namespace downpour {

RecordScan::RecordScan(const RecordPoint& point, const RecordPoint& base, uint64_t unborn, uint64_t born,
                       const RowPages& pages, std::vector<AdmissionCounts::Entry> counts)
    : point_(point),
      base_(base),
      unborn_(unborn),
      born_(born),
      end_(pages.end()),
      counts_(std::move(counts)),
      saved_(end_ == 0 ? 0 : pages.page_of(end_ - 1) + 1) {}

void RecordScan::Save(const RowPages& pages, uint32_t number) {
  SavedPage& page = saved_[pages.page_of(number)];
  if (page.entry_of.empty()) page.entry_of.resize(pages.rows_in_page());
  const size_t entry_bytes = sizeof(Place) + pages.row_bytes();
  const size_t begin = page.entries.size();
  page.entries.resize(begin + entry_bytes);
  std::memcpy(page.entries.data() + begin, &pages.at(number), sizeof(Place));
  std::memcpy(page.entries.data() + begin + sizeof(Place), pages.row(number), pages.row_bytes());
  page.entry_of[pages.slot_of(number)] = static_cast<uint32_t>(begin / entry_bytes + 1);
}

void RecordScan::Advance(const RowPages& pages) {
  const uint32_t page = pages.page_of(cursor_);
  cursor_ = pages.Next(cursor_);
  if (pages.page_of(cursor_) != page) saved_[page] = {};
}

std::pair<const Place*, const std::byte*> RecordScan::AtCursor(const RowPages& pages) const {
  // Whatever changed since the point has its mark, and was saved before its first change; later changes save nothing.
  if (pages.at(cursor_).mark != point_.number) return {&pages.at(cursor_), pages.row(cursor_)};
  const SavedPage& page = saved_[pages.page_of(cursor_)];
  const size_t entry = page.entry_of[pages.slot_of(cursor_)] - 1;
  const std::byte* const saved = page.entries.data() + entry * (sizeof(Place) + pages.row_bytes());
  return {reinterpret_cast<const Place*>(saved), saved + sizeof(Place)};
}

size_t RecordScan::bytes() const {
  size_t sum = counts_.capacity() * sizeof(AdmissionCounts::Entry);
  for (const SavedPage& page : saved_) {
    sum += sizeof(page) + page.entry_of.capacity() * sizeof(uint32_t) + page.entries.capacity();
  }
  return sum;
}

}  // namespace downpour
