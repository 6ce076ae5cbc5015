// What stands on disk: slice records, in shard files, under a manifest. docs/CHECKPOINT_FORMAT.md has it in prose.
//
//   checkpoints/TERM-N/ps-0.shard     slice records, one after the other
//   checkpoints/TERM-N/MANIFEST       JSON and a checksum line; a checkpoint without a valid one does not exist
//
// Order: little-endian; every byte is under a crc32c. A record is one slice's consistent pair: values and slots, and
//   the counters that say which pushes they hold.
// Errors: DATA_LOSS naming slice and byte for what is damaged, INVALID_ARGUMENT for what no writer of ours makes,
//   UNIMPLEMENTED for a manifest of a later version. Input is hostile: nothing is allocated on the word of an unchecked
//   length.
// Tests: tests/unit/schema flips every byte and cuts at every length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schema/data_file.h"
#include "schema/ids.h"
#include "schema/interval_set.h"
#include "schema/message.h"
#include "schema/payload.h"

namespace downpour {

// One update, in the unit of SliceState::usual_staleness: whole numbers have the same bits on every CPU.
inline constexpr uint64_t kStalenessOne = uint64_t{1} << 16;
inline constexpr uint64_t kMostUsualStaleness = kStalenessOne << 32;

// The pair of architecture's "exactly once", as it is snapshotted, restored and sent.
struct SliceState {
  SliceId slice{};
  SliceEpoch epoch;
  uint64_t version = 0;  // pushes that changed the slice since it was born; Adam's step count; kept across restores
  uint64_t skipped = 0;  // pushes counted without effect since then: not finite, or quarantined
  uint64_t usual_staleness = 0;  // of its pushes, in units of 1/kStalenessOne; at most kMostUsualStaleness
  IntervalSet finished;
  std::vector<LeaseCounter> counters;  // open leases, ascending; none of them in `finished`
  Payload values;                      // float32; of a bucket empty, and there are no slots: its rows follow
  std::vector<Payload> slots;          // each of the size of values
};

// Source: CRC-32C (Castagnoli), RFC 3720 B.4. Crc32c(b, Crc32c(a)) is the checksum of a followed by b.
uint32_t Crc32c(absl::Span<const std::byte> bytes, uint32_t so_far = 0);

// A header block, then values, then each slot; values and slots are shared, not copied. The header block carries the
// checksums of all.
std::vector<Payload> EncodeRecord(const SliceState& state);
// Errors: INVALID_ARGUMENT for a record that DecodeRecord would refuse for its size; whoever makes one asks first.
absl::Status CheckRecordSize(absl::Span<const Payload> blocks);
// No record with so many slots is smaller.
uint64_t LeastRecordBytes(uint64_t value_bytes, uint64_t slots);
// Of a whole record, from its blocks.
uint64_t RecordBytes(absl::Span<const Payload> blocks);
uint32_t RecordChecksum(absl::Span<const Payload> blocks);
// How long the header block is that begins with these bytes; nothing for fewer bytes than tell it.
std::optional<size_t> HeaderBytesOf(absl::Span<const std::byte> record);
// One whole record, cut into pieces anywhere. Values and slots are copied into owned, aligned memory.
absl::StatusOr<SliceState> DecodeRecord(absl::Span<const Payload> pieces);

struct Manifest {
  Round round;
  int64_t unix_ms = 0;  // when it was written; for people
  std::string job;      // canonical job text: the plan is a function of it and the next two
  uint64_t train_examples = 0;
  uint64_t eval_examples = 0;
  uint64_t data_fingerprint = 0;
  std::vector<DataFile> train_files = {};  // for people; may be empty
  IntervalSet committed;                   // leases that every record holds finished
  struct File {
    std::string name;  // plain name in the round's folder
    uint64_t bytes = 0;
  };
  std::vector<File> files;
  struct Record {
    SliceId slice{};
    uint32_t file = 0;  // index into files
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t crc32c = 0;  // of the whole record
    bool operator==(const Record&) const = default;
  };
  std::vector<Record> records;  // one per slice of the grid, by slice id
};

// One line of JSON and one of checksum. At most kMaxManifestBytes are read: more than 100,000 slices need.
inline constexpr size_t kMaxManifestBytes = size_t{32} << 20;
std::string EncodeManifest(const Manifest& manifest);
absl::StatusOr<Manifest> DecodeManifest(const std::string& text);

// "3-17" and back; nothing else parses.
absl::StatusOr<Round> ParseRound(const std::string& folder);

// In the job folder. Values that the user gave a job to begin with look like a checkpoint of round {0, 0}, in a folder
// of their own: no chief numbers a round so.
inline constexpr char kCheckpointsDir[] = "checkpoints";
inline constexpr char kInitialDir[] = "initial";
inline constexpr char kManifestName[] = "MANIFEST";
std::string CheckpointDir(Round round);                       // checkpoints/3-17
std::string ManifestPath(Round round);                        // checkpoints/3-17/MANIFEST
std::string ShardPath(Round round, const std::string& file);  // checkpoints/3-17/ps-0.shard

// checkpoints/3-17 with 5 leases
std::string DescribeCheckpoint(Round round, const IntervalSet& committed);
// ", measured at versions 7 to 9, kept at 11 to 12", to complete a value; empty where both are the same, or not known.
std::string DescribeVersions(const VersionSpan& evaluated, const VersionSpan& kept);

}  // namespace downpour
