#include "service/checksums.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

constexpr size_t kMostKnown = 65536;
constexpr size_t kBlock = size_t{1} << 20;

// Both at once, block by block.
class Digest {
 public:
  Digest() : md5_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { EVP_DigestInit_ex(md5_.get(), EVP_md5(), nullptr); }
  void Add(std::string_view bytes) {
    crc32c_ = Crc32c(absl::MakeSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()), crc32c_);
    EVP_DigestUpdate(md5_.get(), bytes.data(), bytes.size());
  }
  Checksums Take() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> md5{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(md5_.get(), md5.data(), &size);
    std::string crc32c;
    for (int shift = 24; shift >= 0; shift -= 8) crc32c.push_back(static_cast<char>(crc32c_ >> shift & 0xff));
    return {absl::Base64Escape(crc32c),
            absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(md5.data()), size))};
  }

 private:
  uint32_t crc32c_ = 0;
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> md5_;
};

}  // namespace

Checksums ChecksumsOf(std::string_view bytes) {
  Digest digest;
  digest.Add(bytes);
  return digest.Take();
}

absl::StatusOr<Checksums> ChecksumCache::Of(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat at {};
  if (!file.ok() || fstat(file.get(), &at) != 0 || !S_ISREG(at.st_mode)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", path));
  }
  const auto nanoseconds = [](const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; };
  const Key key{at.st_dev, at.st_ino, at.st_size, nanoseconds(at.st_mtim), nanoseconds(at.st_ctim)};
  const auto known = [&]() -> std::optional<Checksums> {
    const std::lock_guard hold(mutex_);
    const auto found = known_.find(key);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  };
  if (std::optional<Checksums> found = known()) return *std::move(found);
  const std::lock_guard hold_reads(reads_);
  if (std::optional<Checksums> found = known()) return *std::move(found);  // by the one that was waited for
  Digest digest;
  std::vector<char> block(kBlock);
  for (int64_t done = 0; done < at.st_size;) {
    const ssize_t got = pread(file.get(), block.data(), std::min<size_t>(kBlock, at.st_size - done), done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::UnavailableError(absl::StrCat(path, " became shorter while it was read: ask again"));
    digest.Add(std::string_view(block.data(), static_cast<size_t>(got)));
    done += got;
  }
  const Checksums sums = digest.Take();
  const std::lock_guard hold(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[key] = sums;
  return sums;
}

}  // namespace downpour
