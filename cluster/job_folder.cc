#include "cluster/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/exit_code.h"
#include "runtime/log_line.h"
#include "runtime/posix/lock.h"
#include "runtime/posix/process.h"
#include "runtime/posix/storage.h"
#include "runtime/posix/whole_file.h"
#include "schema/text.h"

namespace downpour {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostSaid = 400;  // bytes of what a run is at

std::string SummaryPath(const std::string& job_dir) { return job_dir + "/summary.json"; }
std::string RunLockPath(const std::string& job_dir) { return job_dir + "/run.lock"; }

bool IsHeld(const std::string& lock_file) {
  const UniqueFd file(open(lock_file.c_str(), O_RDONLY | O_CLOEXEC));
  return file.ok() && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

std::string ChiefPath(const std::string& job_dir) { return job_dir + "/chief.json"; }

std::string PythonFolder(const std::string& job_dir) { return job_dir + "/python"; }
std::string OwnValuesPath(const std::string& job_dir) { return PythonFolder(job_dir) + "/initial.safetensors"; }

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return text.str();
}

absl::StatusOr<ChiefLocation> ReadChiefLocation(const std::string& job_dir) {
  const std::string path = ChiefPath(job_dir);
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok() && !UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)).ok() && errno == EACCES) {
    return absl::UnauthenticatedError(absl::StrCat(
        "may not read ", path, ", which says where the chief listens and, for a job without keys, its secret: ask as ",
        "the user whose job it is, or give the job keys (downpour keys new)"));
  }
  if (!text.ok())
    return absl::NotFoundError(absl::StrCat("no chief has listened for ", job_dir, ": there is no ", path));
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* key, auto is) { return json.contains(key) && (json[key].*is)(); };
  if (!json.is_object() || !has("endpoint", &nlohmann::json::is_string)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " names no endpoint"));
  }
  ChiefLocation location{.endpoint = json["endpoint"].get<std::string>()};
  if (has("host", &nlohmann::json::is_string)) location.host = json["host"].get<std::string>();
  if (has("command", &nlohmann::json::is_string)) location.command = json["command"].get<std::string>();
  if (has("secret", &nlohmann::json::is_string)) location.secret = json["secret"].get<std::string>();
  if (has("pid", &nlohmann::json::is_number_integer)) location.pid = json["pid"].get<pid_t>();
  if (has("term", &nlohmann::json::is_number_unsigned)) location.term = json["term"].get<uint64_t>();
  return location;
}

ChiefAnnouncement::ChiefAnnouncement(std::string job_dir)
    : job_dir_(std::move(job_dir)), before_(ReadTextFile(ChiefPath(job_dir_)).value_or("")) {}

std::optional<ChiefLocation> ChiefAnnouncement::Look() const {
  const std::optional<ChiefLocation> location = Last();
  return location && location->pid == pids_.back() ? location : std::nullopt;
}

std::optional<ChiefLocation> ChiefAnnouncement::Last() const {
  if (ReadTextFile(ChiefPath(job_dir_)).value_or("") == before_) return std::nullopt;  // its term would be another
  const absl::StatusOr<ChiefLocation> location = ReadChiefLocation(job_dir_);
  const bool ours = location.ok() && std::find(pids_.begin(), pids_.end(), location->pid) != pids_.end();
  return ours ? std::optional(*location) : std::nullopt;
}

absl::StatusOr<FoundSummary> ReadSummaryOf(const std::string& job_dir, uint64_t term) {
  const std::string path = SummaryPath(job_dir);
  absl::StatusOr<std::string> json = ReadTextFile(path);
  if (!json.ok()) return json.status();
  absl::StatusOr<SummaryReport> summary = ParseSummary(*json);
  if (!summary.ok())
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(summary.status().message())));
  if (summary->term != term) {
    return absl::NotFoundError(absl::StrCat(path, " is not of the chief of term ", term));
  }
  return FoundSummary{*std::move(json), *std::move(summary)};
}

absl::Status RecordFailure(const std::string& job_dir, uint64_t term, const std::string& cause) {
  const absl::StatusOr<FoundSummary> found = ReadSummaryOf(job_dir, term);
  if (found.ok() && found->summary.state != "CANCELLED") return absl::OkStatus();
  nlohmann::json json = found.ok() ? nlohmann::json::parse(found->json)
                                   : nlohmann::json{{"term", term}, {"checkpoint", NewestCheckpoint(job_dir)}};
  json["state"] = "FAILED";
  json["errorMessage"] = cause;
  json["exitCode"] = static_cast<int>(kExitFailed);
  return WriteWhole(SummaryPath(job_dir), json.dump(1) + "\n", 0644, WhereThere::kReplace);
}

absl::Status CheckJobFolder(const std::string& job_dir) {
  const std::string checkpoints = absl::StrCat(job_dir, "/", kCheckpointsDir);
  for (const std::string& folder : {job_dir, checkpoints}) {
    std::error_code error;
    fs::directory_iterator(folder, error);
    const bool begins = folder == checkpoints && error == std::errc::no_such_file_or_directory;
    if (error && !begins) return absl::ErrnoToStatus(error.value(), "cannot read the folder " + folder);
  }
  return absl::OkStatus();
}

