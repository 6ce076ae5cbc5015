#include "service/object_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/driver/posix_process.h"
#include "runtime/driver/posix_whole_file.h"
#include "schema/text.h"
#include "tools/cluster/job_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostObjectName = 1024, kMostPartBytes = 255;

absl::Status BadName(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the name ", OneLine(name, 200), " ", what));
}

absl::Status DiskRefuses(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("the service cannot write ", path, ": is its disk full?"));
}

}  // namespace

absl::Status ObjectStore::CheckBucket(const std::string& bucket) const {
  const bool is_good = bucket.size() >= 3 && bucket.size() <= 63 &&
                       absl::ascii_isalnum(static_cast<unsigned char>(bucket[0])) &&
                       std::all_of(bucket.begin(), bucket.end(), [](unsigned char c) {
                         return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '_' || c == '.';
                       });
  return is_good ? absl::OkStatus() : BadName(bucket, "is no bucket's: 3 to 63 of a-z, 0-9, -, _ and .");
}

absl::StatusOr<std::string> ObjectStore::PathOf(const std::string& uri) const {
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, "gs://")) return BadName(uri, "is not in the service's store: gs://BUCKET/NAME");
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(absl::StripSuffix(rest, "/"), absl::MaxSplits('/', 1));
  return PathOf(parts.first, parts.second);
}

absl::StatusOr<std::string> ObjectStore::PathOf(const std::string& bucket, const std::string& name) const {
  if (const absl::Status status = CheckBucket(bucket); !status.ok()) return status;
  if (name.size() > kMostObjectName || name != OneLine(name, name.size()))
    return BadName(name, "is no object's: at most 1,024 bytes of text");
  fs::path path = fs::path(root_) / "storage" / bucket;
  for (const absl::string_view part : absl::StrSplit(name, '/', absl::AllowEmpty())) {
    if (name.empty()) break;
    if (part.empty() || part == "." || part == ".." || part.size() > kMostPartBytes) {
      return BadName(name, "has a part that no folder can have");
    }
    path /= std::string(part);
    // What a job leaves in its folder may be a link, which could lead anywhere.
    std::error_code ignored;
    if (fs::is_symlink(path, ignored)) return BadName(name, "leads through a link");
  }
  return path.string();
}

absl::StatusOr<std::string> ObjectStore::Begin(const std::string& bucket, const std::string& name) const {
  const absl::StatusOr<std::string> path = PathOf(bucket, name);
  if (!path.ok()) return path.status();
  if (name.empty()) return BadName(name, "is empty: an object needs one");
  const std::string id = absl::StrFormat("%016x%016x", RandomNonce(), RandomNonce());
  const fs::path folder = fs::path(root_) / "uploads" / id;
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream(folder / "data");
  const absl::Status written = WriteWhole(folder / "name", absl::StrCat(bucket, "/", name), 0600, WhereThere::kReplace);
  return written.ok() && !error ? absl::StatusOr<std::string>(id) : DiskRefuses(folder);
}

absl::StatusOr<int64_t> ObjectStore::Size(const std::string& upload) const {
  std::error_code error;
  const auto size = IsPlainName(upload) ? fs::file_size(fs::path(root_) / "uploads" / upload / "data", error) : 0;
  if (error || !IsPlainName(upload)) return absl::NotFoundError("there is no such upload: begin it again");
  return static_cast<int64_t>(size);
}

absl::Status ObjectStore::Append(const std::string& upload, std::string_view bytes) const {
  const absl::StatusOr<int64_t> size = Size(upload);
  if (!size.ok()) return size.status();
  if (*size + static_cast<int64_t>(bytes.size()) > kMostObjectBytes) {
    return absl::OutOfRangeError(absl::StrCat("an object has at most ", kMostObjectBytes, " bytes"));
  }
  const fs::path path = fs::path(root_) / "uploads" / upload / "data";
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.fail() ? DiskRefuses(path) : absl::OkStatus();
}

absl::StatusOr<StoredObject> ObjectStore::Finish(const std::string& upload) const {
  if (const absl::StatusOr<int64_t> size = Size(upload); !size.ok()) return size.status();
  const fs::path folder = fs::path(root_) / "uploads" / upload;
  const absl::StatusOr<std::string> said = ReadTextFile(folder / "name");
  if (!said.ok()) return said.status();
  const std::pair<std::string, std::string> name = absl::StrSplit(*said, absl::MaxSplits('/', 1));
  const absl::StatusOr<std::string> path = PathOf(name.first, name.second);
  if (!path.ok()) return path.status();
  std::error_code error;
  {
    const std::lock_guard hold(folders_);
    fs::create_directories(fs::path(*path).parent_path(), error);
    fs::rename(folder / "data", *path, error);
  }
  const bool is_taken = error == std::errc::not_a_directory || error == std::errc::is_a_directory;
  if (error && !is_taken) return DiskRefuses(*path);
  fs::remove_all(folder, error);
  if (is_taken) {
    return absl::FailedPreconditionError(
        absl::StrCat("gs://", OneLine(*said, kMostObjectName),
                     " cannot be kept: objects are files here, and of an object and one below its name ",
                     "only one can be there. Delete the other one, or choose another name"));
  }
  return Find(name.first, name.second);
}

absl::StatusOr<StoredObject> ObjectStore::Find(const std::string& bucket, const std::string& name) const {
  const absl::StatusOr<std::string> path = PathOf(bucket, name);
  if (!path.ok()) return path.status();
  struct stat at {};
  if (stat(path->c_str(), &at) != 0 || !S_ISREG(at.st_mode)) {
    return absl::NotFoundError(absl::StrCat("there is no object gs://", bucket, "/", name));
  }
  return StoredObject{bucket, name, at.st_size, at.st_mtim.tv_sec * 1000 + at.st_mtim.tv_nsec / 1'000'000};
}

absl::StatusOr<std::vector<StoredObject>> ObjectStore::List(const std::string& bucket, const std::string& prefix,
                                                            size_t most) const {
  const absl::StatusOr<std::string> folder = PathOf(bucket, "");
  if (!folder.ok()) return folder.status();
  std::vector<StoredObject> objects;
  std::error_code error;
  for (fs::recursive_directory_iterator it(*folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().lexically_relative(*folder);
    if (!absl::StartsWith(name, prefix)) continue;
    if (absl::StatusOr<StoredObject> object = Find(bucket, name); object.ok()) objects.push_back(*std::move(object));
  }
  std::sort(objects.begin(), objects.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (objects.size() > most) objects.resize(most);
  return objects;
}

absl::Status ObjectStore::Remove(const std::string& uri) const {
  const absl::StatusOr<std::string> path = PathOf(uri);
  if (!path.ok()) return path.status();
  std::error_code error;
  if (!fs::is_regular_file(*path, error)) return absl::OkStatus();
  const std::lock_guard hold(folders_);
  fs::remove(*path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot remove ", *path, ": ", error.message()));
  const fs::path storage = fs::path(root_) / "storage";
  for (fs::path folder = fs::path(*path).parent_path(); folder.parent_path() != storage;
       folder = folder.parent_path()) {
    if (!fs::remove(folder, error)) break;  // it holds something else
  }
  return absl::OkStatus();
}

}  // namespace downpour
