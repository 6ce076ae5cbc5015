// One file of a RecordDataset: its format, its index, and its pieces, decoded.
//
//   auto file = IndexedFile::Open(job.data, "part-0.csv");
//   auto values = (*file)->Decode(columns, piece, bad);
//
// Threads: Decode may be called on several threads.
// Errors: always with file and line or offset.
// Tests: tests/unit/data/record_dataset_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/columns.h"
#include "data/record_format.h"
#include "data/record_index.h"

namespace downpour {

// Files with fewer bytes are read as fast as their index would be.
inline constexpr uint64_t kLeastIndexed = uint64_t{16} << 20;

class IndexedFile {
 public:
  ~IndexedFile();
  IndexedFile(const IndexedFile&) = delete;
  IndexedFile& operator=(const IndexedFile&) = delete;

  // Takes the index beside the file, if that fits, or else makes one; `anew`: makes one in any case.
  static absl::StatusOr<std::unique_ptr<IndexedFile>> Open(const DataSpec& data, const std::string& path,
                                                           bool anew = false);

  const RecordIndex& index() const { return index_; }
  const RecordFile& format() const { return *format_; }

  // Hears of each record that cannot be read, by its number in the file; an error of its own ends the reading.
  using Bad = std::function<absl::Status(uint64_t record, const absl::Status& why)>;
  // A row for each record of the piece; what those have that cannot be read means nothing.
  absl::StatusOr<std::vector<ColumnValues>> Decode(const ColumnReader& columns, const Piece& piece,
                                                   const Bad& bad) const;
  // Takes what else the index says, and writes it beside the file if it is new, the file large, and that can be done.
  void KeepIndex(LeftOut left_out);
  absl::Status WriteIndex();

 private:
  explicit IndexedFile(std::string path) : path_(std::move(path)) {}
  void Hold(std::shared_ptr<const ByteSource> source) const;
  absl::Status ReadPiece(const Piece& piece, std::string* text) const;
  absl::StatusOr<std::shared_ptr<const ByteSource>> Source() const;
  absl::StatusOr<std::unique_ptr<RecordReader>> TakeReader(const ColumnReader& columns) const;

  const std::string path_;
  std::unique_ptr<RecordFile> format_;
  RecordIndex index_;
  bool is_kept_ = true;                                         // index_ is beside the file
  mutable std::mutex mutex_;                                    // of what follows
  mutable std::shared_ptr<const ByteSource> source_;            // unpacked; null: it is opened when it is read
  mutable std::vector<std::unique_ptr<RecordReader>> readers_;  // nobody uses
};

}  // namespace downpour
