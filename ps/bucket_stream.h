// BucketStream: a bucket's record as it comes in pieces, cut anywhere, on its way to the bucket that it makes.
//
//   BucketStream stream(tables, bucket, copy);
//   status = stream.Add(piece);                       // for all of them, in order
//   absl::StatusOr<BucketStream::Installed> installed = std::move(stream).Finish(consumed);
//
// Shapes: a record of the bucket's state without its rows (schema/checkpoint_format.h), then parts (ps/table/
//   table_part.h), each behind its length in 8 bytes.
//
// BucketParts: the same pieces, for a reader of rows that makes no bucket of them.
// Cost: keeps what is not parsed yet: a part at most.
// Errors: INVALID_ARGUMENT and DATA_LOSS, those of the parts among them. Nothing is to be added behind one.
// Tests: tests/unit/ps/bucket_stream_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps/table/bucket_rows.h"
#include "schema/checkpoint_format.h"

namespace downpour {

class BucketParts {
 public:
  using Take = std::function<absl::Status(absl::Span<const std::byte> part)>;

  // Gives every part that is complete by now. It lies where a float may, and is gone behind the call.
  absl::Status Add(absl::Span<const std::byte> piece, const Take& take);

  const std::optional<SliceState>& state() const { return state_; }
  bool whole() const { return state_.has_value() && rest_.empty(); }

 private:
  absl::StatusOr<size_t> TakeNext(absl::Span<const std::byte> bytes, const Take& take);

  std::optional<SliceState> state_;
  std::vector<std::byte> rest_;
};

class BucketStream {
 public:
  BucketStream(const std::vector<TableSpec>& tables, uint32_t bucket, uint64_t copy)
      : installer_(tables, bucket, copy) {}

  absl::Status Add(absl::Span<const std::byte> piece);

  struct Installed {
    SliceState state;  // without values
    BucketRows rows;
  };
  // `consumed`: of the state, as its counters add up.
  const std::optional<SliceState>& state() const { return parts_.state(); }
  absl::StatusOr<Installed> Finish(uint64_t consumed) &&;

 private:
  BucketInstaller installer_;
  BucketParts parts_;
};

// The blocks of such a part: its length, and itself.
std::vector<Payload> FramePart(Payload part);

}  // namespace downpour
