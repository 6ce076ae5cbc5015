#include "ps/table/table_part.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

static_assert(std::endian::native == std::endian::little, "parts are little-endian");
static_assert(sizeof(TablePartHeader) == 80 && sizeof(RowEntry) == 16 && sizeof(CountEntry) == 24);

constexpr char kMagic[8] = {'D', 'P', 'T', 'A', 'B', 'L', 'E', '1'};
constexpr size_t kHeadBytes = sizeof(kMagic) + sizeof(TablePartHeader);
constexpr size_t kChecksumBytes = sizeof(uint32_t);

template <typename T>
T Get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

uint32_t FormOf(const TableSpec& spec) {
  return static_cast<uint32_t>(spec.optimizer) | uint32_t{spec.row_wise} << 8 | uint32_t{spec.halves} << 9;
}

TablePartWriter::TablePartWriter(const TablePartHeader& header, const TableSpec& spec, size_t max_bytes)
    : header_(header),
      row_bytes_(ShapeOf(spec).bytes()),
      most_bytes_(std::max(sizeof(RowEntry) + row_bytes_, sizeof(CountEntry))),
      max_bytes_(max_bytes),
      bytes_(kHeadBytes + kChecksumBytes),
      end_(kHeadBytes),
      part_(Payload::Allocate(max_bytes)) {
  CHECK(HasRoom()) << "a part of " << max_bytes << " bytes holds no row";
}

void TablePartWriter::Append(const void* from, size_t bytes) {
  std::memcpy(part_.mutable_data() + end_, from, bytes);
  end_ += bytes;
}

void TablePartWriter::AddRow(uint32_t number, const Place& place, const std::byte* row) {
  const RowEntry entry = {number, place.last, place.key};
  Append(&entry, sizeof(entry));
  Append(row, row_bytes_);
  bytes_ += sizeof(entry) + row_bytes_;
  ++header_.rows;
}

void TablePartWriter::AddEmpty(uint32_t number) {
  empties_.push_back(number);
  bytes_ += sizeof(number);
}

void TablePartWriter::AddCount(uint32_t number, const AdmissionCounts::Entry& entry) {
  counts_.push_back({number, entry.last, entry.count, 0, entry.key});
  bytes_ += sizeof(CountEntry);
}

Payload TablePartWriter::Finish(bool is_last) && {
  header_.is_last = is_last ? 1 : 0;
  header_.empties = static_cast<uint32_t>(empties_.size());
  header_.counts = static_cast<uint32_t>(counts_.size());
  Append(empties_.data(), empties_.size() * sizeof(uint32_t));
  Append(counts_.data(), counts_.size() * sizeof(CountEntry));
  std::memcpy(part_.mutable_data(), kMagic, sizeof(kMagic));
  std::memcpy(part_.mutable_data() + sizeof(kMagic), &header_, sizeof(header_));
  const uint32_t checksum = Crc32c(part_.bytes().subspan(0, end_));
  Append(&checksum, sizeof(checksum));
  return part_.Sub(0, end_);
}

RowEntry TablePart::Row(uint32_t i) const { return Get<RowEntry>(rows + i * row_bytes); }
uint32_t TablePart::Empty(uint32_t i) const { return Get<uint32_t>(empties + i * sizeof(uint32_t)); }
CountEntry TablePart::Count(uint32_t i) const { return Get<CountEntry>(counts + i * sizeof(CountEntry)); }

absl::StatusOr<TablePart> ReadTablePart(absl::Span<const std::byte> bytes, const TableSpec& spec) {
  if (bytes.size() < kHeadBytes + kChecksumBytes || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    return absl::DataLossError("a part of a table's record is cut, or something else");
  }
  const size_t covered = bytes.size() - kChecksumBytes;
  if (Get<uint32_t>(bytes.data() + covered) != Crc32c(bytes.subspan(0, covered))) {
    return absl::DataLossError("a part of a table's record is damaged: its checksum is wrong");
  }
  TablePart part;
  part.header = Get<TablePartHeader>(bytes.data() + sizeof(kMagic));
  const TablePartHeader& header = part.header;
  if (header.table != spec.id || header.width != spec.width || header.form != FormOf(spec)) {
    return absl::InvalidArgumentError(absl::StrCat("a record is of table ", header.table, " with width ", header.width,
                                                   " and form ", header.form, "; this one is ", spec.id, " with width ",
                                                   spec.width, " and form ", FormOf(spec)));
  }
  part.row_bytes = sizeof(RowEntry) + ShapeOf(spec).bytes();
  const uint64_t rows = uint64_t{header.rows} * part.row_bytes;
  const uint64_t empties = uint64_t{header.empties} * sizeof(uint32_t);
  const uint64_t counts = uint64_t{header.counts} * sizeof(CountEntry);
  if (kHeadBytes + rows + empties + counts != covered) {
    return absl::InvalidArgumentError("a part of a table's record has another length than its header says");
  }
  part.rows = bytes.data() + kHeadBytes;
  part.empties = part.rows + rows;
  part.counts = part.empties + empties;
  return part;
}

}  // namespace downpour
