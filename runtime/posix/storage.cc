#include "runtime/posix/storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/posix/lock.h"
#include "schema/text.h"

namespace downpour {
namespace {

// A pipe or a device in place of a file must not hold up the thread.
constexpr int kFileFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// One operation below `root`; a failure says what was tried, on which path, and why.
class Operation {
 public:
  Operation(const std::string& root_name, int root, const StorageOp& op)
      : root_name_(root_name), root_(root), op_(op) {}

  StorageDone Run() {
    StorageDone done;
    done.ticket = op_.ticket;
    switch (op_.kind) {
      case StorageOp::Kind::kMakeDir:
        done.status = MakeDir();
        break;
      case StorageOp::Kind::kWrite:
        done.status = Write();
        break;
      case StorageOp::Kind::kAppend:
        done.status = Append();
        break;
      case StorageOp::Kind::kSync:
        done.status = Sync();
        break;
      case StorageOp::Kind::kSyncDir:
        done.status = SyncDir();
        break;
      case StorageOp::Kind::kRename:
        done.status = Rename();
        break;
      case StorageOp::Kind::kRemove:
        done.status = Remove();
        break;
      case StorageOp::Kind::kRead:
        done.status = Read(&done.data);
        break;
      case StorageOp::Kind::kList:
        done.status = List(&done.names);
        break;
    }
    return done;
  }

 private:
  using Names = std::vector<std::string>;
  struct Place {  // a name in an open folder
    UniqueFd folder;
    std::string name;
  };

  absl::Status Error(const std::string& what, int number = errno) const {
    return absl::ErrnoToStatus(number, absl::StrCat("cannot ", what, " ", root_name_, "/", op_.path));
  }

