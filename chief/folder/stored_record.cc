#include "chief/folder/stored_record.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "chief/folder/storage.h"
#include "chief/known/step_context.h"
#include "schema/codec.h"

namespace downpour {

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

absl::Status CheckRecord(const Manifest& manifest, SliceId slice, const StorageDone& read) {
  const Manifest::Record& record = manifest.records[ToNumber(slice)];
  if (absl::IsNotFound(read.status)) return read.status;
  // Whatever else kept it from being read, the disk may get over it.
  if (!read.status.ok()) return absl::UnavailableError(MessageOf(read.status));
  if (record.bytes > kMaxRecordBytes) {
    return absl::DataLossError(
        absl::StrCat("the manifest gives it ", record.bytes, " bytes, of at most ", kMaxRecordBytes));
  }
  if (read.data.size() != record.bytes) {
    return absl::DataLossError(absl::StrCat("the file ends ", record.bytes - read.data.size(), " bytes too early"));
  }
  if (Crc32c(read.data.bytes()) != record.crc32c) return absl::DataLossError("its checksum does not match");
  return absl::OkStatus();
}

}  // namespace downpour
