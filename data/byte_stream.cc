#include "data/byte_stream.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr size_t kPiece = size_t{1} << 18;
constexpr size_t kSkipped = size_t{1} << 20;
constexpr std::array<uint8_t, 2> kMagic = {0x1f, 0x8b};

// What else people pack by, so that its bytes are not taken for a text that is damaged.
struct OtherPacking {
  const char* name;
  std::string_view begins;  // the file with it
};
constexpr OtherPacking kOthers[] = {
    {"bzip2", "BZh91AY&SY"}, {"xz", std::string_view("\3757zXZ\0", 6)}, {"zip, as spreadsheets are", "PK\x03\x04"}};

}  // namespace

absl::StatusOr<Packing> PackingOf(const ByteSource& source) {
  std::array<uint8_t, 10> first{};
  const absl::StatusOr<size_t> got = source.Read(0, absl::MakeSpan(first));
  if (!got.ok()) return got.status();
  const std::string_view begins(reinterpret_cast<const char*>(first.data()), *got);
  for (const OtherPacking& other : kOthers) {
    if (!begins.starts_with(other.begins)) continue;
    return absl::InvalidArgumentError(absl::StrCat(source.name(), ": is packed by ", other.name,
                                                   "; unpack it, and pack it by gzip or zstd if it is to be small"));
  }
  const absl::Span<const uint8_t> magic = absl::MakeConstSpan(first).first(4);
  if (*got >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), magic.begin())) return Packing::kGzip;
  if (*got < magic.size()) return Packing::kNone;
  uint32_t frame = 0;
  for (size_t i = 0; i < magic.size(); ++i) frame |= static_cast<uint32_t>(magic[i]) << (8 * i);
  return frame == ZSTD_MAGICNUMBER || (frame & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START
             ? Packing::kZstd
             : Packing::kNone;
}

absl::StatusOr<bool> IsPacked(const ByteSource& source) {
  const absl::StatusOr<Packing> packing = PackingOf(source);
  if (!packing.ok()) return packing.status();
  return *packing != Packing::kNone;
}

absl::StatusOr<size_t> ByteStream::Read(absl::Span<uint8_t> to) {
  if (absl::Status status = begun_ ? absl::OkStatus() : Begin(); !status.ok()) return status;
  const absl::StatusOr<size_t> got = inflate_ != nullptr  ? Unpack(to)
                                     : frames_ != nullptr ? UnpackFrames(to)
                                                          : source_.Read(offset_, to);
  if (got.ok()) offset_ += *got;
  return got;
}

absl::StatusOr<uint64_t> ByteStream::SkipToEnd() {
  if (absl::Status status = begun_ ? absl::OkStatus() : Begin(); !status.ok()) return status;
  if (inflate_ == nullptr && frames_ == nullptr) return source_.size();
  std::vector<uint8_t> some(kSkipped);
  for (size_t got = kSkipped; got == kSkipped;) {
    const absl::StatusOr<size_t> more = Read(absl::MakeSpan(some));
    if (!more.ok()) return more.status();
    got = *more;
  }
  return offset_;
}

absl::Status ByteStream::Begin() {
  const absl::StatusOr<Packing> packing = PackingOf(source_);
  if (!packing.ok()) return packing.status();
  begun_ = true;
  if (*packing == Packing::kNone) return absl::OkStatus();
  packed_.resize(kPiece);
  if (*packing == Packing::kZstd) {
    frames_.reset(ZSTD_createDCtx());
    if (frames_ == nullptr) return absl::ResourceExhaustedError(source_.name() + ": no memory to unpack it");
    return absl::OkStatus();
  }
  inflate_ = std::make_unique<inflate_state>();
  isal_inflate_init(inflate_.get());
  return absl::OkStatus();
}

// Leaves avail_in at 0 at the source's end.
absl::Status ByteStream::Refill() {
  if (inflate_->avail_in > 0) return absl::OkStatus();
  const absl::StatusOr<size_t> got = source_.Read(taken_, absl::MakeSpan(packed_));
  if (!got.ok()) return got.status();
  taken_ += *got;
  inflate_->next_in = packed_.data();
  inflate_->avail_in = static_cast<uint32_t>(*got);
  return absl::OkStatus();
}

// Leaves between_ set where no member follows.
absl::Status ByteStream::BeginMember(size_t got) {
  for (;;) {
    if (absl::Status status = Refill(); !status.ok()) return status;
    if (inflate_->avail_in == 0) return absl::OkStatus();
    if (!has_ended_ || *inflate_->next_in != 0) break;  // zeros may follow the last member, as tapes had them
    ++inflate_->next_in;
    --inflate_->avail_in;
  }
  if (*inflate_->next_in != kMagic[0]) return Damaged(got, "other bytes follow what is gzipped");
  isal_inflate_reset(inflate_.get());
  inflate_->crc_flag = ISAL_GZIP;
  between_ = false;
  return absl::OkStatus();
}

absl::StatusOr<size_t> ByteStream::Unpack(absl::Span<uint8_t> to) {
  size_t got = 0;
  while (got < to.size()) {
    if (between_) {
      if (absl::Status status = BeginMember(got); !status.ok()) return status;
      if (between_) break;
    }
    if (absl::Status status = Refill(); !status.ok()) return status;
    const uint32_t room = static_cast<uint32_t>(std::min(to.size() - got, kSkipped)), had = inflate_->avail_in;
    inflate_->next_out = to.data() + got;
    inflate_->avail_out = room;
    if (isal_inflate(inflate_.get()) != ISAL_DECOMP_OK) return Damaged(got, "it is no gzip, or its checksum is wrong");
    const size_t more = room - inflate_->avail_out;
    got += more;
    between_ = inflate_->block_state == ISAL_BLOCK_FINISH;
    has_ended_ |= between_;
    if (!between_ && had == 0 && more == 0) return Damaged(got, "truncated within what is gzipped");
  }
  return got;
}

absl::StatusOr<size_t> ByteStream::UnpackFrames(absl::Span<uint8_t> to) {
  ZSTD_outBuffer out{to.data(), to.size(), 0};
  while (out.pos < out.size) {
    if (rest_.pos == rest_.size) {
      const absl::StatusOr<size_t> more = source_.Read(taken_, absl::MakeSpan(packed_));
      if (!more.ok()) return more.status();
      taken_ += *more;
      rest_ = {packed_.data(), *more, 0};
    }
    const bool is_end = rest_.size == 0;
    if (is_end && between_) break;
    const size_t before = out.pos, left = ZSTD_decompressStream(frames_.get(), &out, &rest_);
    if (ZSTD_isError(left) != 0) return Damaged(before, ZSTD_getErrorName(left));
    between_ = left == 0;
    if (is_end && out.pos == before) return Damaged(before, "truncated within what is packed by zstd");
  }
  return out.pos;
}

absl::Status ByteStream::Damaged(size_t got, const char* what) const {
  return absl::DataLossError(absl::StrCat(source_.name(), ": unreadable after byte ", offset_ + got, ": ", what));
}

}  // namespace downpour
