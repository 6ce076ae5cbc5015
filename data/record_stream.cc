#include "data/record_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/key_items.h"
#include "data/record_scan.h"
#include "data/row_group_file.h"
#include "data/row_groups.h"

namespace downpour {
namespace {

class CutStream final : public RecordStream {
 public:
  CutStream(const ByteSource& source, std::unique_ptr<RecordFile> file, std::unique_ptr<RecordReader> reader)
      : name_(source.name()), file_(std::move(file)), reader_(std::move(reader)), scanner_(source, *file_) {}

  absl::StatusOr<bool> Next(absl::Span<FieldValue> values, absl::Status* read) override {
    std::string_view record;
    const absl::StatusOr<bool> more = scanner_.Next(&record);
    if (more.ok() && *more) *read = reader_->Read(record, values);
    return more;
  }
  std::string place() const override { return RecordPlace(name_, scanner_.offset(), scanner_.line()); }

 private:
  const std::string name_;
  const std::unique_ptr<RecordFile> file_;
  const std::unique_ptr<RecordReader> reader_;
  RecordScanner scanner_;
};

class RowGroupStream final : public RecordStream {
 public:
  // `is_shown`: nobody learns from the records, so what is too much for a column may be said in its place.
  RowGroupStream(std::string name, std::unique_ptr<RowGroups> groups, const KeyWidths& keys,
                 std::vector<std::string> wanted, bool is_shown)
      : name_(std::move(name)),
        groups_(std::move(groups)),
        wanted_(std::move(wanted)),
        is_shown_(is_shown),
        rows_(keys, wanted_),
        columns_(wanted_.size()),
        shown_(wanted_.size()) {}

  absl::StatusOr<bool> Next(absl::Span<FieldValue> values, absl::Status* read) override {
    if (at_ == read_) {
      const absl::StatusOr<bool> more = Fill();
      if (!more.ok()) return AtPlace(RowPlace(name_, record_), more.status());
      if (!*more) return false;
    }
    *read = absl::OkStatus();
    for (size_t i = 0; i < columns_.size(); ++i) {
      absl::StatusOr<FieldValue> value = rows_.At(i, columns_[i], at_);
      if (!value.ok() && is_shown_) {
        const std::string said(value.status().message());
        shown_[i] = absl::StrCat("[", said.substr(0, said.find(',')), "]");
        value = FieldValue(std::string_view(shown_[i]));
      }
      if (!value.ok()) {
        *read = absl::InvalidArgumentError(absl::StrCat("field '", wanted_[i], "' has ", value.status().message()));
      }
      values[i] = value.ok() ? *value : FieldValue();
    }
    ++at_;
    ++record_;
    return true;
  }
  std::string place() const override { return RowPlace(name_, record_ - 1); }

 private:
  absl::StatusOr<bool> Fill() {
    at_ = read_ = 0;
    for (; left_ == 0; ++next_) {
      if (next_ == groups_->groups().size()) return false;
      left_ = groups_->groups()[next_].rows;
      piece_rows_ = PieceRowsOf(groups_->groups()[next_]);
      absl::StatusOr<std::unique_ptr<RowGroupCursor>> cursor = groups_->NewCursor(next_, wanted_);
      if (!cursor.ok()) return cursor.status();
      cursor_ = *std::move(cursor);
    }
    const uint64_t some = std::min(left_, piece_rows_);
    if (absl::Status status = cursor_->Read(static_cast<uint32_t>(some), absl::MakeSpan(columns_)); !status.ok()) {
      return status;
    }
    read_ = some;
    left_ -= some;
    return true;
  }

  const std::string name_;
  const std::unique_ptr<RowGroups> groups_;
  const std::vector<std::string> wanted_;
  const bool is_shown_;
  ColumnRows rows_;
  std::vector<FieldColumn> columns_;
  std::vector<std::string> shown_;
  std::unique_ptr<RowGroupCursor> cursor_;
  size_t next_ = 0;                          // group
  uint64_t left_ = 0, piece_rows_ = 0;       // of the one that is read
  uint64_t at_ = 0, read_ = 0, record_ = 0;  // rows of columns_; of the file
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordStream>> OpenRecordStream(const DataSpec& data, const ByteSource& source,
                                                               const std::vector<std::string>& wanted) {
  if (RowGroupOpenerOf(data.format) != nullptr) {
    absl::StatusOr<std::unique_ptr<RowGroups>> groups = OpenRowGroups(data.format, source);
    if (!groups.ok()) return groups.status();
    if (absl::Status known = CheckFieldsAreIn((*groups)->fields(), wanted, source.name()); !known.ok()) return known;
    return std::make_unique<RowGroupStream>(source.name(), *std::move(groups), KeyWidthsOf(data), wanted,
                                            !data.label.is_there());
  }
  absl::StatusOr<std::unique_ptr<RecordFile>> file = OpenRecordFile(data, source);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::unique_ptr<RecordReader>> reader = (*file)->NewReader(wanted);
  if (!reader.ok()) return reader.status();
  return std::make_unique<CutStream>(source, *std::move(file), *std::move(reader));
}

}  // namespace downpour
