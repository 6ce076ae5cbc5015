#include "data/indexed_file.h"

#include <glog/logging.h>

#include <atomic>

#include "data/index_file.h"
#include "data/set_files.h"
#include "data/word_hash.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr int kMostKeptOpen = 256;
std::atomic<int> kept_open = 0;

}  // namespace

bool KeptOpen::HasRoom() { return kept_open < kMostKeptOpen; }

void KeptOpen::Take() {
  kept_open += !is_taken_;
  is_taken_ = true;
}

KeptOpen::~KeptOpen() { kept_open -= is_taken_; }

std::optional<RecordIndex> FittingIndex(const std::string& path, const std::string& cutting, const ByteSource& source,
                                        uint64_t begin) {
  absl::StatusOr<RecordIndex> index = ReadIndex(path + kIndexSuffix);
  if (absl::IsNotFound(index.status())) return std::nullopt;
  const absl::Status fits = index.ok() ? CheckIndex(*index, cutting, source, begin) : index.status();
  if (fits.ok()) return *std::move(index);
  LOG(INFO) << path << kIndexSuffix << " is not used: " << fits.message() << "; " << path << " is read to its end";
  return std::nullopt;
}

uint64_t IndexedFile::MixedInto(uint64_t fingerprint) const {
  fingerprint = MixAll(fingerprint, HashWord(layout()), index_.pieces.size());
  for (const Piece& piece : index_.pieces) fingerprint = MixAll(fingerprint, piece.checksum);
  return fingerprint;
}

void IndexedFile::TakeIndex(RecordIndex index, bool is_kept) {
  index_ = std::move(index);
  is_kept_ = is_kept;
}

void IndexedFile::KeepIndex(LeftOut left_out) {
  if (left_out != index_.left_out) {
    index_.left_out = std::move(left_out);
    is_kept_ = false;
  }
  // Whoever may not write there reads the file at each start.
  if (!is_kept_ && index_.size >= kLeastIndexed) WriteIndex().IgnoreError();
}

absl::Status IndexedFile::WriteIndex() {
  is_kept_ = true;
  return downpour::WriteIndex(path_ + kIndexSuffix, index_, path_);
}

}  // namespace downpour
