#include "data/row_group_file.h"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/byte_stream.h"
#include "data/checked_source.h"
#include "data/open_source.h"
#include "data/record_format.h"
#include "data/record_scan.h"

namespace downpour {
namespace {

constexpr uint64_t kMostPieceBytes = uint64_t{4} << 20;

// The cursors that were used last, of all files.
class CursorPool {
 public:
  struct Kept {
    const RowGroupFile* file = nullptr;
    size_t group = 0;
    uint64_t row = 0;  // of the group, before which it stands
    std::unique_ptr<RowGroupCursor> cursor = nullptr;
  };

  // The one that has the least way to go to `row`, or none.
  Kept Take(const RowGroupFile* file, size_t group, uint64_t row) {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto one = kept_.begin(); one != kept_.end(); ++one) {
      const bool fits = one->file == file && one->group == group && one->row <= row;
      if (fits && (best == kept_.end() || one->row > best->row)) best = one;
    }
    if (best == kept_.end()) return {file, group, 0, nullptr};
    Kept taken = std::move(*best);
    kept_.erase(best);
    return taken;
  }

  void Keep(Kept one) {
    std::list<Kept> old;  // goes without the lock
    const std::lock_guard lock(mutex_);
    kept_.push_front(std::move(one));
    if (kept_.size() > kMostCursors) old.splice(old.begin(), kept_, std::prev(kept_.end()));
  }

  void Drop(const RowGroupFile* file) {
    const std::lock_guard lock(mutex_);
    kept_.remove_if([&](const Kept& one) { return one.file == file; });
  }

 private:
  std::mutex mutex_;
  std::list<Kept> kept_;  // the one that was used last stands first
};

CursorPool& Cursors() {
  static CursorPool& pool = *new CursorPool();
  return pool;
}

}  // namespace

uint64_t PieceRowsOf(const RowGroupSize& size) {
  const auto of_each = [&](uint64_t all) { return std::max<uint64_t>(1, all / std::max<uint64_t>(1, size.rows)); };
  const uint64_t of_bytes = kMostPieceBytes / of_each(size.bytes), of_values = kMostPieceValues / of_each(size.values);
  return std::clamp<uint64_t>(std::min(of_bytes, of_values), 1, kPieceRows);
}

std::string RowPlace(const std::string& file, uint64_t row) { return absl::StrCat(file, " at row ", row); }

RowGroupFile::~RowGroupFile() { Cursors().Drop(this); }

absl::StatusOr<std::unique_ptr<IndexedFile>> RowGroupFile::Open(const DataSpec& data, const std::string& path,
                                                                RowGroupOpener open, bool anew) {
  absl::StatusOr<std::unique_ptr<ByteSource>> opened = OpenSource(path);
  if (!opened.ok()) return opened.status();
  const std::shared_ptr<const ByteSource> source = *std::move(opened);
  const absl::StatusOr<bool> is_packed = IsPacked(*source);
  if (!is_packed.ok()) return is_packed.status();
  if (*is_packed) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is packed as a whole, and ", data.format, " packs its own pages: unpack it"));
  }
  auto file = std::unique_ptr<RowGroupFile>(new RowGroupFile(path, open));
  std::optional<RecordIndex> known;
  if (!anew) known = FittingIndex(path, data.format, *source, 0);
  if (known && IsOfCheckedPieces(*known)) {
    file->TakeIndex(*std::move(known), true);
  } else {
    absl::StatusOr<RecordIndex> index = ScanBytes(data.format, *source);
    if (!index.ok()) return index.status();
    file->TakeIndex(*std::move(index), false);
  }
  const absl::StatusOr<std::shared_ptr<const RowGroups>> groups = file->Groups();
  if (!groups.ok()) return groups.status();
  file->Lay(**groups);
  const std::vector<uint64_t>& left_out = file->left_out().records;
  if (!left_out.empty() && left_out.back() >= file->records()) {
    return absl::DataLossError(absl::StrCat(path, ": its index leaves out row ", left_out.back(), " of ",
                                            file->records(), ": remove the index"));
  }
  return file;
}

