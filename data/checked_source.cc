#include "data/checked_source.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "data/word_hash.h"

namespace downpour {

absl::StatusOr<RecordIndex> ScanBytes(const std::string& cutting, const ByteSource& source) {
  RecordIndex index;
  index.size = source.size();
  index.version = source.version();
  index.cutting = cutting;
  std::string bytes(kCheckedBytes, '\0');
  for (uint64_t offset = 0; offset < index.size; offset += kCheckedBytes) {
    const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(kCheckedBytes, index.size - offset));
    const absl::StatusOr<size_t> got = source.Read(offset, {reinterpret_cast<uint8_t*>(bytes.data()), wanted});
    if (!got.ok()) return got.status();
    if (*got < wanted) return absl::DataLossError(source.name() + " became shorter");
    const uint64_t checksum = HashWord(std::string_view(bytes).substr(0, wanted));
    index.pieces.push_back({.offset = offset, .checksum = checksum, .bytes = wanted});
  }
  return index;
}

bool IsOfCheckedPieces(const RecordIndex& index) {
  uint64_t offset = 0;
  for (const Piece& piece : index.pieces) {
    if (piece.offset != offset || piece.bytes != std::min<uint64_t>(kCheckedBytes, index.size - offset)) return false;
    offset += piece.bytes;
  }
  return offset == index.size;
}

absl::StatusOr<size_t> CheckedSource::Read(uint64_t offset, absl::Span<uint8_t> to) const {
  if (pieces_.empty()) return 0;
  const uint64_t end = pieces_.back().offset + pieces_.back().bytes;
  if (offset >= end || to.empty()) return 0;
  const uint64_t stop = std::min<uint64_t>(end, offset + std::min<uint64_t>(to.size(), end - offset));
  const size_t first = offset / kCheckedBytes, last = (stop - 1) / kCheckedBytes;
  std::string bytes(pieces_[last].offset + pieces_[last].bytes - pieces_[first].offset, '\0');
  const absl::StatusOr<size_t> got =
      source_->Read(pieces_[first].offset, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  if (!got.ok()) return got.status();
  bytes.resize(*got);
  for (size_t i = first; i <= last; ++i) {
    const uint64_t begin = pieces_[i].offset - pieces_[first].offset;
    if (begin + pieces_[i].bytes > bytes.size() ||
        HashWord(std::string_view(bytes).substr(begin, pieces_[i].bytes)) != pieces_[i].checksum) {
      return ChangedBytes(name(), pieces_[i]);
    }
  }
  std::memcpy(to.data(), bytes.data() + (offset - pieces_[first].offset), stop - offset);
  return stop - offset;
}

absl::Status ChangedBytes(const std::string& file, const Piece& piece) {
  return absl::DataLossError(absl::StrCat(file, ": the bytes from ", piece.offset, " to ", piece.offset + piece.bytes,
                                          " are not those of before: the file was changed after it was opened, or "
                                          "indexed; put back what was there, or begin a new job"));
}

}  // namespace downpour
