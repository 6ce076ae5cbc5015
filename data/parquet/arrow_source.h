// ArrowSource: a ByteSource as Arrow's readers take one.
//
// Errors: what the source says goes through Arrow's exceptions as text alone, so the first failure is kept here.
// Threads: any.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "data/byte_source.h"

namespace downpour {

class ArrowSource final : public arrow::io::RandomAccessFile {
 public:
  ArrowSource(std::shared_ptr<const ByteSource> source, arrow::MemoryPool* pool)
      : source_(std::move(source)), pool_(pool) {}

  absl::Status failure() const;  // of the source; OK: there was none

  arrow::Result<int64_t> GetSize() override { return static_cast<int64_t>(source_->size()); }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t count, void* to) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t count) override;
  arrow::Result<int64_t> Read(int64_t count, void* to) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override;
  arrow::Status Seek(int64_t position) override;
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  using arrow::io::RandomAccessFile::ReadAt;

 private:
  const std::shared_ptr<const ByteSource> source_;
  arrow::MemoryPool* const pool_;
  int64_t position_ = 0;
  mutable std::mutex mutex_;
  absl::Status failure_;
};

}  // namespace downpour
