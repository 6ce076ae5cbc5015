#include "tools/cli/packed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{1} << 18;
constexpr int kZstdLevel = 3;

// A pattern such as out/* finds no name that begins with a dot.
std::string DraftOf(const std::string& path) {
  const fs::path whole(path);
  return (whole.parent_path() / absl::StrCat(".", whole.filename().string(), ".part")).string();
}

}  // namespace

bool PackedFile::IsDraft(std::string_view name) { return name.starts_with('.') && name.ends_with(".part"); }

PackedFile::PackedFile(const std::string& path, Packing packing)
    : path_(path), draft_(DraftOf(path)), packing_(packing), zstd_(nullptr, &ZSTD_freeCCtx) {}

PackedFile::~PackedFile() {
  if (is_there_) std::remove(draft_.c_str());
}

absl::Status PackedFile::Failed(const std::string& path) const {
  return absl::ErrnoToStatus(errno, "cannot write " + path);
}

absl::Status PackedFile::Open() {
  file_ = UniqueFd(open(draft_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file_.ok() && errno == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(
        draft_, " is there already: somebody writes it now, or was stopped; then remove it, or name another folder"));
  }
  if (!file_.ok()) return Failed(draft_);
  is_there_ = true;
  packed_.resize(kPiece);
  if (packing_ == Packing::kGzip) {
    gzip_ = std::make_unique<isal_zstream>();
    isal_deflate_init(gzip_.get());
    gzip_memory_.resize(ISAL_DEF_LVL1_DEFAULT);
    gzip_->level = 1;
    gzip_->level_buf = gzip_memory_.data();
    gzip_->level_buf_size = static_cast<uint32_t>(gzip_memory_.size());
    gzip_->gzip_flag = IGZIP_GZIP;
  } else if (packing_ == Packing::kZstd) {
    zstd_.reset(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, kZstdLevel);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_checksumFlag, 1);
  }
  return absl::OkStatus();
}

void PackedFile::Add(std::string_view bytes) {
  piece_.append(bytes);
  if (piece_.size() >= kPiece) Pack(false);
}

void PackedFile::Pack(bool is_last) {
  if (gzip_ != nullptr) {
    Gzip(is_last);
  } else if (zstd_ != nullptr) {
    Zstd(is_last);
  } else {
    Write(piece_);
  }
  piece_.clear();
}

void PackedFile::Gzip(bool is_last) {
  gzip_->next_in = reinterpret_cast<uint8_t*>(piece_.data());
  gzip_->avail_in = static_cast<uint32_t>(piece_.size());
  gzip_->end_of_stream = is_last ? 1 : 0;
  do {
    gzip_->next_out = packed_.data();
    gzip_->avail_out = static_cast<uint32_t>(packed_.size());
    if (isal_deflate(gzip_.get()) != COMP_OK) status_.Update(absl::InternalError("cannot pack " + path_));
    Write({reinterpret_cast<const char*>(packed_.data()), packed_.size() - gzip_->avail_out});
  } while (gzip_->avail_out == 0 && status_.ok());
}

void PackedFile::Zstd(bool is_last) {
  ZSTD_inBuffer in{piece_.data(), piece_.size(), 0};
  for (bool is_done = false; !is_done && status_.ok();) {
    ZSTD_outBuffer out{packed_.data(), packed_.size(), 0};
    const size_t rest = ZSTD_compressStream2(zstd_.get(), &out, &in, is_last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(rest)) status_.Update(absl::InternalError("cannot pack " + path_));
    Write({reinterpret_cast<const char*>(packed_.data()), out.pos});
    is_done = is_last ? rest == 0 : in.pos == in.size;
  }
}

void PackedFile::Write(std::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return status_.Update(Failed(draft_));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

absl::Status PackedFile::Finish() {
  Pack(true);
  if (status_.ok() && fsync(file_.get()) != 0 && errno != EINVAL) status_ = Failed(draft_);
  if (close(file_.Release()) != 0 && status_.ok()) status_ = Failed(draft_);
  gzip_.reset();
  zstd_.reset();
  gzip_memory_ = packed_ = {};
  piece_ = {};
  return status_;
}

absl::Status PackedFile::Publish() {
  // A rename would take the place of a file that came meanwhile. Not all file systems can refuse that.
  int renamed = renameat2(AT_FDCWD, draft_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
  if (renamed != 0 && (errno == EINVAL || errno == ENOSYS)) {
    std::error_code error;
    if (!fs::exists(path_, error)) renamed = std::rename(draft_.c_str(), path_.c_str());
  }
  if (renamed != 0) return Failed(path_);
  is_there_ = false;
  return absl::OkStatus();
}

}  // namespace downpour
