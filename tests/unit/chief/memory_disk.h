// A job folder in memory, that fails when told to.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/role.h"

namespace downpour {

class MemoryDisk {
 public:
  // Consulted before each operation; what it returns instead of OK is the operation's fate.
  std::function<absl::Status(const StorageOp&)> fate;

  StorageDone Carry(const StorageOp& op) {
    StorageDone done;
    done.ticket = op.ticket;
    done.status = fate ? fate(op) : absl::OkStatus();
    if (done.status.ok()) Perform(op, &done);
    return done;
  }

  bool Has(const std::string& path) const { return files_.contains(path); }
  std::string& At(const std::string& path) { return files_.at(path); }
  const std::string& Read(const std::string& path) const { return files_.at(path); }
  void Put(const std::string& path, std::string text) { files_[path] = std::move(text); }
  bool IsPrivate(const std::string& path) const { return private_.contains(path); }
  std::vector<std::string> Paths() const {
    std::vector<std::string> paths;
    for (const auto& [path, data] : files_) paths.push_back(path);
    return paths;
  }

 private:
  static bool IsIn(const std::string& path, const std::string& folder) {
    return path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 && path[folder.size()] == '/';
  }

  void Perform(const StorageOp& op, StorageDone* done) {
    const auto file = files_.find(op.path);
    const bool here = file != files_.end();
    const absl::Status missing = absl::NotFoundError(absl::StrCat(op.path, ": no such file"));
    switch (op.kind) {
      case StorageOp::Kind::kMakeDir:
        folders_.insert(op.path);
        return;
      case StorageOp::Kind::kWrite:
        if (here) done->status = absl::AlreadyExistsError(absl::StrCat(op.path, ": exists"));
        if (here) return;
        if (op.is_private) private_.insert(op.path);
        [[fallthrough]];
      case StorageOp::Kind::kAppend:
        for (const Payload& part : op.data) {
          files_[op.path].append(reinterpret_cast<const char*>(part.data()), part.size());
        }
        return;
      case StorageOp::Kind::kSync:
        if (!here) done->status = missing;
        return;
      case StorageOp::Kind::kSyncDir:
        return;
      case StorageOp::Kind::kRename:
        if (!here) done->status = missing;
        if (here) files_[op.target] = file->second;
        private_.erase(op.target);
        if (private_.erase(op.path) > 0) private_.insert(op.target);
        files_.erase(op.path);
        return;
      case StorageOp::Kind::kRemove:
        std::erase_if(files_, [&](const auto& f) { return f.first == op.path || IsIn(f.first, op.path); });
        folders_.erase(op.path);
        return;
      case StorageOp::Kind::kRead:
        if (!here) done->status = missing;
        if (here && op.offset < file->second.size()) {
          const std::string data = file->second.substr(op.offset, op.bytes);
          done->data = Payload::CopyOf(data.data(), data.size());
        }
        return;
      case StorageOp::Kind::kList: {
        std::set<std::string> names;
        for (const auto& [path, data] : files_) {
          if (!IsIn(path, op.path)) continue;
          const std::string rest = path.substr(op.path.size() + 1);
          names.insert(rest.substr(0, rest.find('/') == std::string::npos ? rest.size() : rest.find('/') + 1));
        }
        done->names.assign(names.begin(), names.end());
        return;
      }
    }
  }

  std::map<std::string, std::string> files_;
  std::set<std::string> folders_;
  std::set<std::string> private_;  // files that only their owner may read
};

}  // namespace downpour