void RowGroupFile::Lay(const RowGroups& groups) {
  fields_ = groups.fields();
  layout_ = groups.layout();
  for (size_t i = 0; i < groups.groups().size(); ++i) {
    const RowGroupSize& size = groups.groups()[i];
    if (size.rows == 0) continue;
    const Group group{i, records(), size.rows, pieces_, PieceRowsOf(size)};
    pieces_ += (group.rows + group.piece_rows - 1) / group.piece_rows;
    groups_.push_back(group);
  }
}

const RowGroupFile::Group& RowGroupFile::GroupOf(size_t piece) const {
  const auto above = std::upper_bound(groups_.begin(), groups_.end(), piece,
                                      [](size_t wanted, const Group& group) { return wanted < group.first_piece; });
  return *(above - 1);
}

IndexedFile::Rows RowGroupFile::RowsOf(size_t piece) const {
  const Group& group = GroupOf(piece);
  const uint64_t begin = (piece - group.first_piece) * group.piece_rows;
  return {group.first + begin, static_cast<uint32_t>(std::min(group.piece_rows, group.rows - begin))};
}

size_t RowGroupFile::PieceOf(uint64_t record) const {
  const auto above = std::upper_bound(groups_.begin(), groups_.end(), record,
                                      [](uint64_t wanted, const Group& group) { return wanted < group.first; });
  const Group& group = *(above - 1);
  return group.first_piece + (record - group.first) / group.piece_rows;
}

absl::Status RowGroupFile::CheckFields(absl::Span<const std::string> fields) const {
  return CheckFieldsAreIn(fields_, fields, path());
}

absl::StatusOr<std::vector<ColumnValues>> RowGroupFile::Decode(const ColumnReader& columns, size_t piece,
                                                               const Bad& bad) const {
  const Rows rows = RowsOf(piece);
  std::vector<FieldColumn> fields(columns.fields().size());
  if (absl::Status read = ReadRows(columns, GroupOf(piece), rows, &fields); !read.ok()) return WithFile(path(), read);
  std::vector<ColumnValues> values = columns.Room(rows.count);
  const auto bad_row = [&](size_t row, const absl::Status& why) {
    return bad(rows.first + row, AtPlace(RowPlace(path(), rows.first + row), why));
  };
  if (absl::Status taken = columns.TakeColumns(fields, rows.count, bad_row, &values); !taken.ok()) return taken;
  return values;
}

absl::Status RowGroupFile::ReadRows(const ColumnReader& columns, const Group& group, const Rows& rows,
                                    std::vector<FieldColumn>* fields) const {
  const uint64_t begin = rows.first - group.first;
  CursorPool::Kept kept = Cursors().Take(this, group.number, begin);
  if (kept.cursor == nullptr) {
    const absl::StatusOr<std::shared_ptr<const RowGroups>> groups = Groups();
    if (!groups.ok()) return groups.status();
    absl::StatusOr<std::unique_ptr<RowGroupCursor>> cursor = (*groups)->NewCursor(group.number, columns.fields());
    if (!cursor.ok()) return cursor.status();
    kept.cursor = *std::move(cursor);
  }
  if (absl::Status skipped = kept.cursor->Skip(begin - kept.row); !skipped.ok()) return skipped;
  if (absl::Status read = kept.cursor->Read(rows.count, absl::MakeSpan(*fields)); !read.ok()) return read;
  kept.row = begin + rows.count;
  if (kept.row < group.rows) Cursors().Keep(std::move(kept));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const RowGroups>> RowGroupFile::Groups() const {
  const std::lock_guard lock(mutex_);
  if (held_ != nullptr) return held_;
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(path());
  if (!source.ok()) return source.status();
  absl::StatusOr<std::unique_ptr<RowGroups>> opened =
      open_(std::make_shared<CheckedSource>(*std::move(source), index().pieces));
  if (!opened.ok()) return WithFile(path(), opened.status());
  std::shared_ptr<const RowGroups> groups = *std::move(opened);
  if (!KeptOpen::HasRoom()) return groups;
  held_ = groups;
  kept_open_.Take();
  return groups;
}

}  // namespace downpour
