#include "tests/sim/disk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool Within(const std::string& path, const std::string& folder) {
  return folder.empty() ||
         (path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 && path[folder.size()] == '/');
}

bool Leaves(const std::string& path) {
  return (!path.empty() && (path[0] == '/' || path.back() == '/')) || path.find("..") != std::string::npos ||
         path.find("//") != std::string::npos;
}

absl::Status Missing(const std::string& path) { return absl::NotFoundError(absl::StrCat(path, ": no such file")); }

}  // namespace

bool Disk::Deal(double chance, const char* kind) {
  if (!may_fail_ || !prng_.Chance(chance)) return false;
  ++faults_dealt_[kind];
  return true;
}

void Disk::Put(const std::string& path, const State& state, Tree& tree) {
  if (state.has_value()) {
    tree[path] = *state;
  } else {
    tree.erase(path);
  }
}

void Disk::Set(const std::string& path, State state) {
  Put(path, state, seen_);
  unsynced_[path].push_back(std::move(state));
}

StorageDone Disk::Carry(const StorageOp& op, bool may_fail) {
  may_fail_ = may_fail;
  StorageDone done{op.ticket, absl::OkStatus(), {}, {}};
  if (Leaves(op.path) || Leaves(op.target)) {
    done.status = absl::InvalidArgumentError(absl::StrCat(op.path, " leaves the job folder"));
    return done;
  }
  switch (op.kind) {
    case StorageOp::Kind::kMakeDir:
      done.status = MakeDir(op.path);
      break;
    case StorageOp::Kind::kWrite:
      if (seen_.contains(op.path)) {
        done.status = absl::AlreadyExistsError(absl::StrCat(op.path, ": exists"));
      } else {
        done.status = Append(op);
      }
      break;
    case StorageOp::Kind::kAppend:
      done.status = Append(op);
      break;
    case StorageOp::Kind::kSync:
      done.status = Sync(op.path);
      break;
    case StorageOp::Kind::kSyncDir:
      done.status = SyncDir(op.path);
      break;
    case StorageOp::Kind::kRename:
      done.status = Rename(op.path, op.target);
      break;
    case StorageOp::Kind::kRemove:
      Remove(op.path);
      break;
    case StorageOp::Kind::kRead: {
      absl::StatusOr<Payload> data = Read(op);
      done.status = data.status();
      if (data.ok()) done.data = *std::move(data);
      break;
    }
    case StorageOp::Kind::kList: {
      absl::StatusOr<std::vector<std::string>> names = List(op.path);
      done.status = names.status();
      if (names.ok()) done.names = *std::move(names);
      break;
    }
  }
  return done;
}

