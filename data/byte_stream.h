// ByteStream: a source from its beginning to its end, unpacked where it is gzipped.
//
//   ByteStream stream(*source);
//   auto got = stream.Read(to);
//
// Shapes: a gzipped source begins with 1f 8b. It may have several members, as `cat a.gz b.gz` makes them, and zeros
//   behind the last. Source: RFC 1952.
// Cost: memory of one piece of the source, however far it unpacks.
// Errors: those of the source; DATA_LOSS for a packed stream that is cut short, damaged, or followed by other bytes.
// Tests: tests/unit/data/byte_stream_test.cc.
#pragma once

#include <isa-l/igzip_lib.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"

namespace downpour {

// Whether a source begins as gzip does.
absl::StatusOr<bool> IsPacked(const ByteSource& source);

class ByteStream {
 public:
  explicit ByteStream(const ByteSource& source) : source_(source) {}  // which outlives this

  // How many bytes of what follows were read; fewer than to.size() only at the end.
  absl::StatusOr<size_t> Read(absl::Span<uint8_t> to);
  // How many bytes there are in all. Cost: a packed source is unpacked to its end, of others nothing is read.
  absl::StatusOr<uint64_t> SkipToEnd();

  uint64_t offset() const { return offset_; }  // of what was read, unpacked

 private:
  absl::Status Begin();
  absl::Status Refill();
  absl::StatusOr<size_t> Unpack(absl::Span<uint8_t> to);
  // `got`: what the read at hand has unpacked.
  absl::Status BeginMember(size_t got);
  absl::Status Damaged(size_t got, const char* what) const;

  const ByteSource& source_;
  bool begun_ = false;
  std::unique_ptr<inflate_state> inflate_;  // null: the source is not packed
  std::vector<uint8_t> packed_;             // of which inflate_ has the rest to come
  uint64_t taken_ = 0;                      // of the source
  bool between_ = true;                     // no member is under way
  bool has_ended_ = false;                  // one was whole
  uint64_t offset_ = 0;
};

}  // namespace downpour
