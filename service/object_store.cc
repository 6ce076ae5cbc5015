#include "service/object_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostObjectName = 1024, kMostPartBytes = 255;
constexpr size_t kCopiedBlock = size_t{1} << 20;

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

std::string ObjectStore::WithPaths(const std::string& argument) const {
  constexpr absl::string_view kScheme = "gs://";
  const auto begins_uri = [&](size_t at) {
    const bool is_behind = at == 0 || argument[at - 1] == '=' || argument[at - 1] == ',';
    return is_behind && absl::StartsWith(absl::string_view(argument).substr(at), kScheme);
  };
  std::string words;
  for (size_t at = 0; at < argument.size();) {
    if (!begins_uri(at)) {
      words.push_back(argument[at++]);
      continue;
    }
    size_t end = at + kScheme.size();
    while (end < argument.size() && !(argument[end] == ',' && begins_uri(end + 1))) ++end;
    const std::string uri = argument.substr(at, end - at);
    const absl::StatusOr<std::string> path = PathOf(uri);
    words += path.ok() ? *path : uri;
    if (path.ok() && uri.back() == '/') words += '/';  // programs put names behind it
    at = end;
  }
  return words;
}

std::vector<std::string> ObjectStore::Buckets() const {
  std::vector<std::string> buckets;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(root_) / "storage", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    std::error_code ignored;
    const bool is_folder = it->symlink_status(ignored).type() == fs::file_type::directory;
    if (is_folder && CheckBucket(name).ok()) buckets.push_back(name);
  }
  std::ranges::sort(buckets);
  return buckets;
}

absl::Status ObjectStore::MakeBucket(const std::string& bucket) const {
  const absl::StatusOr<std::string> path = PathOf(bucket, "");
  if (!path.ok()) return path.status();
  const std::lock_guard hold(folders_);
  std::error_code error;
  if (fs::create_directories(*path, error)) return absl::OkStatus();
  if (error) return DiskRefuses(*path);
  return absl::AlreadyExistsError(absl::StrCat("there is a bucket ", bucket, " already"));
}

absl::Status ObjectStore::RemoveBucket(const std::string& bucket) const {
  const absl::StatusOr<std::string> path = PathOf(bucket, "");
  if (!path.ok()) return path.status();
  const std::lock_guard hold(folders_);
  std::error_code error;
  if (!fs::is_directory(*path, error)) return absl::NotFoundError(absl::StrCat("there is no bucket ", bucket));
  for (fs::recursive_directory_iterator it(*path, error), end; !error && it != end; it.increment(error)) {
    if (it->symlink_status(error).type() == fs::file_type::directory) continue;
    return absl::FailedPreconditionError(absl::StrCat("the bucket ", bucket, " is not empty"));
  }
  if (!error) fs::remove_all(*path, error);
  return error ? DiskRefuses(*path) : absl::OkStatus();
}

absl::StatusOr<std::string> ObjectStore::Begin(const UploadOrder& order) const {
  const absl::StatusOr<std::string> path = PathOf(order.bucket, order.name);
  if (!path.ok()) return path.status();
  if (order.name.empty()) return BadName(order.name, "is empty: an object needs one");
  if (const absl::Status status = CheckGeneration(order); !status.ok()) return status;
  return uploads_->Begin(order);
}

absl::Status ObjectStore::CheckGeneration(const UploadOrder& order) const {
  if (!order.generation) return absl::OkStatus();
  const absl::StatusOr<StoredObject> there = Find(order.bucket, order.name);
  if (*order.generation == (there.ok() ? there->generation : 0)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("gs://", order.bucket, "/", order.name, " is not of generation ",
                                         *order.generation, " but of ", there.ok() ? there->generation : 0));
}

absl::Status ObjectStore::Keep(const UploadOrder& order, const std::string& data) const {
  const absl::StatusOr<std::string> path = PathOf(order.bucket, order.name);
  if (!path.ok()) return path.status();
  if (!order.crc32c.empty() || !order.md5.empty()) {
    const absl::StatusOr<Checksums> sums = checksums_->Of(data);
    if (!sums.ok()) return sums.status();
    if ((!order.crc32c.empty() && order.crc32c != sums->crc32c) || (!order.md5.empty() && order.md5 != sums->md5)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the bytes have the checksums ", sums->crc32c, " (crc32c) and ", sums->md5, " (md5Hash), not ",
                       order.crc32c.empty() ? order.md5 : order.crc32c, ": upload them again"));
    }
  }
  std::error_code error;
  {
    const std::lock_guard hold(folders_);
    if (const absl::Status status = CheckGeneration(order); !status.ok()) return status;
    fs::create_directories(fs::path(*path).parent_path(), error);
    if (!error) fs::rename(data, *path, error);
  }
  if (error == std::errc::not_a_directory || error == std::errc::is_a_directory) {
    return absl::FailedPreconditionError(
        absl::StrCat("gs://", order.bucket, "/", order.name,
                     " cannot be kept: objects are files here, and of an object and one below its name ",
                     "only one can be there. Delete the other one, or choose another name"));
  }
  if (error == std::errc::no_such_file_or_directory) return absl::NotFoundError("the upload is gone: begin it again");
  return error ? DiskRefuses(*path) : absl::OkStatus();
}