  absl::StatusOr<Names> Parse(const std::string& path) const {
    if (path.empty()) return Names();
    Names names = absl::StrSplit(path, '/');
    if (!std::all_of(names.begin(), names.end(), [](const std::string& name) { return IsPlainName(name); })) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", CleanText(path, 256), "\" is no path below ", root_name_, ": names joined by '/' are"));
    }
    return names;
  }

  // Opens one folder after the other, following no link.
  absl::StatusOr<UniqueFd> Walk(const Names& names, bool make) const {
    UniqueFd folder(openat(root_, ".", kFolderFlags));
    for (const std::string& name : names) {
      if (!folder.ok()) break;
      if (make && mkdirat(folder.get(), name.c_str(), 0777) != 0 && errno != EEXIST) return Error("make the folder");
      folder = UniqueFd(openat(folder.get(), name.c_str(), kFolderFlags));
    }
    if (!folder.ok()) return Error("open the folder of");
    return folder;
  }

  absl::StatusOr<Place> Locate(const std::string& path) const {
    absl::StatusOr<Names> names = Parse(path);
    if (!names.ok()) return names.status();
    if (names->empty()) return absl::InvalidArgumentError(absl::StrCat(root_name_, " itself is no file"));
    const std::string name = names->back();
    names->pop_back();
    absl::StatusOr<UniqueFd> folder = Walk(*names, /*make=*/false);
    if (!folder.ok()) return folder.status();
    return Place{std::move(*folder), name};
  }

  absl::StatusOr<UniqueFd> OpenFolder(bool make) const {
    absl::StatusOr<Names> names = Parse(op_.path);
    return names.ok() ? Walk(*names, make) : names.status();
  }

  // Opens a regular file and says how long it is.
  absl::StatusOr<UniqueFd> OpenFile(const Place& place, int flags, uint64_t* size) const {
    const mode_t mode = op_.is_private ? 0600 : 0666;
    UniqueFd file(openat(place.folder.get(), place.name.c_str(), flags | kFileFlags, mode));
    struct stat about {};
    if (!file.ok() || fstat(file.get(), &about) != 0) return Error("open");
    if (!S_ISREG(about.st_mode)) return Error("use as a file", EINVAL);
    *size = about.st_size;
    return file;
  }

  absl::Status WriteAll(UniqueFd& file) const {
    for (const Payload& block : op_.data) {
      for (size_t done = 0; done < block.size();) {
        const ssize_t wrote = write(file.get(), block.data() + done, block.size() - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return Error("write");
        done += wrote;
      }
    }
    return absl::OkStatus();
  }
  // A remote file system may only then tell of a full disk.
  absl::Status CloseFile(UniqueFd& file) const {
    return close(file.Release()) == 0 ? absl::OkStatus() : Error("close");
  }

  absl::Status MakeDir() const { return OpenFolder(/*make=*/true).status(); }

  absl::Status Write() const {
    absl::StatusOr<Place> place = Locate(op_.path);
    if (!place.ok()) return place.status();
    uint64_t size = 0;
    absl::StatusOr<UniqueFd> file = OpenFile(*place, O_WRONLY | O_CREAT | O_EXCL, &size);
    if (!file.ok()) return file.status();
    absl::Status status = WriteAll(*file);
    if (status.ok()) status = CloseFile(*file);
    if (!status.ok()) unlinkat(place->folder.get(), place->name.c_str(), 0);
    return status;
  }

  absl::Status Append() const {
    absl::StatusOr<Place> place = Locate(op_.path);
    if (!place.ok()) return place.status();
    uint64_t size = 0;
    absl::StatusOr<UniqueFd> file = OpenFile(*place, O_WRONLY | O_CREAT | O_APPEND, &size);
    if (!file.ok()) return file.status();
    absl::Status status = WriteAll(*file);
    if (status.ok()) status = CloseFile(*file);  // a remote disk may say only now that it is full
    if (status.ok()) return status;
    uint64_t size_now = 0;
    const absl::StatusOr<UniqueFd> again = OpenFile(*place, O_WRONLY, &size_now);
    if (again.ok() && ftruncate(again->get(), static_cast<off_t>(size)) == 0) return status;
    return absl::DataLossError(absl::StrCat(std::string(status.message()), "; and what was written stays"));
  }

  absl::Status Sync() const {
    absl::StatusOr<Place> place = Locate(op_.path);
    if (!place.ok()) return place.status();
    uint64_t size = 0;
    absl::StatusOr<UniqueFd> file = OpenFile(*place, O_RDONLY, &size);
    if (!file.ok()) return file.status();
    return fsync(file->get()) == 0 ? absl::OkStatus() : Error("sync");
  }

  absl::Status SyncDir() const {
    absl::StatusOr<UniqueFd> folder = OpenFolder(/*make=*/false);
    if (!folder.ok()) return folder.status();
    return fsync(folder->get()) == 0 ? absl::OkStatus() : Error("sync");
  }

  absl::Status Rename() const {
    absl::StatusOr<Place> from = Locate(op_.path);
    if (!from.ok()) return from.status();
    absl::StatusOr<Place> to = Locate(op_.target);
    if (!to.ok()) return to.status();
    const int rc = renameat(from->folder.get(), from->name.c_str(), to->folder.get(), to->name.c_str());
    return rc == 0 ? absl::OkStatus() : Error(absl::StrCat("rename to ", op_.target));
  }

  absl::Status Remove() const {
    absl::StatusOr<Place> place = Locate(op_.path);
    if (absl::IsNotFound(place.status())) return absl::OkStatus();
    return place.ok() ? RemoveTree(place->folder.get(), place->name) : place.status();
  }

  absl::Status RemoveTree(int folder, const std::string& name) const {
    if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
    if (errno != EISDIR) return Error(absl::StrCat("remove ", name, " of"));
    UniqueFd inner(openat(folder, name.c_str(), kFolderFlags));
    Names names;
    if (!inner.ok() || !ReadFolder(inner.get(), &names)) return Error("list");
    for (std::string& entry : names) {
      if (entry.back() == '/') entry.pop_back();
      if (absl::Status status = RemoveTree(inner.get(), entry); !status.ok()) return status;
    }
    return unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 ? absl::OkStatus() : Error("remove");
  }

  absl::Status Read(Payload* data) const {
    absl::StatusOr<Place> place = Locate(op_.path);
    if (!place.ok()) return place.status();
    uint64_t size = 0;
    absl::StatusOr<UniqueFd> file = OpenFile(*place, O_RDONLY, &size);
    if (!file.ok()) return file.status();
    if (op_.offset >= size) return absl::OkStatus();
    Payload block = Payload::Allocate(std::min(op_.bytes, size - op_.offset));
    size_t done = 0;
    while (done < block.size()) {
      const ssize_t got =
          pread(file->get(), block.mutable_data() + done, block.size() - done, static_cast<off_t>(op_.offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EIO) return absl::DataLossError(std::string(Error("read").message()));
      if (got < 0) return Error("read");
      if (got == 0) break;
      done += got;
    }
    *data = done == block.size() ? std::move(block) : block.Sub(0, done);
    return absl::OkStatus();
  }

  absl::Status List(Names* names) const {
    absl::StatusOr<UniqueFd> folder = OpenFolder(/*make=*/false);
    if (!folder.ok()) return folder.status();
    if (!ReadFolder(folder->get(), names)) return Error("list");
    std::sort(names->begin(), names->end());
    return absl::OkStatus();
  }

  // False, with errno, if the folder cannot be read.
  static bool ReadFolder(int folder, Names* names) {
    UniqueFd again(openat(folder, ".", kFolderFlags));
    std::unique_ptr<DIR, int (*)(DIR*)> entries(again.ok() ? fdopendir(again.get()) : nullptr, closedir);
    if (entries == nullptr) return false;
    again.Release();  // it is the entries' now
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(entries.get());
      if (entry == nullptr) return errno == 0;
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat about {};
      const bool known = fstatat(folder, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
      names->push_back(known && S_ISDIR(about.st_mode) ? name + "/" : name);
    }
  }

  const std::string& root_name_;
  const int root_;
  const StorageOp& op_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PosixStorage>> PosixStorage::Open(const std::string& root, Mailbox* mailbox) {
  std::error_code error;
  std::filesystem::create_directories(root, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make the folder ", root));
  UniqueFd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the folder ", root));
  return std::unique_ptr<PosixStorage>(new PosixStorage(root, std::move(fd), mailbox));
}

PosixStorage::PosixStorage(const std::string& root, UniqueFd fd, Mailbox* mailbox)
    : root_(root),
      fd_(std::move(fd)),
      thread_(AtEnd::kFinish, [this, mailbox](StorageOp op) { mailbox->Post(Operation(root_, fd_.get(), op).Run()); }) {
}

absl::Status PosixStorage::Lock() {
  UniqueFd file(openat(fd_.get(), kChiefLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", root_, "/", kChiefLockFile));
  if (const int error = KeepLock(file.get()); error != 0) {
    if (error != EWOULDBLOCK)
      return absl::ErrnoToStatus(error, absl::StrCat("cannot lock ", root_, "/", kChiefLockFile));
    char holder[64] = {};
    const ssize_t got = pread(file.get(), holder, sizeof(holder) - 1, 0);
    return absl::AlreadyExistsError(absl::StrCat("the job folder ", root_, " belongs to a running chief (",
                                                 got > 0 ? CleanText(holder, sizeof(holder)) : "unknown",
                                                 "): stop that one, or choose another --job_dir"));
  }
  const std::string holder = absl::StrCat("pid ", getpid());
  if (ftruncate(file.get(), 0) != 0 || pwrite(file.get(), holder.data(), holder.size(), 0) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", root_, "/", kChiefLockFile));
  }
  lock_ = std::move(file);
  return absl::OkStatus();
}

}  // namespace downpour
