#include "data/cut_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/byte_stream.h"
#include "data/checked_source.h"
#include "data/open_source.h"
#include "data/record_scan.h"
#include "data/unpacked.h"
#include "data/word_hash.h"
#include "schema/text.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<IndexedFile>> CutFile::Open(const DataSpec& data, const std::string& path, bool anew) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(path);
  if (!source.ok()) return source.status();
  absl::StatusOr<std::unique_ptr<RecordFile>> format = OpenRecordFile(data, **source);
  if (!format.ok()) return format.status();
  auto file = std::unique_ptr<CutFile>(new CutFile(path));
  file->format_ = *std::move(format);
  std::optional<RecordIndex> known;
  if (!anew) known = FittingIndex(path, CuttingOf(data.format, *file->format_), **source, file->format_->begin());
  if (known) {
    file->TakeIndex(*std::move(known), true);
    return file;
  }
  const absl::StatusOr<bool> is_packed = IsPacked(**source);
  if (!is_packed.ok()) return is_packed.status();
  const uint64_t size = (*source)->size(), version = (*source)->version();
  absl::StatusOr<std::unique_ptr<ByteSource>> unpacked = Unpacked(*std::move(source));
  if (!unpacked.ok()) return unpacked.status();
  absl::StatusOr<RecordIndex> index = ScanRecords(data.format, **unpacked, *file->format_);
  if (!index.ok()) return index.status();
  index->size = size;
  index->version = version;
  file->TakeIndex(*std::move(index), false);
  if (*is_packed) file->Hold(*std::move(unpacked));
  return file;
}

absl::StatusOr<std::vector<ColumnValues>> CutFile::Decode(const ColumnReader& columns, size_t place,
                                                          const Bad& bad) const {
  const Piece& piece = index().pieces[place];
  std::string text;
  if (absl::Status read = ReadPiece(piece, &text); !read.ok()) return read;
  absl::StatusOr<std::unique_ptr<RecordReader>> reader = TakeReader(columns);
  if (!reader.ok()) return reader.status();
  std::vector<ColumnValues> values = columns.Room(piece.records);
  std::vector<FieldValue> fields(columns.fields().size());
  std::vector<std::string_view> texts(fields.size());
  const auto take = [&](std::string_view record, uint32_t row) {
    if ((*reader)->ReadTexts(record, absl::MakeSpan(texts)) &&
        columns.TakeTexts(texts, absl::MakeSpan(fields), row, &values)) {
      return absl::OkStatus();
    }
    std::fill(fields.begin(), fields.end(), FieldValue());
    const absl::Status read = (*reader)->Read(record, absl::MakeSpan(fields));
    return read.ok() ? columns.Take(fields, row, &values) : read;
  };
  uint32_t row = 0;
  size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = std::string_view(text).substr(at);
    const absl::StatusOr<CutRecord> cut = format_->Cut(rest, true);
    // What its checksum holds was cut before; so only an index that lies has another number of records.
    if (!cut.ok() || cut->bytes == 0 || (cut->is_record && row == piece.records)) break;
    if (cut->is_record) {
      if (absl::Status read = take(rest.substr(0, cut->bytes), row); !read.ok()) {
        const auto lines = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
        const uint64_t line = piece.line == 0 ? 0 : piece.line + static_cast<uint64_t>(lines);
        read = bad(piece.first + row, AtPlace(RecordPlace(path(), piece.offset + at, line), read));
        if (!read.ok()) return read;
      }
      ++row;
    }
    at += cut->bytes;
  }
  if (row != piece.records || at < text.size()) {
    return absl::DataLossError(
        absl::StrCat(RecordPlace(path(), piece.offset, piece.line), ": has ",
                     row == piece.records ? absl::StrCat(row, " records or more") : Counted(row, "record"),
                     " where its index says ", piece.records, ": remove the index"));
  }
  const std::lock_guard lock(mutex_);
  readers_.push_back(*std::move(reader));
  return values;
}

absl::Status CutFile::ReadPiece(const Piece& piece, std::string* text) const {
  const absl::StatusOr<std::shared_ptr<const ByteSource>> source = Source();
  if (!source.ok()) return source.status();
  text->resize(piece.bytes);
  const absl::StatusOr<size_t> got =
      (*source)->Read(piece.offset, {reinterpret_cast<uint8_t*>(text->data()), text->size()});
  if (!got.ok()) return got.status();
  if (*got == piece.bytes && HashWord(*text) == piece.checksum) return absl::OkStatus();
  return ChangedBytes(path(), piece);
}

absl::StatusOr<std::shared_ptr<const ByteSource>> CutFile::Source() const {
  const std::lock_guard lock(mutex_);
  if (source_ != nullptr) return source_;
  absl::StatusOr<std::unique_ptr<ByteSource>> opened = OpenSource(path());
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<bool> is_packed = IsPacked(**opened);
  if (!is_packed.ok()) return is_packed.status();
  if (*is_packed) opened = Unpacked(*std::move(opened));
  if (!opened.ok()) return opened.status();
  std::shared_ptr<const ByteSource> source = *std::move(opened);
  if (*is_packed || KeptOpen::HasRoom()) Hold(source);
  return source;
}

void CutFile::Hold(std::shared_ptr<const ByteSource> source) const {
  source_ = std::move(source);
  kept_open_.Take();
}

absl::StatusOr<std::unique_ptr<RecordReader>> CutFile::TakeReader(const ColumnReader& columns) const {
  {
    const std::lock_guard lock(mutex_);
    if (!readers_.empty()) {
      std::unique_ptr<RecordReader> reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  return format_->NewReader(columns.fields());
}

}  // namespace downpour
