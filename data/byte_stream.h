// ByteStream: a source from its beginning to its end, unpacked where it is packed by gzip or zstd.
//
//   ByteStream stream(*source);
//   auto got = stream.Read(to);
//
// Shapes: a gzipped source begins with 1f 8b. It may have several members, as `cat a.gz b.gz` makes them, and zeros
//   behind the last. Source: RFC 1952. One that is packed by zstd begins with a frame, and may have several, some of
//   them to be skipped. Source: RFC 8878.
// Cost: memory of one piece of the source, however far it unpacks, and of a window: 32 KiB, or what a frame of zstd
//   asks for, at most 128 MiB.
// Errors: those of the source; DATA_LOSS for a packed stream that is cut short, damaged, or followed by other bytes.
// Tests: tests/unit/data/byte_stream_test.cc.
#pragma once

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"

namespace downpour {

enum class Packing { kNone, kGzip, kZstd };

// As a source's first bytes show it. Errors: those of reading; INVALID_ARGUMENT for what is packed by another program.
absl::StatusOr<Packing> PackingOf(const ByteSource& source);
absl::StatusOr<bool> IsPacked(const ByteSource& source);

class ByteStream {
 public:
  explicit ByteStream(const ByteSource& source)
      : source_(source), frames_(nullptr, &ZSTD_freeDCtx) {}  // which outlives this

  // How many bytes of what follows were read; fewer than to.size() only at the end.
  absl::StatusOr<size_t> Read(absl::Span<uint8_t> to);
  // How many bytes there are in all. Cost: a packed source is unpacked to its end, of others nothing is read.
  absl::StatusOr<uint64_t> SkipToEnd();

  uint64_t offset() const { return offset_; }  // of what was read, unpacked

 private:
  absl::Status Begin();
  absl::Status Refill();
  absl::StatusOr<size_t> Unpack(absl::Span<uint8_t> to);
  absl::StatusOr<size_t> UnpackFrames(absl::Span<uint8_t> to);
  // `got`: what the read at hand has unpacked.
  absl::Status BeginMember(size_t got);
  absl::Status Damaged(size_t got, const char* what) const;

  const ByteSource& source_;
  bool begun_ = false;
  std::unique_ptr<inflate_state> inflate_;                     // of gzip; null: the source is packed otherwise, or not
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> frames_;  // of zstd, likewise
  ZSTD_inBuffer rest_{};                                       // of zstd: what of packed_ is to come
  std::vector<uint8_t> packed_;                                // of which inflate_ has the rest to come
  uint64_t taken_ = 0;                                         // of the source
  bool between_ = true;                                        // no member and no frame is under way
  bool has_ended_ = false;                                     // one was whole
  uint64_t offset_ = 0;
};

}  // namespace downpour
