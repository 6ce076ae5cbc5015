#include "ps/bucket_writer.h"

#include <glog/logging.h>

#include <utility>

#include "ps/bucket_parts.h"
#include "schema/checkpoint_format.h"

namespace downpour {

BucketWriter::BucketWriter(const std::vector<TableSpec>& tables, uint32_t bucket, size_t part_bytes, Append append)
    : tables_(tables), part_bytes_(part_bytes), append_(std::move(append)) {
  for (TableSpec& table : tables_) table.bucket = bucket;
}

absl::Status BucketWriter::Begin(SliceId slice, uint64_t version) {
  SliceState state;
  state.version = version;
  state.slice = slice;
  return status_ = append_(EncodeRecord(state));
}

void BucketWriter::OpenPart() {
  const TableSpec& table = tables_[table_];
  const TablePartHeader header = {.table = table.id,
                                  .point = {.copy = 1, .number = 1, .clock = 0},
                                  .index = parts_++,
                                  .width = table.width,
                                  .form = FormOf(table),
                                  .bucket = table.bucket,
                                  .buckets = table.buckets};
  part_.emplace(header, table, part_bytes_);
}

absl::Status BucketWriter::ClosePart(bool is_last) {
  if (!part_) OpenPart();
  Payload part = (*std::exchange(part_, std::nullopt)).Finish(is_last);
  return status_ = append_(FramePart(std::move(part)));
}

absl::Status BucketWriter::Add(uint64_t key, const std::byte* row) {
  CHECK_LT(table_, tables_.size());
  CHECK_EQ(BucketOf(tables_[table_].id, key, tables_[table_].buckets), tables_[table_].bucket);
  if (!status_.ok()) return status_;
  if (part_ && !part_->HasRoom()) {
    if (absl::Status status = ClosePart(/*is_last=*/false); !status.ok()) return status;
  }
  if (!part_) OpenPart();
  part_->AddRow({.number = rows_++, .last = 1, .key = key}, row);
  return absl::OkStatus();
}

absl::Status BucketWriter::EndTable() {
  CHECK_LT(table_, tables_.size());
  if (!status_.ok()) return status_;
  if (absl::Status status = ClosePart(/*is_last=*/true); !status.ok()) return status;
  ++table_;
  parts_ = rows_ = 0;
  return absl::OkStatus();
}

}  // namespace downpour
