#include "data/record_index.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "data/record_scan.h"
#include "data/word_hash.h"

namespace downpour {

size_t RecordIndex::PieceOf(uint64_t record) const {
  const auto above = std::upper_bound(pieces.begin(), pieces.end(), record,
                                      [](uint64_t wanted, const Piece& piece) { return wanted < piece.first; });
  return static_cast<size_t>(above - pieces.begin()) - 1;
}

std::string CuttingOf(const std::string& format, const RecordFile& file) {
  return absl::StrCat(format, " ", file.begin(), " ", file.first_line(), " ", file.cutting());
}

absl::StatusOr<RecordIndex> ScanRecords(const std::string& format, const ByteSource& source, const RecordFile& file) {
  RecordIndex index;
  index.size = source.size();
  index.version = source.version();
  index.cutting = CuttingOf(format, file);
  RecordScanner scanner(source, file);
  RunningHash hash;
  std::string_view run;
  bool is_record = false;
  for (;;) {
    const absl::StatusOr<bool> more = scanner.NextRun(&run, &is_record);
    if (!more.ok()) return more.status();
    const bool is_full = !index.pieces.empty() && (index.pieces.back().bytes >= kPieceBytes ||
                                                   (is_record && index.pieces.back().records == kPieceRecords));
    if (!index.pieces.empty() && (is_full || !*more)) index.pieces.back().checksum = hash.Value();
    if (!*more) return index;
    if (index.pieces.empty() || is_full) {
      const uint64_t first = index.records();
      index.pieces.push_back({.offset = scanner.offset(), .first = first, .line = scanner.line()});
      hash.Begin();
    }
    hash.Add(run);
    index.pieces.back().bytes += static_cast<uint32_t>(run.size());
    index.pieces.back().records += is_record;
  }
}

}  // namespace downpour
