#include "service/uploads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/process.h"
#include "runtime/posix/whole_file.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostFinished = 1024;

absl::Status NoSuchUpload() { return absl::NotFoundError("there is no such upload: begin it again"); }

absl::Status DiskRefuses(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("the service cannot write ", path, ": is its disk full?"));
}

std::string TextOf(const UploadOrder& order) {
  json said = {{"bucket", order.bucket}, {"name", order.name}, {"crc32c", order.crc32c}, {"md5", order.md5}};
  if (order.generation) said["generation"] = *order.generation;
  return said.dump();
}

std::optional<UploadOrder> ReadOrder(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  const json said = text.ok() ? json::parse(*text, nullptr, /*allow_exceptions=*/false) : json();
  UploadOrder order;
  try {
    said.at("bucket").get_to(order.bucket);
    said.at("name").get_to(order.name);
    said.at("crc32c").get_to(order.crc32c);
    said.at("md5").get_to(order.md5);
    if (said.contains("generation")) order.generation = said["generation"].get<int64_t>();
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return order;
}

bool WriteAt(const std::string& path, int64_t offset, std::string_view bytes) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.ok()) return false;
  for (size_t done = 0; done < bytes.size();) {
    const int64_t at = offset + static_cast<int64_t>(done);
    const ssize_t wrote = pwrite(file.get(), bytes.data() + done, bytes.size() - done, at);
    if (wrote <= 0) {
      if (ftruncate(file.get(), offset) != 0) return false;  // half a block is none
      return false;
    }
    done += static_cast<size_t>(wrote);
  }
  return true;
}

}  // namespace

struct Uploads::Upload {
  Upload(const std::string& its_id, const std::string& uploads, const UploadOrder& its_order, int64_t its_time_ms)
      : id(its_id), folder(uploads + "/" + its_id), order(its_order), grown_ms(its_time_ms) {}
  std::string Data() const { return folder + "/data"; }

  const std::string id, folder;
  const UploadOrder order;
  std::atomic<int64_t> grown_ms;  // when it grew last
  std::mutex mutex;               // of what follows
  int64_t bytes = 0;
  int64_t total = -1;  // not known yet
  bool is_over = false;
};

Uploads::~Uploads() = default;

