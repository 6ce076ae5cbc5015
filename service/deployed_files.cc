#include "service/deployed_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cluster/job_folder.h"
#include "predict/open_predictor.h"
#include "predict/served_code.h"
#include "runtime/posix/fd.h"
#include "schema/checkpoint_format.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 5;  // while a job's retention removes what is being pinned
constexpr const char* kExported = ".safetensors";

std::string Shown(const std::string& origin) { return OneLine(origin, 300); }

void CutSlashes(std::string* origin) {
  while (origin->size() > 1 && origin->ends_with('/')) origin->pop_back();
}

// Cuts /live off.
bool CutLive(std::string* origin) {
  CutSlashes(origin);
  absl::string_view rest(*origin);
  if (!absl::ConsumeSuffix(&rest, kLiveSuffix)) return false;
  *origin = std::string(rest);
  CutSlashes(origin);  // runs/first/ becomes runs/first//live
  return true;
}

// Cuts /latest, /best or /checkpoints/TERM-N off. Returns what OpenPredictor takes for it.
std::string CutCheckpoint(std::string* origin) {
  CutSlashes(origin);
  const size_t slash = origin->rfind('/');
  if (slash == std::string::npos) return "";
  std::string last = origin->substr(slash + 1);
  absl::string_view rest(origin->data(), slash);
  if (last != "latest" && last != "best") {
    if (!ParseRound(last).ok() || !absl::ConsumeSuffix(&rest, "/checkpoints")) return "";
  }
  *origin = std::string(rest);
  return last == "latest" ? "" : last;
}

// Of a folder that holds just one exported file, and no job: that file.
std::string OnlyExportedFile(const fs::path& folder) {
  std::string only;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != kExported || !entry.is_regular_file(error)) continue;
    if (!only.empty()) return "";
    only = entry.path();
  }
  return only;
}

bool HasCheckpoints(const std::string& path) {
  std::error_code error;
  return fs::exists(path + "/" + kCheckpointsDir, error) || fs::exists(path + "/" + kManifestName, error);
}

// Whether a chief has said there where it listens. A job's program may have put a pipe there, which nobody could read.
bool HasChief(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(fs::symlink_status(ChiefPath(path), error));
}

// Nothing that is reached through a link: a job's program may have put one into its folder of the store.
bool LeadsThroughLinks(const std::string& path, const std::string& root) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error), own = fs::canonical(root, error);
  return error || std::mismatch(own.begin(), own.end(), real.begin(), real.end()).first != own.end();
}

absl::Status SyncAndClose(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.ok() && fsync(file.get()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", path));
}

// A hard link where `links` and the disk allow it, else a copy.
absl::Status PinFile(const fs::path& from, const fs::path& to, bool links) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(from, error))) {
    return absl::NotFoundError(absl::StrCat(from.string(), " is no file, or is gone"));
  }
  if (links && link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  fs::copy_file(from, to, error);
  if (!error) return SyncAndClose(to);
  if (!fs::exists(from)) return absl::NotFoundError(absl::StrCat(from.string(), " is gone"));
  return absl::UnavailableError(absl::StrCat("cannot copy ", from.string(), ": ", error.message()));
}

// All files of a checkpoint's folder.
absl::Status PinFolder(const fs::path& from, const fs::path& to, bool links) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", to.string(), ": ", error.message()));
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    const absl::Status pinned = PinFile(entry.path(), to / entry.path().filename(), links);
    if (!pinned.ok()) return pinned;
  }
  return error ? absl::NotFoundError(absl::StrCat(from.string(), " is gone")) : SyncAndClose(to);
}

// The user's code of a job's folder, if it has some.
absl::Status CopyCode(const fs::path& job_dir, const fs::path& to) {
  std::error_code error;
  fs::remove_all(to / "python", error);
  for (const char* name : kServedCodeFiles) {
    if (!fs::exists(job_dir / name, error)) continue;
    fs::create_directories((to / name).parent_path(), error);
    const absl::Status pinned = PinFile(job_dir / name, to / name, /*links=*/false);
    if (!pinned.ok()) return pinned;
  }
  return fs::exists(to / "python", error) ? SyncAndClose(to / "python") : absl::OkStatus();
}

// A start of the job replaces it, perhaps between two of its files.
absl::Status PinCode(const fs::path& job_dir, const fs::path& to) {
  absl::Status copied = CopyCode(job_dir, to);
  for (int i = 1; i < kMostStages && copied.ok() && !HasCodeOfItsJob(to); ++i) copied = CopyCode(job_dir, to);
  return copied;
}

}  // namespace

bool IsLiveOrigin(const std::string& origin) {
  std::string rest = origin;
  return CutLive(&rest);
}

bool IsAnyPath(const std::string& origin, const std::string& root) {
  const std::string normal = fs::path(origin).lexically_normal();
  return origin.starts_with('/') && !normal.starts_with(fs::path(root + "/").lexically_normal().string());
}

