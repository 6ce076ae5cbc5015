// RowGroupFile: a file that keeps values by columns (row_groups.h), read by pieces of its row groups.
//
// Shapes: a piece has up to kPieceRows records of one group: fewer where the group's records are large, or have many
//   values. Its index has the checksums of the file's bytes, which are compared whenever they are read.
// Cost: a group is decoded from its beginning, so a cursor that stands in a group is kept for the piece behind it:
//   kMostCursors of all files of a process, those that were used last. A piece in the middle of a group costs what it
//   takes to pass over the records before it.
// Errors: also of the footer, and of the values of one record, with the file and the row, counted from 0.
// Tests: tests/unit/data/row_group_file_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/indexed_file.h"
#include "data/row_groups.h"

namespace downpour {

inline constexpr uint64_t kPieceRows = 1024;
inline constexpr uint64_t kMostPieceValues = 1 << 19;
inline constexpr size_t kMostCursors = 2;

// How many records of such a group are decoded together: up to kPieceRows, and fewer of large ones.
uint64_t PieceRowsOf(const RowGroupSize& size);

// FILE at row N.
std::string RowPlace(const std::string& file, uint64_t row);

class RowGroupFile final : public IndexedFile {
 public:
  ~RowGroupFile() override;

  static absl::StatusOr<std::unique_ptr<IndexedFile>> Open(const DataSpec& data, const std::string& path,
                                                           RowGroupOpener open, bool anew);

  uint64_t records() const override { return groups_.empty() ? 0 : groups_.back().first + groups_.back().rows; }
  size_t pieces() const override { return pieces_; }
  Rows RowsOf(size_t piece) const override;
  size_t PieceOf(uint64_t record) const override;
  std::string layout() const override { return layout_; }
  absl::Status CheckFields(absl::Span<const std::string> fields) const override;
  absl::StatusOr<std::vector<ColumnValues>> Decode(const ColumnReader& columns, size_t piece,
                                                   const Bad& bad) const override;

 private:
  // Those with records alone.
  struct Group {
    size_t number = 0;  // in the file
    uint64_t first = 0, rows = 0;
    size_t first_piece = 0;
    uint64_t piece_rows = kPieceRows;
  };

  RowGroupFile(const std::string& path, RowGroupOpener open) : IndexedFile(path), open_(open) {}
  void Lay(const RowGroups& groups);
  const Group& GroupOf(size_t piece) const;
  absl::StatusOr<std::shared_ptr<const RowGroups>> Groups() const;
  absl::Status ReadRows(const ColumnReader& columns, const Group& group, const Rows& rows,
                        std::vector<FieldColumn>* fields) const;

  const RowGroupOpener open_;
  std::vector<std::string> fields_;
  std::string layout_;
  std::vector<Group> groups_;
  size_t pieces_ = 0;
  mutable std::mutex mutex_;  // of what follows
  mutable std::shared_ptr<const RowGroups> held_;
  mutable KeptOpen kept_open_;  // of held_
};

}  // namespace downpour