absl::StatusOr<StoredObject> ObjectStore::Finish(const std::string& upload) const {
  const absl::Status kept =
      uploads_->Finish(upload, [&](const UploadOrder& order, const std::string& data) { return Keep(order, data); });
  const std::optional<UploadOrder> order = uploads_->Finished(upload);
  if (!order) return kept;
  return Find(order->bucket, order->name);
}

absl::StatusOr<StoredObject> ObjectStore::Store(const UploadOrder& order, std::string_view content) const {
  const absl::StatusOr<std::string> upload = Begin(order);
  if (!upload.ok()) return upload.status();
  if (const absl::Status status = uploads_->Write(*upload, 0, content); !status.ok()) {
    (void)uploads_->Drop(*upload);  // why it was refused is told, not this
    return status;
  }
  return Finish(*upload);
}

absl::StatusOr<StoredObject> ObjectStore::Copy(const StoredObject& from, const UploadOrder& order) const {
  const absl::StatusOr<std::string> path = PathOf(from.bucket, from.name);
  if (!path.ok()) return path.status();
  const absl::StatusOr<std::string> upload = Begin(order);
  if (!upload.ok()) return upload.status();
  absl::Status status;
  std::ifstream file(*path, std::ios::binary);
  std::string block(kCopiedBlock, '\0');
  for (int64_t done = 0; done < from.bytes && status.ok(); done += file.gcount()) {
    file.read(block.data(), std::min<int64_t>(kCopiedBlock, from.bytes - done));
    status = file.gcount() > 0
                 ? uploads_->Write(*upload, done, std::string_view(block.data(), static_cast<size_t>(file.gcount())))
                 : absl::UnavailableError(absl::StrCat(*path, " became shorter while it was read: try again"));
  }
  if (status.ok()) return Finish(*upload);
  (void)uploads_->Drop(*upload);  // why it was refused is told, not this
  return status;
}

absl::StatusOr<StoredObject> ObjectStore::Find(const std::string& bucket, const std::string& name) const {
  const absl::StatusOr<std::string> path = PathOf(bucket, name);
  if (!path.ok()) return path.status();
  struct stat at {};
  if (stat(path->c_str(), &at) != 0 || !S_ISREG(at.st_mode)) {
    return absl::NotFoundError(absl::StrCat("there is no object gs://", bucket, "/", name));
  }
  return StoredObject{bucket, name, at.st_size, at.st_mtim.tv_sec * 1000 + at.st_mtim.tv_nsec / 1'000'000,
                      at.st_mtim.tv_sec * 1'000'000 + at.st_mtim.tv_nsec / 1000};
}

absl::StatusOr<Checksums> ObjectStore::ChecksumsOf(const StoredObject& object) const {
  const absl::StatusOr<std::string> path = PathOf(object.bucket, object.name);
  return path.ok() ? checksums_->Of(*path) : path.status();
}

absl::StatusOr<Listing> ObjectStore::List(const std::string& bucket, const ListOrder& order) const {
  const absl::StatusOr<std::string> top = PathOf(bucket, "");
  if (!top.ok()) return top.status();
  const size_t slash = order.prefix.rfind('/');
  const std::string folder = order.prefix.substr(0, slash == std::string::npos ? 0 : slash);
  const absl::StatusOr<std::string> from = PathOf(bucket, folder);
  Listing listing;
  if (!from.ok()) return listing;  // no object has such a name
  std::vector<std::string> names;
  std::error_code error;
  constexpr auto kSkip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(*from, kSkip, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().lexically_relative(*top);
    if (absl::StartsWith(name, order.prefix)) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const size_t cut = order.delimiter.empty() ? std::string::npos : name.find(order.delimiter, order.prefix.size());
    const bool is_group = cut != std::string::npos;
    const std::string entry = is_group ? name.substr(0, cut + order.delimiter.size()) : name;
    if (entry <= order.after || (is_group && !listing.prefixes.empty() && listing.prefixes.back() == entry)) continue;
    absl::StatusOr<StoredObject> object = Find(bucket, name);
    if (!object.ok()) continue;  // a folder, or something that no object's name leads to
    if (listing.objects.size() + listing.prefixes.size() == order.most) return listing;
    if (is_group) {
      listing.prefixes.push_back(entry);
    } else {
      listing.objects.push_back(*std::move(object));
    }
    listing.last = entry;
  }
  listing.last.clear();
  return listing;
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
