// BucketParts: a bucket's record as it comes in pieces, cut anywhere, part by part.
//
//   BucketParts parts;
//   status = parts.Add(piece, take);                  // for all of them, in order; `take` gets the rows' parts
//   if (parts.whole()) Use(*parts.state());
//
// Shapes: a record of the bucket's state without its rows (schema/checkpoint_format.h), then parts (ps/table/
//   table_part.h), each behind its length in 8 bytes.
// Cost: keeps what is not parsed yet: a part at most.
// Errors: INVALID_ARGUMENT and DATA_LOSS, those of `take` among them. Nothing is to be added behind one.
// Tests: tests/unit/ps/slice_states_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
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

// The blocks of such a part: its length, and itself.
std::vector<Payload> FramePart(Payload part);

}  // namespace downpour
