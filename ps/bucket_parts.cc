#include "ps/bucket_parts.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/limits.h"

namespace downpour {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t);

}  // namespace

absl::Status BucketParts::Add(absl::Span<const std::byte> piece, const Take& take) {
  rest_.insert(rest_.end(), piece.begin(), piece.end());
  size_t taken = 0;
  while (true) {
    const absl::StatusOr<size_t> some = TakeNext(absl::MakeConstSpan(rest_).subspan(taken), take);
    if (!some.ok()) return some.status();
    if (*some == 0) break;
    taken += *some;
  }
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(taken));
  return absl::OkStatus();
}

// The bytes of what lies whole at the front, and is taken; 0: it does not yet.
absl::StatusOr<size_t> BucketParts::TakeNext(absl::Span<const std::byte> bytes, const Take& take) {
  const auto is_too_long = [](uint64_t length) {
    return absl::DataLossError(absl::StrCat("a damaged record of a bucket: it names ", length, " bytes in a row"));
  };
  if (!state_) {
    const std::optional<size_t> header = HeaderBytesOf(bytes);
    if (!header) return 0;
    if (*header == 0 || *header > kMaxFrameBytes) return is_too_long(*header);
    if (bytes.size() < *header) return 0;
    const Payload block = Payload::CopyOf(bytes.data(), *header);
    absl::StatusOr<SliceState> state = DecodeRecord({&block, 1});
    if (!state.ok()) return state.status();
    state_ = *std::move(state);
    return *header;
  }
  if (bytes.size() < kLengthBytes) return 0;
  uint64_t length;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxFrameBytes) return is_too_long(length);
  if (bytes.size() < kLengthBytes + length) return 0;
  // Rows are read as they lie, so that they must lie where a float may.
  const Payload part = Payload::CopyOf(bytes.data() + kLengthBytes, length);
  if (absl::Status status = take(part.bytes()); !status.ok()) return status;
  return kLengthBytes + length;
}

std::vector<Payload> FramePart(Payload part) {
  const uint64_t length = part.size();
  return {Payload::CopyOf(&length, sizeof length), std::move(part)};
}

}  // namespace downpour
