#include "data/indexed_file.h"

#include <glog/logging.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/byte_stream.h"
#include "data/index_file.h"
#include "data/record_scan.h"
#include "data/set_files.h"
#include "data/unpacked.h"
#include "data/word_hash.h"
#include "schema/text.h"

namespace downpour {
namespace {

// Of all files of this process, so that a set may have more than there are descriptors; others are opened for each
// piece. What is unpacked stays open in any case.
constexpr int kMostKeptOpen = 256;
std::atomic<int> kept_open = 0;

// The index beside `path`, if it fits; otherwise nothing, and the log says why.
std::optional<RecordIndex> FittingIndex(const std::string& path, const std::string& format, const ByteSource& source,
                                        const RecordFile& file) {
  absl::StatusOr<RecordIndex> index = ReadIndex(path + kIndexSuffix);
  if (absl::IsNotFound(index.status())) return std::nullopt;
  const absl::Status fits = index.ok() ? CheckIndex(*index, format, source, file) : index.status();
  if (fits.ok()) return *std::move(index);
  LOG(INFO) << path << kIndexSuffix << " is not used: " << fits.message() << "; " << path << " is read to its end";
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IndexedFile>> IndexedFile::Open(const DataSpec& data, const std::string& path,
                                                               bool anew) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  if (!source.ok()) return source.status();
  absl::StatusOr<std::unique_ptr<RecordFile>> format = OpenRecordFile(data, **source);
  if (!format.ok()) return format.status();
  auto file = std::unique_ptr<IndexedFile>(new IndexedFile(path));
  file->format_ = *std::move(format);
  std::optional<RecordIndex> known;
  if (!anew) known = FittingIndex(path, data.format, **source, *file->format_);
  if (known) {
    file->index_ = *std::move(known);
    return file;
  }
  const absl::StatusOr<bool> is_packed = IsPacked(**source);
  if (!is_packed.ok()) return is_packed.status();
  const uint64_t size = (*source)->size(), version = (*source)->version();
  absl::StatusOr<std::unique_ptr<ByteSource>> unpacked = Unpacked(*std::move(source));
  if (!unpacked.ok()) return unpacked.status();
  absl::StatusOr<RecordIndex> index = ScanRecords(data.format, **unpacked, *file->format_);
  if (!index.ok()) return index.status();
  file->index_ = *std::move(index);
  file->index_.size = size;
  file->index_.version = version;
  if (*is_packed) file->Hold(*std::move(unpacked));
  file->is_kept_ = false;
  return file;
}

void IndexedFile::KeepIndex(LeftOut left_out) {
  if (left_out != index_.left_out) {
    index_.left_out = std::move(left_out);
    is_kept_ = false;
  }
  // Whoever may not write there reads the file at each start.
  if (!is_kept_ && index_.size >= kLeastIndexed) WriteIndex().IgnoreError();
}

absl::Status IndexedFile::WriteIndex() {
  is_kept_ = true;
  return downpour::WriteIndex(path_ + kIndexSuffix, index_, path_);
}

absl::StatusOr<std::vector<ColumnValues>> IndexedFile::Decode(const ColumnReader& columns, const Piece& piece,
                                                              const Bad& bad) const {
  std::string text;
  if (absl::Status read = ReadPiece(piece, &text); !read.ok()) return read;
  absl::StatusOr<std::unique_ptr<RecordReader>> reader = TakeReader(columns);
  if (!reader.ok()) return reader.status();
  std::vector<ColumnValues> values = columns.Room(piece.records);
  std::vector<FieldValue> fields(columns.fields().size());
  uint32_t row = 0;
  size_t at = 0;
  while (at < text.size()) {
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
  if (row != piece.records || at < text.size()) {
    return absl::DataLossError(
        absl::StrCat(RecordPlace(path_, piece.offset, piece.line), ": has ",
                     row == piece.records ? absl::StrCat(row, " records or more") : Counted(row, "record"),
                     " where its index says ", piece.records, ": remove the index"));
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
  absl::StatusOr<std::unique_ptr<ByteSource>> opened = OpenFile(path_);
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<bool> is_packed = IsPacked(**opened);
  if (!is_packed.ok()) return is_packed.status();
  if (*is_packed) opened = Unpacked(*std::move(opened));
  if (!opened.ok()) return opened.status();
  std::shared_ptr<const ByteSource> source = *std::move(opened);
  if (*is_packed || kept_open < kMostKeptOpen) Hold(source);
  return source;
}

void IndexedFile::Hold(std::shared_ptr<const ByteSource> source) const {
  source_ = std::move(source);
  ++kept_open;
}

IndexedFile::~IndexedFile() { kept_open -= source_ != nullptr; }

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
