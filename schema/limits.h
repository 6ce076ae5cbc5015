// The limits of a message. schema/PROTOCOL.md says why each is what it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace downpour {

// Units: bytes or counts. A header above kMaxHeaderBytes is refused before it is read.
inline constexpr size_t kMaxFrameBytes = size_t{1} << 20;      // one slice
inline constexpr size_t kMaxMessagePayload = size_t{1} << 20;  // of Push, of PullReply: one bounded piece of work
inline constexpr size_t kMaxRecordBytes = size_t{4} << 20;  // of SliceRecord and RestoreSlice: values, slots, counters
inline constexpr uint64_t kMaxBucketRecordBytes = uint64_t{1} << 50;  // of a bucket's, which travels in pieces
inline constexpr uint32_t kRecordPartsAhead = 8;  // of a bucket's record: parts beyond those that are on the disk
inline constexpr size_t kPieceBytes = size_t{1} << 20;                // of RestoreSlice: a bucket's record
inline constexpr size_t kCodeBlockBytes = size_t{1} << 18;            // of CodeBlock: the user's Python code
inline constexpr size_t kMaxHeaderBytes = size_t{4} << 20;  // a placement of 100,000 slices; a job text of 1 MiB
inline constexpr size_t kMaxFrames = 1024;                  // of one message, the header included
inline constexpr size_t kMaxItems = 131072;                 // of any list
inline constexpr size_t kMaxStringBytes = 4096;
inline constexpr size_t kMaxTextBytes = size_t{1} << 20;    // of a job's text
inline constexpr size_t kMaxStatusBytes = size_t{3} << 20;  // of a status, which leaves out rows rather than exceed it

}  // namespace downpour
