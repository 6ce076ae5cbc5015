#include "data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(std::string path, int fd, const struct stat& at)
      : path_(std::move(path)),
        fd_(fd),
        size_(static_cast<uint64_t>(at.st_size)),
        version_(static_cast<uint64_t>(at.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(at.st_mtim.tv_nsec)) {
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { close(fd_); }

  const std::string& name() const override { return path_; }
  uint64_t size() const override { return size_; }
  uint64_t version() const override { return version_; }
  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<uint8_t> to) const override {
    size_t got = 0;
    while (got < to.size()) {
      const ssize_t n = pread(fd_, to.data() + got, to.size() - got, static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        return absl::UnavailableError(
            absl::StrCat(path_, ": unreadable after byte ", offset + got, ": ", std::strerror(errno)));
      }
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    return got;
  }

 private:
  const std::string path_;
  const int fd_;
  const uint64_t size_, version_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> AdoptFile(const std::string& name, int fd) {
  struct stat at {};
  const bool is_file = fstat(fd, &at) == 0 && S_ISREG(at.st_mode);
  auto source = std::make_unique<FileSource>(name, fd, at);
  if (is_file) return source;
  return absl::InvalidArgumentError(name + " is no regular file: name a file of data");
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, "cannot open " + path);
  }
  return AdoptFile(path, fd);
}

}  // namespace downpour
