// CutFile: a file whose records are runs of its bytes (record_format.h), read by the pieces of its index.
//
// Tests: tests/unit/data/record_dataset_test.cc.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/indexed_file.h"
#include "data/record_format.h"

namespace downpour {

class CutFile final : public IndexedFile {
 public:
  static absl::StatusOr<std::unique_ptr<IndexedFile>> Open(const DataSpec& data, const std::string& path, bool anew);

  uint64_t records() const override { return index().records(); }
  size_t pieces() const override { return index().pieces.size(); }
  Rows RowsOf(size_t piece) const override { return {index().pieces[piece].first, index().pieces[piece].records}; }
  size_t PieceOf(uint64_t record) const override { return index().PieceOf(record); }
  std::string layout() const override { return format_->layout(); }
  absl::Status CheckFields(absl::Span<const std::string> fields) const override {
    return format_->NewReader(fields).status();
  }
  absl::StatusOr<std::vector<ColumnValues>> Decode(const ColumnReader& columns, size_t piece,
                                                   const Bad& bad) const override;

 private:
  using IndexedFile::IndexedFile;
  void Hold(std::shared_ptr<const ByteSource> source) const;
  absl::Status ReadPiece(const Piece& piece, std::string* text) const;
  absl::StatusOr<std::shared_ptr<const ByteSource>> Source() const;
  absl::StatusOr<std::unique_ptr<RecordReader>> TakeReader(const ColumnReader& columns) const;

  std::unique_ptr<RecordFile> format_;
  mutable std::mutex mutex_;                                    // of what follows
  mutable std::shared_ptr<const ByteSource> source_;            // unpacked; null: it is opened when it is read
  mutable KeptOpen kept_open_;                                  // of source_
  mutable std::vector<std::unique_ptr<RecordReader>> readers_;  // nobody uses
};

}  // namespace downpour