absl::StatusOr<FoundOrigin> FindOrigin(const std::string& said, const OriginLookup& look_up) {
  std::string origin = said;
  const bool is_live = CutLive(&origin);
  FoundOrigin found{.path = "", .checkpoint = is_live ? "" : CutCheckpoint(&origin), .is_live = is_live};
  const auto is_job = is_live ? HasChief : HasCheckpoints;
  bool is_own = true;  // lies below the root, where programs of jobs write
  if (origin.starts_with("gs://")) {
    const absl::StatusOr<std::string> path = look_up.path_of(origin);
    if (!path.ok()) return path.status();
    found.path = *path;
    // A Python job's --job-dir is where its program writes. Its checkpoints are in the job's own folder.
    const std::string job = is_job(*path) ? "" : look_up.job_with(origin);
    if (!job.empty()) found.path = job;
  } else if (origin.starts_with('/')) {
    is_own = !IsAnyPath(origin, look_up.root);
    found.path = fs::path(origin).lexically_normal();
  } else {
    found.path = look_up.job_named(origin);
    if (found.path.empty()) {
      return absl::NotFoundError(absl::StrCat("the origin ", Shown(said), " is no job of this service: name a job, ",
                                              "gs://BUCKET/NAME, or a path that begins with /"));
    }
  }
  std::error_code error;
  if (!fs::exists(found.path, error)) {
    return absl::NotFoundError(absl::StrCat("there is nothing at the origin ", Shown(said),
                                            ": it must be the --job-dir ",
                                            "of a job, a checkpoint or an exported file"));
  }
  if (is_own && LeadsThroughLinks(found.path, look_up.root)) {
    return absl::InvalidArgumentError(absl::StrCat("the origin ", Shown(said), " leads through a link"));
  }
  if (is_live && !HasChief(found.path)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the origin ", Shown(said), " has no chief: a live version is of a job that runs, and whose ",
                     "chief this machine reaches. Deploy it once it runs, or without --live"));
  }
  if (is_live || !fs::is_directory(found.path, error) || HasCheckpoints(found.path)) return found;
  if (const std::string file = OnlyExportedFile(found.path); !file.empty()) return FoundOrigin{.path = file};
  return absl::InvalidArgumentError(absl::StrCat("the origin ", Shown(said),
                                                 " holds no checkpoint, nor one exported file (", kExported,
                                                 "): a job has checkpoints once it has written one"));
}

std::string DeployedFiles::PathOf(const std::string& model, const std::string& version,
                                  const std::string& files) const {
  return absl::StrCat(root_, "/models/", model, "/", version, files.empty() ? "" : "/", files);
}

absl::StatusOr<PinnedFiles> DeployedFiles::Pin(const FoundOrigin& origin, const std::string& model,
                                               const std::string& version) const {
  const std::string folder = PathOf(model, version), half = folder + ".new";
  const bool links = origin.path.starts_with(root_ + "/jobs/");
  std::error_code error;
  absl::Status status = absl::NotFoundError("");
  PinnedFiles pinned;
  for (int i = 0; i < kMostTries && absl::IsNotFound(status); ++i) {
    // Which checkpoint it is, and that it is whole. Its files may be removed before they are pinned: then the next one.
    const absl::StatusOr<std::shared_ptr<const Predictor>> predictor =
        OpenPredictor(origin.path, {.checkpoint = origin.checkpoint});
    if (!predictor.ok()) return predictor.status();
    pinned.found = (*predictor)->origin();
    const fs::path from = fs::path(pinned.found).lexically_normal();
    fs::remove_all(half, error);
    fs::create_directories(half, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot make ", half, ": ", error.message()));
    const bool is_folder = fs::is_directory(from, error);
    pinned.files = is_folder ? absl::StrCat(kCheckpointsDir, "/", from.filename().string()) : from.filename().string();
    status =
        is_folder ? PinFolder(from, half + "/" + pinned.files, links) : PinFile(from, half + "/" + pinned.files, links);
  }
  if (status.ok() && fs::exists(half + "/" + kCheckpointsDir, error)) {
    status = PinCode(fs::path(pinned.found).lexically_normal().parent_path().parent_path(), half);
  }
  if (status.ok()) status = SyncAndClose(half);
  if (status.ok()) {
    fs::remove_all(folder, error);
    fs::rename(half, folder, error);
    if (error) status = absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  }
  if (status.ok()) status = SyncAndClose(fs::path(folder).parent_path());
  if (!status.ok()) return status;
  return pinned;
}

void DeployedFiles::Remove(const std::string& model, const std::string& version) const {
  std::error_code ignored;
  fs::remove_all(PathOf(model, version), ignored);
  fs::remove_all(PathOf(model, version) + ".new", ignored);
  fs::remove(root_ + "/models/" + model, ignored);  // where it is empty
}

void DeployedFiles::RemoveModel(const std::string& model) const {
  std::error_code ignored;
  fs::remove_all(root_ + "/models/" + model, ignored);
}

void DeployedFiles::RemoveOthers(const std::vector<std::pair<std::string, std::string>>& versions) const {
  const std::set<std::pair<std::string, std::string>> known(versions.begin(), versions.end());
  std::error_code error;
  std::vector<fs::path> gone;
  for (const fs::directory_entry& model : fs::directory_iterator(root_ + "/models", error)) {
    for (const fs::directory_entry& version : fs::directory_iterator(model.path(), error)) {
      const bool is_folder = version.is_directory(error);
      if (is_folder && !known.contains({model.path().filename(), version.path().filename()}))
        gone.push_back(version.path());
    }
  }
  for (const fs::path& path : gone) fs::remove_all(path, error);
}

}  // namespace downpour