absl::StatusOr<std::string> Uploads::Begin(const UploadOrder& order) {
  Load();
  MakeRoom(1, 0);
  const std::string id = RandomSecret();
  const Held upload = std::make_shared<Upload>(id, folder_, order, UnixMs());
  {
    const std::lock_guard hold(mutex_);
    if (uploads_.size() >= bounds_.uploads) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", uploads_.size(), " uploads at work: end some, or ", "try again later"));
    }
    uploads_[id] = upload;
  }
  std::error_code error;
  fs::create_directories(upload->folder, error);
  const UniqueFd data(open(upload->Data().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const absl::Status written = WriteWhole(upload->folder + "/order", TextOf(order), 0600, WhereThere::kReplace);
  if (data.ok() && written.ok()) return id;
  Forget(id);
  Remove(upload);
  return DiskRefuses(upload->folder);
}

absl::StatusOr<int64_t> Uploads::Size(const std::string& id) {
  const absl::StatusOr<Held> upload = Find(id);
  if (!upload.ok()) return upload.status();
  const std::lock_guard hold((*upload)->mutex);
  return (*upload)->bytes;
}

absl::Status Uploads::Expect(const std::string& id, int64_t total) {
  const absl::StatusOr<Held> upload = Find(id);
  if (!upload.ok()) return upload.status();
  if (total > kMostObjectBytes) {
    return absl::OutOfRangeError(absl::StrCat("an object has at most ", kMostObjectBytes, " bytes"));
  }
  const std::lock_guard hold((*upload)->mutex);
  int64_t& known = (*upload)->total;
  if (total < (*upload)->bytes || (known >= 0 && known != total)) {
    return absl::InvalidArgumentError(absl::StrCat("the upload is to have ", total, " bytes, and had ",
                                                   std::max(known, (*upload)->bytes), " before: begin it again"));
  }
  known = total;
  return absl::OkStatus();
}

absl::Status Uploads::Write(const std::string& id, int64_t offset, std::string_view bytes) {
  const absl::StatusOr<Held> found = Find(id);
  if (!found.ok()) return found.status();
  Upload& upload = **found;
  upload.grown_ms = UnixMs();  // before its lock: nobody who has one may wait for it as an idle one's
  const std::lock_guard hold(upload.mutex);
  if (upload.is_over) return NoSuchUpload();
  if (offset > upload.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", offset, " would leave a gap: the upload has ", upload.bytes, " bytes"));
  }
  const auto known = std::min(static_cast<size_t>(upload.bytes - offset), bytes.size());
  bytes.remove_prefix(known);
  if (bytes.empty()) return absl::OkStatus();
  const auto more = static_cast<int64_t>(bytes.size());
  const int64_t most = upload.total < 0 ? kMostObjectBytes : upload.total;
  if (upload.bytes + more > most) {
    return upload.total < 0
               ? absl::OutOfRangeError(absl::StrCat("an object has at most ", kMostObjectBytes, " bytes"))
               : absl::InvalidArgumentError(absl::StrCat("the upload is to have ", upload.total, " bytes, not more"));
  }
  if (const absl::Status status = Reserve(more); !status.ok()) return status;
  if (!WriteAt(upload.Data(), upload.bytes, bytes)) {
    const std::lock_guard hold_all(mutex_);
    bytes_ -= more;
    return DiskRefuses(upload.Data());
  }
  upload.bytes += more;
  return absl::OkStatus();
}

absl::Status Uploads::Finish(const std::string& id, const Keep& keep) {
  const absl::StatusOr<Held> upload = Find(id);
  if (!upload.ok()) return upload.status();
  absl::Status kept;
  {
    const std::lock_guard hold((*upload)->mutex);
    if ((*upload)->is_over) return NoSuchUpload();
    kept = keep((*upload)->order, (*upload)->Data());
    if (absl::IsUnavailable(kept)) return kept;
    (*upload)->is_over = true;
  }
  if (kept.ok()) {
    const std::lock_guard hold(mutex_);
    finished_.emplace_back(id, (*upload)->order);
    if (finished_.size() > kMostFinished) finished_.pop_front();
  }
  Forget(id);
  Remove(*upload);
  return kept;
}

std::optional<UploadOrder> Uploads::Finished(const std::string& id) const {
  const std::lock_guard hold(mutex_);
  const auto found = std::find_if(finished_.begin(), finished_.end(), [&](const auto& one) { return one.first == id; });
  return found == finished_.end() ? std::nullopt : std::optional(found->second);
}

absl::Status Uploads::Drop(const std::string& id) {
  const absl::StatusOr<Held> upload = Find(id);
  if (!upload.ok()) return upload.status();
  Forget(id);
  Remove(*upload);
  return absl::OkStatus();
}

void Uploads::RemoveOld() {
  Load();
  MakeRoom(0, 0);
}

absl::StatusOr<Uploads::Held> Uploads::Find(const std::string& id) {
  Load();
  const std::lock_guard hold(mutex_);
  const auto found = uploads_.find(id);
  if (found == uploads_.end()) return NoSuchUpload();
  return found->second;
}

void Uploads::Load() {
  const std::lock_guard hold(mutex_);
  if (std::exchange(loaded_, true)) return;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const std::string folder = it->path(), id = it->path().filename();
    const std::optional<UploadOrder> order = ReadOrder(folder + "/order");
    struct stat at {};
    if (!order || stat((folder + "/data").c_str(), &at) != 0) {
      std::error_code ignored;
      fs::remove_all(folder, ignored);  // killed as it began or ended
      continue;
    }
    const Held upload = std::make_shared<Upload>(id, folder_, *order, at.st_mtim.tv_sec * 1000);
    upload->bytes = at.st_size;
    bytes_ += upload->bytes;
    uploads_[id] = upload;
  }
}

void Uploads::MakeRoom(size_t uploads, int64_t bytes) {
  std::vector<Held> go;
  {
    const std::lock_guard hold(mutex_);
    std::vector<Held> oldest;
    for (const auto& [id, upload] : uploads_) oldest.push_back(upload);
    std::ranges::sort(oldest, {}, [](const Held& upload) { return upload->grown_ms.load(); });
    const int64_t now_ms = UnixMs();
    int64_t left = bytes_;
    for (const Held& upload : oldest) {
      const int64_t silent_ms = now_ms - upload->grown_ms;
      const bool is_short = uploads_.size() + uploads > bounds_.uploads || left + bytes > bounds_.bytes;
      if (silent_ms <= bounds_.age_ms && (!is_short || silent_ms <= bounds_.idle_ms)) break;
      std::error_code ignored;
      left -= static_cast<int64_t>(fs::file_size(upload->Data(), ignored));
      uploads_.erase(upload->id);
      go.push_back(upload);
    }
  }
  for (const Held& upload : go) Remove(upload);
}

absl::Status Uploads::Reserve(int64_t bytes) {
  const auto has_room = [&] {
    const std::lock_guard hold(mutex_);
    if (bytes_ + bytes > bounds_.bytes) return false;
    bytes_ += bytes;
    return true;
  };
  if (has_room()) return absl::OkStatus();
  MakeRoom(0, bytes);
  if (has_room()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("uploads that are not finished have ", bounds_.bytes,
                                                   " bytes together, and may not have more: try again later"));
}

void Uploads::Forget(const std::string& id) {
  const std::lock_guard hold(mutex_);
  uploads_.erase(id);
}

void Uploads::Remove(const Held& upload) {
  const std::lock_guard hold(upload->mutex);
  upload->is_over = true;
  std::error_code ignored;
  fs::remove_all(upload->folder, ignored);
  const std::lock_guard hold_all(mutex_);
  bytes_ -= std::exchange(upload->bytes, 0);
}

}  // namespace downpour