absl::Status Disk::MakeDir(const std::string& path) {
  for (size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    const auto found = seen_.find(part);
    if (found == seen_.end()) {
      Set(part, Entry{});
    } else if (found->second.file != nullptr) {
      return absl::AlreadyExistsError(absl::StrCat(part, ": is a file"));
    }
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

absl::Status Disk::Append(const StorageOp& op) {
  const std::string folder = FolderOf(op.path);
  if (!folder.empty() && !seen_.contains(folder)) return Missing(folder);
  const auto found = seen_.find(op.path);
  std::shared_ptr<File> file = found == seen_.end() ? std::make_shared<File>() : found->second.file;
  if (file == nullptr) return absl::FailedPreconditionError(absl::StrCat(op.path, ": is a folder"));
  if (found == seen_.end()) Set(op.path, Entry{file});
  std::string bytes;
  for (const Payload& part : op.data) bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  if (Deal(faults_.no_space, "no space")) {
    file->data.append(bytes, 0, prng_.Below(bytes.size() + 1));
    return absl::ResourceExhaustedError(absl::StrCat(op.path, ": no space left on device"));
  }
  file->data += bytes;
  return absl::OkStatus();
}

absl::Status Disk::Sync(const std::string& path) {
  const auto found = seen_.find(path);
  if (found == seen_.end() || found->second.file == nullptr) return Missing(path);
  File& file = *found->second.file;
  if (Deal(faults_.io_error, "sync error")) {
    file.data.resize(file.synced);
    return absl::UnknownError(absl::StrCat(path, ": input/output error"));
  }
  file.synced = file.data.size();
  return absl::OkStatus();
}

absl::Status Disk::SyncDir(const std::string& path) {
  if (!path.empty() && !seen_.contains(path)) return Missing(path);
  if (Deal(faults_.io_error, "sync error")) return absl::UnknownError(absl::StrCat(path, ": input/output error"));
  std::erase_if(unsynced_, [&](const auto& changed) {
    if (FolderOf(changed.first) != path) return false;
    Put(changed.first, changed.second.back(), durable_);
    return true;
  });
  return absl::OkStatus();
}

absl::Status Disk::Rename(const std::string& path, const std::string& target) {
  const auto found = seen_.find(path);
  if (found == seen_.end() || found->second.file == nullptr) return Missing(path);
  if (Deal(faults_.io_error, "rename error")) return absl::UnknownError(absl::StrCat(path, ": input/output error"));
  Set(target, Entry(found->second));
  Set(path, std::nullopt);
  return absl::OkStatus();
}

void Disk::Remove(const std::string& path) {
  std::vector<std::string> doomed;
  for (const auto& [name, entry] : seen_) {
    if (name == path || Within(name, path)) doomed.push_back(name);
  }
  // Children before their folder, siblings in any order, as a recursive removal meets them.
  for (size_t i = doomed.size(); i > 1; --i) std::swap(doomed[i - 1], doomed[prng_.Below(i)]);
  std::stable_sort(doomed.begin(), doomed.end(), [](const std::string& a, const std::string& b) {
    return std::count(a.begin(), a.end(), '/') > std::count(b.begin(), b.end(), '/');
  });
  for (const std::string& name : doomed) Set(name, std::nullopt);
}

absl::StatusOr<Payload> Disk::Read(const StorageOp& op) {
  const auto found = seen_.find(op.path);
  if (found == seen_.end() || found->second.file == nullptr) return Missing(op.path);
  if (Deal(faults_.io_error, "read error")) return absl::UnknownError(absl::StrCat(op.path, ": input/output error"));
  const std::string& data = found->second.file->data;
  const size_t begin = std::min<size_t>(op.offset, data.size());
  return Payload::CopyOf(data.data() + begin, std::min<size_t>(op.bytes, data.size() - begin));
}

absl::StatusOr<std::vector<std::string>> Disk::List(const std::string& path) const {
  if (!path.empty() && !seen_.contains(path)) return Missing(path);
  std::vector<std::string> names;
  for (const auto& [name, entry] : seen_) {
    if (FolderOf(name) != path || name == path) continue;
    names.push_back(name.substr(path.empty() ? 0 : path.size() + 1) + (entry.file == nullptr ? "/" : ""));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Disk::Backup Disk::MakeBackup() const {
  Backup backup;
  for (const auto& [path, entry] : seen_) {
    backup[path] = entry.file == nullptr ? std::nullopt : std::optional(entry.file->data);
  }
  return backup;
}

void Disk::PutBack(const Backup& backup) {
  seen_.clear();
  unsynced_.clear();
  for (const auto& [path, data] : backup) {
    if (data) seen_[path].file = std::make_shared<File>(File{*data, data->size()});
    seen_.try_emplace(path);
  }
  durable_ = seen_;
}

void Disk::PowerFailure() {
  ++faults_dealt_["power failure"];
  for (const auto& [path, states] : unsynced_) {
    const size_t kept = prng_.Below(states.size() + 1);
    if (kept > 0) Put(path, states[kept - 1], durable_);
  }
  unsynced_.clear();
  std::erase_if(durable_, [this](const auto& item) {
    const std::string folder = FolderOf(item.first);  // parents come first in the order of paths
    return !folder.empty() && !durable_.contains(folder);
  });
  for (auto& [path, entry] : durable_) {
    if (entry.file == nullptr) continue;
    File& file = *entry.file;
    const size_t kept = file.synced + prng_.Below(file.data.size() - file.synced + 1);
    file.data.resize(kept);
    if (prng_.Chance(0.3)) {
      const size_t begin = file.synced + prng_.Below(kept - file.synced + 1);
      std::fill_n(file.data.begin() + static_cast<ptrdiff_t>(begin), prng_.Below(kept - begin + 1), '\0');
    }
    file.synced = kept;
  }
  seen_ = durable_;
}

void Disk::Damage(const std::string& path) {
  const auto found = seen_.find(path);
  if (found == seen_.end() || found->second.file == nullptr || found->second.file->data.empty()) return;
  ++faults_dealt_["damage"];
  std::string& data = found->second.file->data;
  const size_t at = prng_.Below(data.size());
  switch (prng_.Below(3)) {
    case 0:
      data[at] = static_cast<char>(data[at] ^ (1 << prng_.Below(8)));
      break;
    case 1:
      data.resize(at);
      found->second.file->synced = at;
      break;
    default:
      seen_.erase(path);
      durable_.erase(path);
      unsynced_.erase(path);
  }
}

absl::StatusOr<std::string> Disk::ReadDurable(const std::string& path) const {
  const auto found = durable_.find(path);
  if (found == durable_.end() || found->second.file == nullptr) return Missing(path);
  for (std::string folder = FolderOf(path); !folder.empty(); folder = FolderOf(folder)) {
    if (!durable_.contains(folder)) return Missing(folder);
  }
  const File& file = *found->second.file;
  if (file.synced != file.data.size()) return absl::NotFoundError(absl::StrCat(path, ": contents are not synced"));
  return file.data;
}

bool Disk::MaySurvive(const std::string& path) const {
  if (durable_.contains(path)) return true;
  const auto changed = unsynced_.find(path);
  return changed != unsynced_.end() && std::any_of(changed->second.begin(), changed->second.end(),
                                                   [](const State& state) { return state.has_value(); });
}

absl::StatusOr<std::string> Disk::ReadSeen(const std::string& path) const {
  const auto found = seen_.find(path);
  if (found == seen_.end() || found->second.file == nullptr) return Missing(path);
  return found->second.file->data;
}

std::vector<std::string> Disk::Files(const std::string& prefix) const {
  std::vector<std::string> files;
  for (const auto& [path, entry] : seen_) {
    if (entry.file != nullptr && path.compare(0, prefix.size(), prefix) == 0) files.push_back(path);
  }
  return files;
}

}  // namespace downpour
