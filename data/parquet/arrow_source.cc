#include "data/parquet/arrow_source.h"

#include <string>

namespace downpour {

absl::Status ArrowSource::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

arrow::Result<int64_t> ArrowSource::ReadAt(int64_t position, int64_t count, void* to) {
  if (position < 0 || count < 0) return arrow::Status::Invalid("a place before the file's beginning");
  const absl::StatusOr<size_t> got =
      source_->Read(static_cast<uint64_t>(position), {static_cast<uint8_t*>(to), static_cast<size_t>(count)});
  if (got.ok()) return static_cast<int64_t>(*got);
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = got.status();
  return arrow::Status::IOError(std::string(got.status().message()));
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowSource::ReadAt(int64_t position, int64_t count) {
  // A footer may claim more than there is: memory is taken for what the file has.
  const int64_t there = std::max<int64_t>(0, static_cast<int64_t>(source_->size()) - std::max<int64_t>(0, position));
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(std::min(count, there), pool_));
  ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, buffer->size(), buffer->mutable_data()));
  ARROW_RETURN_NOT_OK(buffer->Resize(got));
  return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

arrow::Result<int64_t> ArrowSource::Read(int64_t count, void* to) {
  ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, count, to));
  position_ += got;
  return got;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowSource::Read(int64_t count) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, count));
  position_ += buffer->size();
  return buffer;
}

arrow::Status ArrowSource::Seek(int64_t position) {
  position_ = position;
  return arrow::Status::OK();
}

}  // namespace downpour
