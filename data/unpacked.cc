#include "data/unpacked.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/byte_stream.h"

namespace downpour {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

class ClosedInTheEnd {
 public:
  explicit ClosedInTheEnd(int fd) : fd_(fd) {}
  ~ClosedInTheEnd() {
    if (fd_ >= 0) close(fd_);
  }
  ClosedInTheEnd(const ClosedInTheEnd&) = delete;
  ClosedInTheEnd& operator=(const ClosedInTheEnd&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// -1, with errno.
int OpenUnnamed(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = folder + "/downpour-unpacked.XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

bool WriteAll(int fd, absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// `read` fills as much of its span as there is, and less at the end alone. `what`: cannot unpack FILE.
template <typename Read>
absl::StatusOr<std::unique_ptr<ByteSource>> InUnnamed(const std::string& name, const std::string& what,
                                                      const std::string& otherwise, const Read& read) {
  const char* const set = std::getenv("TMPDIR");
  const std::string folder = set == nullptr || *set == '\0' ? "/tmp" : set;
  const auto failed = [&] {
    const std::string words = absl::StrCat(what, " into ", folder, ": ", std::strerror(errno),
                                           "; set TMPDIR to a folder with room, or ", otherwise);
    return errno == ENOSPC || errno == EDQUOT ? absl::ResourceExhaustedError(words) : absl::UnavailableError(words);
  };
  ClosedInTheEnd fd(OpenUnnamed(folder));
  if (fd.get() < 0) return failed();
  std::vector<uint8_t> piece(kPiece);
  for (;;) {
    const absl::StatusOr<size_t> got = read(absl::MakeSpan(piece));
    if (!got.ok()) return got.status();
    if (!WriteAll(fd.get(), absl::MakeConstSpan(piece).first(*got))) return failed();
    if (*got < piece.size()) return AdoptFile(name, fd.Release());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> source) {
  const absl::StatusOr<bool> is_packed = IsPacked(*source);
  if (!is_packed.ok()) return is_packed.status();
  if (!*is_packed) return source;
  ByteStream stream(*source);
  return InUnnamed(source->name(), "cannot unpack " + source->name(), "unpack it",
                   [&](absl::Span<uint8_t> to) { return stream.Read(to); });
}

absl::StatusOr<std::unique_ptr<ByteSource>> Spooled(const std::string& name, int fd) {
  const auto read = [&](absl::Span<uint8_t> to) -> absl::StatusOr<size_t> {
    size_t got = 0;
    while (got < to.size()) {
      const ssize_t n = ::read(fd, to.data() + got, to.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return absl::ErrnoToStatus(errno, "cannot read " + name);
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    return got;
  };
  return InUnnamed(name, "cannot keep " + name, "name a file", read);
}

}  // namespace downpour
