#include "tools/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"

namespace downpour {

namespace fs = std::filesystem;

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return text.str();
}

absl::StatusOr<ChiefLocation> ReadChiefLocation(const std::string& job_dir) {
  const std::string path = job_dir + "/chief.json";
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok())
    return absl::NotFoundError(absl::StrCat("no chief has listened for ", job_dir, ": there is no ", path));
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto words = [&](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  ChiefLocation location{words("endpoint"), words("host"), 0};
  if (location.endpoint.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " names no endpoint"));
  if (json.contains("pid") && json["pid"].is_number_integer()) location.pid = json["pid"].get<pid_t>();
  return location;
}

std::string NewestCheckpoint(const std::string& job_dir) {
  std::error_code ignored;
  Round newest;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(job_dir) / "checkpoints", ignored)) {
    const absl::StatusOr<Round> round = ParseRound(entry.path().filename().string());
    if (round.ok() && fs::exists(entry.path() / "MANIFEST", ignored)) newest = std::max(newest, *round);
  }
  return newest == Round{} ? "" : "checkpoints/" + ToString(newest);
}

absl::StatusOr<UniqueFd> ClaimJobFolder(const std::string& job_dir) {
  std::error_code error;
  fs::create_directories(fs::path(job_dir) / "logs", error);
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat("cannot make the job folder ", job_dir, ": ", error.message()));
  }
  const std::string path = job_dir + "/run.lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write in the job folder: ", path));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("another downpour run is at work in ", job_dir,
                                                 ": look at it with downpour status --job-dir ", job_dir,
                                                 ", or choose another --job-dir"));
  }
  return lock;
}

std::string LogPath(const std::string& job_dir, const std::string& task) {
  return absl::StrCat(job_dir, "/logs/", task, ".log");
}

}  // namespace downpour
