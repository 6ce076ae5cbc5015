// One file of a RecordDataset: its index, and its pieces, decoded. There are two kinds: files whose records are runs of
// bytes (cut_file.h), and files that keep values by columns (row_group_file.h).
//
//   auto file = OpenIndexedFile(job.data, "part-0.csv");    // open_indexed_file.h
//   auto values = (*file)->Decode(columns, (*file)->PieceOf(record), bad);
//
// Threads: Decode may be called on several threads.
// Errors: always with the file, and line, offset or row.
// Tests: tests/unit/data/record_dataset_test.cc, row_group_file_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/columns.h"
#include "data/record_index.h"

namespace downpour {

// Files with fewer bytes are read as fast as their index would be.
inline constexpr uint64_t kLeastIndexed = uint64_t{16} << 20;

class IndexedFile {
 public:
  virtual ~IndexedFile() = default;
  IndexedFile(const IndexedFile&) = delete;
  IndexedFile& operator=(const IndexedFile&) = delete;

  // Records that are decoded together.
  struct Rows {
    uint64_t first = 0;
    uint32_t count = 0;
  };
  virtual uint64_t records() const = 0;
  virtual size_t pieces() const = 0;
  virtual Rows RowsOf(size_t piece) const = 0;
  virtual size_t PieceOf(uint64_t record) const = 0;  // record < records()

  // What decides, besides the file's bytes, what is read from them: equal of equal files.
  virtual std::string layout() const = 0;
  // Errors: those of RecordFile::NewReader.
  virtual absl::Status CheckFields(absl::Span<const std::string> fields) const = 0;

  // Hears of each record that cannot be read, by its number in the file; an error of its own ends the reading.
  using Bad = std::function<absl::Status(uint64_t record, const absl::Status& why)>;
  // A row for each record of the piece; what those have that cannot be read means nothing.
  virtual absl::StatusOr<std::vector<ColumnValues>> Decode(const ColumnReader& columns, size_t piece,
                                                           const Bad& bad) const = 0;

  const RecordIndex& index() const { return index_; }
  const LeftOut& left_out() const { return index_.left_out; }
  // `fingerprint` and all of the file that training sees.
  uint64_t MixedInto(uint64_t fingerprint) const;
  // Takes what else the index says, and writes it beside the file if it is new, the file large, and that can be done.
  void KeepIndex(LeftOut left_out);
  absl::Status WriteIndex();

 protected:
  explicit IndexedFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // `is_kept`: it is beside the file.
  void TakeIndex(RecordIndex index, bool is_kept);

 private:
  const std::string path_;
  RecordIndex index_;
  bool is_kept_ = true;
};

// The index beside `path`, if it fits; otherwise nothing, and the log says why. `begin`: of its first piece, if there
// is none.
std::optional<RecordIndex> FittingIndex(const std::string& path, const std::string& cutting, const ByteSource& source,
                                        uint64_t begin);

// How many files of this process may stay open, so that a set may have more than there are descriptors. Others are
// opened for each piece.
class KeptOpen {
 public:
  KeptOpen() = default;
  KeptOpen(const KeptOpen&) = delete;
  KeptOpen& operator=(const KeptOpen&) = delete;
  ~KeptOpen();
  static bool HasRoom();
  void Take();

 private:
  bool is_taken_ = false;
};

}  // namespace downpour
