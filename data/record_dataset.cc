#include "data/record_dataset.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/columns.h"
#include "data/open_indexed_file.h"
#include "data/piece_cache.h"
#include "data/row_groups.h"
#include "data/set_files.h"
#include "data/word_hash.h"
#include "schema/text.h"

namespace downpour {
namespace {

class RecordDataset final : public Dataset {
 public:
  explicit RecordDataset(const DataSpec& data)
      : skip_(data.skip),
        reads_ahead_(RowGroupOpenerOf(data.format) == nullptr),
        columns_(data),
        cache_({.decode = [this](const PieceCache::Key& key) { return Decode(key); },
                .bytes = [this](const PieceCache::Key& key) { return BytesOf(key); }}) {}

  absl::Status Open(const DataSpec& data, const std::vector<std::string>& paths);

  uint64_t size() const override { return records_ - left_out_.size(); }
  const std::vector<Column>& columns() const override { return columns_.columns(); }
  uint64_t fingerprint() const override { return fingerprint_; }
  std::vector<DataFile> files() const override {
    const size_t told = std::min(told_.size(), kMostFilesTold);
    return {told_.end() - static_cast<ptrdiff_t>(told), told_.end()};
  }
  absl::Status ReadBatch(absl::Span<const uint64_t> ids, absl::Span<const size_t> columns,
                         absl::Span<ColumnValues> values) const override;
  bool reads_ahead() const override { return reads_ahead_; }
  void ReadAhead(absl::Span<const uint64_t> ids) const override;

 private:
  struct File {
    std::unique_ptr<IndexedFile> file;
    uint64_t first = 0;  // record of all files
  };
  struct Wanted {
    PieceCache::Key piece;
    uint32_t row;    // in the piece
    size_t example;  // of the batch
    bool operator<(const Wanted& other) const { return piece < other.piece; }
  };

  absl::StatusOr<LeftOut> FindLeftOut(uint64_t reading, const IndexedFile& file);
  uint64_t RecordOf(uint64_t id) const;
  Wanted Find(uint64_t id, size_t example) const;
  absl::StatusOr<PieceCache::Values> Decode(const PieceCache::Key& key) const;
  size_t BytesOf(const PieceCache::Key& key) const;

  const int64_t skip_;
  const bool reads_ahead_;  // a group of rows is decoded from its beginning, so readers side by side pass over much
  const ColumnReader columns_;
  std::vector<File> files_;
  uint64_t records_ = 0;
  std::vector<uint64_t> left_out_;  // records of all files, rising
  std::string first_left_out_;      // why
  uint64_t fingerprint_ = 0;
  std::vector<DataFile> told_;
  mutable PieceCache cache_;  // last: its threads use the rest
};

// What decides which records cannot be read.
uint64_t ReadingOf(const DataSpec& data) {
  RunningHash hash;
  const auto add = [&](const std::string& words) { hash.Add(absl::StrCat(words.size(), " ", words)); };
  const auto add_number = [&](std::optional<double> number) {
    add(number ? absl::StrCat(absl::Hex(std::bit_cast<uint64_t>(*number))) : "");
  };
  for (const ColumnSpec& column : data.columns) {
    add(absl::StrCat(column.name, " ", static_cast<int>(column.kind), " ", column.log));
    for (const auto& number : {column.fill, column.least, column.most}) add_number(number);
    add(absl::StrCat(column.numbers));
    add_number(column.mean);
    add_number(column.deviation);
    if (column.kind == ColumnKind::kKey) add(absl::StrCat(column.key_is_text));
    for (const std::string& field : column.from) add(field);
  }
  add(absl::StrCat(data.label.column, " ", data.label.is_number));
  if (data.label.is_set()) {
    add(absl::StrCat("set ", data.label.outputs, " ", std::string(1, data.label.separator.value_or(' '))));
    for (const std::string& field : data.label.of_outputs) add(field);
  }
  for (const std::vector<std::string>& words : data.label.classes) {
    for (const std::string& word : words) add(word);
  }
  for (const std::string& field : data.fields) add(field);
  if (data.is_weighted()) add(data.weight);
  add(std::string(1, data.decimal));
  return hash.Value();
}

absl::Status RecordDataset::Open(const DataSpec& data, const std::vector<std::string>& paths) {
  const uint64_t reading = ReadingOf(data);
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<IndexedFile>> opened = OpenIndexedFile(data, path);
    if (!opened.ok()) return opened.status();
    IndexedFile& file = **opened;
    if (absl::Status known = file.CheckFields(columns_.fields()); !known.ok()) return known;
    absl::StatusOr<LeftOut> left_out = FindLeftOut(reading, file);
    if (!left_out.ok()) return left_out.status();
    fingerprint_ = file.MixedInto(fingerprint_);
    for (const uint64_t record : left_out->records) {
      left_out_.push_back(records_ + record);
      fingerprint_ = MixAll(fingerprint_, record);
    }
    file.KeepIndex(skip_ > 0 ? *std::move(left_out) : LeftOut(file.left_out()));
    files_.push_back({*std::move(opened), records_});
    records_ += files_.back().file->records();
    told_.push_back({path.substr(path.size() - std::min(path.size(), kMaxFileName)), size(), fingerprint_});
  }
  return absl::OkStatus();
}

absl::StatusOr<LeftOut> RecordDataset::FindLeftOut(uint64_t reading, const IndexedFile& file) {
  if (skip_ <= 0) return LeftOut{};
  const auto are_few = [&](const LeftOut& one) {
    return left_out_.size() + one.records.size() <= static_cast<uint64_t>(skip_);
  };
  const LeftOut& known = file.left_out();
  if (known.reading == reading && are_few(known)) return known;
  LeftOut found{reading, {}};
  const auto bad = [&](uint64_t record, const absl::Status& why) {
    if (first_left_out_.empty()) first_left_out_ = std::string(why.message());
    found.records.push_back(record);
    if (are_few(found)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", Counted(static_cast<uint64_t>(skip_), "record"),
                     " cannot be read, which is all that data.skip allows; the first: ", first_left_out_));
  };
  for (size_t piece = 0; piece < file.pieces(); ++piece) {
    if (const auto values = file.Decode(columns_, piece, bad); !values.ok()) return values.status();
  }
  return found;
}

