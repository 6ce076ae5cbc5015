// CheckedSource: a source whose bytes are compared with an index's checksums whenever they are read.
//
//   const RecordIndex index = ScanBytes("parquet", *source).value();
//   CheckedSource checked(source, index.pieces);
//
// Cost: reads the whole of each piece that a read touches, of kCheckedBytes.
// Errors: those of the source; DATA_LOSS for bytes that are not those of before.
// Tests: tests/unit/data/row_group_file_test.cc.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/record_index.h"

namespace downpour {

inline constexpr uint32_t kCheckedBytes = 1 << 17;

// An index of all bytes, by pieces of kCheckedBytes without records. Cost: one pass.
absl::StatusOr<RecordIndex> ScanBytes(const std::string& cutting, const ByteSource& source);

// Whether its pieces are such: an index that lies beside data may be another release's, or anybody's.
bool IsOfCheckedPieces(const RecordIndex& index);

class CheckedSource final : public ByteSource {
 public:
  // The pieces are as IsOfCheckedPieces wants them, and outlive this.
  CheckedSource(std::shared_ptr<const ByteSource> source, const std::vector<Piece>& pieces)
      : source_(std::move(source)), pieces_(pieces) {}
  const std::string& name() const override { return source_->name(); }
  uint64_t size() const override { return source_->size(); }
  uint64_t version() const override { return source_->version(); }
  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<uint8_t> to) const override;

 private:
  const std::shared_ptr<const ByteSource> source_;
  const std::vector<Piece>& pieces_;
};

// What is said of a piece whose bytes have another checksum.
absl::Status ChangedBytes(const std::string& file, const Piece& piece);

}  // namespace downpour
