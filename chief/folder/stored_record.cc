#include "chief/folder/stored_record.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "chief/folder/storage.h"
#include "chief/known/step_context.h"
#include "schema/codec.h"

namespace downpour {
namespace {

absl::Status CheckRead(const StorageDone& read, uint64_t bytes) {
  if (absl::IsNotFound(read.status)) return read.status;
  // Whatever else kept it from being read, the disk may get over it.
  if (!read.status.ok()) return absl::UnavailableError(MessageOf(read.status));
  if (read.data.size() == bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the file ends ", bytes - read.data.size(), " bytes too early"));
}

}  // namespace

std::vector<Payload> CutIntoFrames(const Payload& bytes) {
  std::vector<Payload> frames;
  for (size_t offset = 0; offset < bytes.size(); offset += kMaxFrameBytes) {
    frames.push_back(bytes.Sub(offset, std::min(kMaxFrameBytes, bytes.size() - offset)));
  }
  return frames;
}

std::string ShardPathOf(const Manifest& manifest, SliceId slice) {
  return ShardPath(manifest.round, manifest.files[manifest.records[ToNumber(slice)].file].name);
}

StorageOp ReadRecord(const Manifest& manifest, SliceId slice) {
  const Manifest::Record& record = manifest.records[ToNumber(slice)];
  return ReadFile(ShardPathOf(manifest, slice), record.offset, std::min<uint64_t>(record.bytes, kMaxRecordBytes));
}

uint32_t PiecesOf(const Manifest& manifest, SliceId slice, uint64_t piece_bytes) {
  const uint64_t bytes = manifest.records[ToNumber(slice)].bytes;
  return static_cast<uint32_t>((bytes + piece_bytes - 1) / piece_bytes);
}

StorageOp ReadPiece(const Manifest& manifest, SliceId slice, uint32_t piece, uint64_t piece_bytes) {
  const Manifest::Record& record = manifest.records[ToNumber(slice)];
  const uint64_t before = uint64_t{piece} * piece_bytes;
  return ReadFile(ShardPathOf(manifest, slice), record.offset + before, std::min(piece_bytes, record.bytes - before));
}

absl::Status CheckPiece(const Manifest& manifest, SliceId slice, uint32_t piece, uint64_t piece_bytes,
                        const StorageDone& read, uint32_t* checksum) {
  const Manifest::Record& record = manifest.records[ToNumber(slice)];
  const uint64_t before = uint64_t{piece} * piece_bytes;
  const absl::Status status = CheckRead(read, std::min(piece_bytes, record.bytes - before));
  if (!status.ok()) return status;
  const uint32_t so_far = Crc32c(read.data.bytes(), *checksum);
  const bool is_last = before + read.data.size() == record.bytes;
  if (is_last && so_far != record.crc32c) return absl::DataLossError("its checksum does not match");
  *checksum = so_far;
  return absl::OkStatus();
}

absl::Status CheckRecord(const Manifest& manifest, SliceId slice, const StorageDone& read) {
  const Manifest::Record& record = manifest.records[ToNumber(slice)];
  if (read.status.ok() && record.bytes > kMaxRecordBytes) {
    return absl::DataLossError(
        absl::StrCat("the manifest gives it ", record.bytes, " bytes, of at most ", kMaxRecordBytes));
  }
  if (absl::Status status = CheckRead(read, record.bytes); !status.ok()) return status;
  if (Crc32c(read.data.bytes()) != record.crc32c) return absl::DataLossError("its checksum does not match");
  return absl::OkStatus();
}

}  // namespace downpour