uint64_t RecordDataset::RecordOf(uint64_t id) const {
  // left_out_[i] stands before it if at most `id` records that are not left out do.
  size_t begin = 0, end = left_out_.size();
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    if (left_out_[middle] - middle <= id) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return id + begin;
}

RecordDataset::Wanted RecordDataset::Find(uint64_t id, size_t example) const {
  const uint64_t record = RecordOf(id);
  const auto above = std::upper_bound(files_.begin(), files_.end(), record,
                                      [](uint64_t wanted, const File& file) { return wanted < file.first; });
  const auto file = static_cast<size_t>(above - files_.begin()) - 1;
  const uint64_t in_file = record - files_[file].first;
  const size_t piece = files_[file].file->PieceOf(in_file);
  return {{file, piece}, static_cast<uint32_t>(in_file - files_[file].file->RowsOf(piece).first), example};
}

absl::StatusOr<PieceCache::Values> RecordDataset::Decode(const PieceCache::Key& key) const {
  const IndexedFile& file = *files_[key.first].file;
  const std::vector<uint64_t>& left_out = file.left_out().records;
  const auto bad = [&](uint64_t record, const absl::Status& why) {
    return skip_ > 0 && std::binary_search(left_out.begin(), left_out.end(), record) ? absl::OkStatus() : why;
  };
  return file.Decode(columns_, key.second, bad);
}

size_t RecordDataset::BytesOf(const PieceCache::Key& key) const {
  size_t width = 0;
  for (const Column& column : columns()) width += static_cast<size_t>(column.width);
  return width * files_[key.first].file->RowsOf(key.second).count * sizeof(int64_t);
}

void RecordDataset::ReadAhead(absl::Span<const uint64_t> ids) const {
  std::vector<PieceCache::Key> pieces;  // each once, in the order in which they are needed first
  std::set<PieceCache::Key> seen;
  for (const uint64_t id : ids) {
    if (id >= size()) continue;
    const PieceCache::Key piece = Find(id, 0).piece;
    if (seen.insert(piece).second) pieces.push_back(piece);
  }
  cache_.ReadAhead(pieces);
}

absl::Status RecordDataset::ReadBatch(absl::Span<const uint64_t> ids, absl::Span<const size_t> columns,
                                      absl::Span<ColumnValues> values) const {
  std::vector<Wanted> wanted;
  wanted.reserve(ids.size());
  for (const uint64_t id : ids) {
    if (id >= size()) return absl::OutOfRangeError(absl::StrCat("example ", id, " of ", size()));
    wanted.push_back(Find(id, wanted.size()));
  }
  // So each piece is asked for once.
  std::stable_sort(wanted.begin(), wanted.end());
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto hold = [&](auto empty) {
      if (!std::holds_alternative<decltype(empty)>(values[i])) values[i] = std::move(empty);
      const auto width = static_cast<size_t>(this->columns()[columns[i]].width);
      std::get<decltype(empty)>(values[i]).resize(ids.size() * width);
    };
    const bool is_float = this->columns()[columns[i]].type == ColumnType::kFloat;
    is_float ? hold(std::vector<float>()) : hold(std::vector<int64_t>());
  }
  for (size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
    while (end < wanted.size() && wanted[end].piece == wanted[begin].piece) ++end;
    const absl::StatusOr<PieceCache::Piece> piece = cache_.Get(wanted[begin].piece);
    if (!piece.ok()) return piece.status();
    for (size_t i = 0; i < columns.size(); ++i) {
      std::visit(
          [&](const auto& from) {
            auto& to = std::get<std::decay_t<decltype(from)>>(values[i]);
            const auto width = static_cast<ptrdiff_t>(this->columns()[columns[i]].width);
            for (size_t one = begin; one < end; ++one) {
              std::copy_n(from.begin() + wanted[one].row * width, width,
                          to.begin() + static_cast<ptrdiff_t>(wanted[one].example) * width);
            }
          },
          (**piece)[columns[i]]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenRecordDataset(const DataSpec& data, const SetFiles& files) {
  const absl::StatusOr<std::vector<std::string>> paths = ExpandFiles(files.files);
  if (!paths.ok()) return paths.status();
  auto dataset = std::make_unique<RecordDataset>(data);
  if (absl::Status opened = dataset->Open(data, *paths); !opened.ok()) return opened;
  return dataset;
}

}  // namespace downpour
