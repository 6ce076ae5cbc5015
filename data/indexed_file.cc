#include "data/indexed_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/record_scan.h"
#include "data/unpacked.h"
#include "data/word_hash.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<IndexedFile>> IndexedFile::Open(const DataSpec& data, const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  if (!source.ok()) return source.status();
  absl::StatusOr<std::unique_ptr<RecordFile>> format = OpenRecordFile(data, **source);
  if (!format.ok()) return format.status();
  auto file = std::unique_ptr<IndexedFile>(new IndexedFile(path));
  file->format_ = *std::move(format);
  const uint64_t size = (*source)->size(), version = (*source)->version();
  absl::StatusOr<std::unique_ptr<ByteSource>> unpacked = Unpacked(*std::move(source));
  if (!unpacked.ok()) return unpacked.status();
  absl::StatusOr<RecordIndex> index = ScanRecords(data.format, **unpacked, *file->format_);
  if (!index.ok()) return index.status();
  file->index_ = *std::move(index);
  file->index_.size = size;
  file->index_.version = version;
  file->source_ = *std::move(unpacked);
  return file;
}

void IndexedFile::Keep(LeftOut left_out) { index_.left_out = std::move(left_out); }

absl::StatusOr<std::vector<ColumnValues>> IndexedFile::Decode(const ColumnReader& columns, const Piece& piece,
                                                              const Bad& bad) const {
  std::string text;
  if (absl::Status read = ReadPiece(piece, &text); !read.ok()) return read;
  absl::StatusOr<std::unique_ptr<RecordReader>> reader = TakeReader(columns);
  if (!reader.ok()) return reader.status();
  std::vector<ColumnValues> values = columns.Room(piece.records);
  std::vector<FieldValue> fields(columns.fields().size());
  uint32_t row = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const absl::StatusOr<CutRecord> cut = format_->Cut(rest, true);
    // What its checksum holds was cut before; so only an index that lies has another number of records.
    if (!cut.ok() || cut->bytes == 0 || (cut->is_record && row == piece.records)) break;
    if (cut->is_record) {
      std::fill(fields.begin(), fields.end(), FieldValue());
      absl::Status read = (*reader)->Read(rest.substr(0, cut->bytes), absl::MakeSpan(fields));
      if (read.ok()) read = columns.Take(fields, row, &values);
      if (!read.ok()) {
        const auto lines = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
        const uint64_t line = piece.line == 0 ? 0 : piece.line + static_cast<uint64_t>(lines);
        read = bad(piece.first + row, AtPlace(RecordPlace(path_, piece.offset + at, line), read));
        if (!read.ok()) return read;
      }
      ++row;
    }
    at += cut->bytes;
  }
  if (row != piece.records) {
    return absl::DataLossError(absl::StrCat(RecordPlace(path_, piece.offset, piece.line), ": has ", row,
                                            " records where its index says ", piece.records, ": remove the index"));
  }
  const std::lock_guard lock(mutex_);
  readers_.push_back(*std::move(reader));
  return values;
}

absl::Status IndexedFile::ReadPiece(const Piece& piece, std::string* text) const {
  const absl::StatusOr<std::shared_ptr<const ByteSource>> source = Source();
  if (!source.ok()) return source.status();
  text->resize(piece.bytes);
  const absl::StatusOr<size_t> got =
      (*source)->Read(piece.offset, {reinterpret_cast<uint8_t*>(text->data()), text->size()});
  if (!got.ok()) return got.status();
  if (*got == piece.bytes && HashWord(*text) == piece.checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": the bytes from ", piece.offset, " to ", piece.offset + piece.bytes,
                                          " are not those of before: the file was changed after it was opened, or "
                                          "indexed; put back what was there, or begin a new job"));
}

absl::StatusOr<std::shared_ptr<const ByteSource>> IndexedFile::Source() const {
  const std::lock_guard lock(mutex_);
  if (source_ != nullptr) return source_;
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path_);
  if (source.ok()) source = Unpacked(*std::move(source));
  if (!source.ok()) return source.status();
  source_ = *std::move(source);
  return source_;
}

absl::StatusOr<std::unique_ptr<RecordReader>> IndexedFile::TakeReader(const ColumnReader& columns) const {
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