std::vector<Round> RoundsIn(const std::string& checkpoints) {
  std::vector<Round> rounds;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, ignored)) {
    const absl::StatusOr<Round> round = ParseRound(entry.path().filename().string());
    if (round.ok()) rounds.push_back(*round);
  }
  std::sort(rounds.begin(), rounds.end(), std::greater<>());
  return rounds;
}

std::optional<Manifest> NewestWholeManifest(const std::string& job_dir) {
  for (const Round round : RoundsIn(absl::StrCat(job_dir, "/", kCheckpointsDir))) {
    const absl::StatusOr<std::string> text = ReadTextFile(absl::StrCat(job_dir, "/", ManifestPath(round)));
    absl::StatusOr<Manifest> manifest = text.ok() ? DecodeManifest(*text) : text.status();
    if (manifest.ok()) return *std::move(manifest);
  }
  return std::nullopt;
}

std::optional<Round> NewestRound(const std::string& job_dir) {
  for (const Round round : RoundsIn(absl::StrCat(job_dir, "/", kCheckpointsDir))) {
    std::error_code ignored;
    if (fs::exists(fs::path(job_dir) / ManifestPath(round), ignored)) return round;
  }
  return std::nullopt;
}

std::string NewestCheckpoint(const std::string& job_dir) {
  const std::optional<Manifest> newest = NewestWholeManifest(job_dir);
  return newest ? CheckpointDir(newest->round) : "";
}

std::string HowItWasLeft(const std::string& job_dir, const ChiefLocation& chief) {
  const std::optional<Manifest> newest = NewestWholeManifest(job_dir);
  const std::string checkpoint = newest ? DescribeCheckpoint(newest->round, newest->committed) : "";
  return absl::StrCat("the chief of ", job_dir, " (process ", chief.pid, " on ", chief.host, ", term ", chief.term,
                      ") has gone and did not say how the job ended: it was killed. ",
                      HowToGoOn(checkpoint, chief.command));
}

bool HoldsJob(const std::string& job_dir) {
  std::error_code ignored;
  return fs::exists(ChiefPath(job_dir), ignored) || NewestRound(job_dir);
}

absl::StatusOr<UniqueFd> ClaimJobFolder(const std::string& job_dir) {
  std::error_code error;
  fs::create_directories(fs::path(job_dir) / "logs", error);
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat("cannot make the job folder ", job_dir,
                                                      " and logs in it: ", error.message(),
                                                      "; name another by --job-dir, in a place where you may write"));
  }
  const std::string path = RunLockPath(job_dir);
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write in the job folder: ", path));
  if (const int refusal = KeepLock(lock.get()); refusal != 0) {
    if (refusal != EWOULDBLOCK) return absl::ErrnoToStatus(refusal, absl::StrCat("cannot lock ", path));
    return absl::AlreadyExistsError(absl::StrCat("another downpour run is at work in ", job_dir,
                                                 ": look at it with downpour status --job-dir ", job_dir,
                                                 ", or choose another --job-dir"));
  }
  return lock;
}

void SayInJobFolder(const UniqueFd& claim, const std::string& words) {
  if (ftruncate(claim.get(), 0) == 0) (void)!pwrite(claim.get(), words.data(), words.size(), 0);
}

std::string SaidInJobFolder(const std::string& job_dir) {
  char words[kMostSaid];
  const UniqueFd file(open(RunLockPath(job_dir).c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = file.ok() && HasRun(job_dir) ? pread(file.get(), words, sizeof(words), 0) : 0;
  return OneLine({words, static_cast<size_t>(std::max<ssize_t>(0, size))}, kMostSaid);
}

void RemoveEmptyJobFolder(const std::string& job_dir) {
  std::error_code ignored;
  fs::remove(fs::path(job_dir) / "logs", ignored);  // if it is empty
  const fs::directory_iterator found(job_dir, ignored);
  const bool has_lock_alone = std::distance(begin(found), end(found)) == 1;
  if (!has_lock_alone || !fs::remove(RunLockPath(job_dir), ignored)) return;
  fs::remove(job_dir, ignored);
}

bool HasRun(const std::string& job_dir) { return IsHeld(RunLockPath(job_dir)); }

bool IsAtWork(const std::string& job_dir) {
  // In this order: nobody else may find the chief's lock taken, by this look at it, while a run is about to start one.
  return HasRun(job_dir) || IsHeld(absl::StrCat(job_dir, "/", kChiefLockFile));
}

bool HasGone(const ChiefLocation& chief, const std::string& job_dir) {
  return chief.host == HostName() && !IsAtWork(job_dir);
}

std::string LogPath(const std::string& job_dir, const std::string& task) {
  return absl::StrCat(job_dir, "/logs/", task, ".log");
}

std::string LastWordIn(const std::string& job_dir, const std::string& task) {
  const std::string log = ReadTextFile(LogPath(job_dir, task)).value_or("");
  const std::vector<std::string> lines = absl::StrSplit(log, '\n', absl::SkipEmpty());
  return lines.empty() ? absl::StrCat("the ", task, " ended and said nothing") : WordsOfLine(lines.back());
}

}  // namespace downpour
