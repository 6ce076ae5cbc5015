#include "service/run_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cluster/job_folder.h"
#include "runtime/log_line.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/process.h"
#include "schema/status_report.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int kLockFd = 3;
constexpr int kShellSays = 128;                       // and the number of the signal that ended a program
constexpr const char* kNoModel = "came to no model";  // tools/cli/python_code.cc
// $1: the folder of the mark. set -C makes the redirection an O_EXCL: a second shim finds the mark and ends, unless
// $2 is "again". The run's SIGTERM reaches this shell too, which waits for the run's end all the same. It holds the
// lock until the exit code is written, so where the disk is full the job is not over before there is room.
constexpr const char* kShim = R"(
set -C
folder=$1
[ "$2" = again ] && set +C
shift 2
{ echo $$ > "$folder/started"; } 2> /dev/null || exit 97
set +C
trap : TERM INT HUP
"$@"
code=$?
echo "I $(date -u '+%Y-%m-%d %H:%M:%S.%3N') the run ended with exit code $code" >&2
until { echo $code > "$folder/exit.new" && mv -T "$folder/exit.new" "$folder/exit"; } 2> /dev/null; do
  [ -d "$folder" ] || exit 98
  sleep 1
done
)";

std::string Trimmed(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : std::string();
}

std::string EndOf(const std::string& path, int64_t most_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t size = std::max<int64_t>(0, file.tellg());
  std::string end(static_cast<size_t>(std::min(size, most_bytes)), '\0');
  file.seekg(size - static_cast<int64_t>(end.size()));
  file.read(end.data(), static_cast<std::streamsize>(end.size()));
  return end;
}

int64_t WrittenMs(const std::string& path) {
  struct stat at {};
  return stat(path.c_str(), &at) == 0 ? at.st_mtim.tv_sec * 1000 + at.st_mtim.tv_nsec / 1'000'000 : 0;
}

// The run's lock, if nobody has it.
UniqueFd TakeLock(const std::string& path) {
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.ok() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return UniqueFd();
  return lock;
}

}  // namespace

absl::Status RunFolder::Make() const {
  std::error_code error;
  fs::create_directories(Own(""), error);
  if (!error) fs::create_directories(fs::path(LogFile()).parent_path(), error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot make the job folder ", job_dir_, ": ", error.message()));
}

int64_t RunFolder::SummaryWrittenMs() const { return WrittenMs(job_dir_ + "/summary.json"); }

int64_t RunFolder::LastWrittenMs(int64_t since_ms) const {
  const int64_t last = std::max(SummaryWrittenMs(), WrittenMs(job_dir_ + "/metrics.jsonl"));
  return last < since_ms ? 0 : last;
}

RunSeen RunFolder::Look() const {
  RunSeen seen;
  if (!fs::exists(Own(""))) return seen;
  seen.alive = !TakeLock(Own("lock")).ok();
  seen.started = fs::exists(Own("started"));
  seen.started_ms = WrittenMs(Own("started"));
  if (seen.alive) return seen;
  int code = 0;
  if (absl::SimpleAtoi(Trimmed(Own("exit")), &code)) seen.exit_code = code;
  seen.ended_ms = WrittenMs(Own("exit"));
  if (seen.ended_ms == 0) seen.ended_ms = LastWrittenMs(seen.started_ms);
  if (!seen.started || seen.exit_code == 0) return seen;
  const absl::StatusOr<std::string> json = ReadTextFile(job_dir_ + "/summary.json");
  const absl::StatusOr<SummaryReport> summary = json.ok() ? ParseSummary(*json) : json.status();
  // A shim that was killed left no code, and the run went on without it.
  if (!seen.exit_code && summary.ok() && summary->state == "SUCCEEDED") seen.exit_code = 0;
  if (seen.exit_code == 0) return seen;
  if (summary.ok()) seen.error = summary->error;
  if (seen.error.empty() && seen.exit_code) seen.error = LastWords(*seen.exit_code);
  return seen;
}

absl::Status RunFolder::Start(const std::vector<std::string>& command, bool again) const {
  std::vector<std::string> words = {again ? "again" : "once"};
  words.insert(words.end(), command.begin(), command.end());
  return Spawn(kShim, words);
}

absl::Status RunFolder::Spawn(const char* script, const std::vector<std::string>& given) const {
  const UniqueFd lock = TakeLock(Own("lock"));
  if (!lock.ok()) return absl::UnavailableError("the run's lock is taken");
  std::vector<std::string> words = {"/bin/sh", "-c", script, "downpour-shim", Own("")};
  words.insert(words.end(), given.begin(), given.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, lock.get(), kLockFd);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, LogFile().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addchdir_np(&files, job_dir_.c_str());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "cannot start the run");
}

absl::Status RunFolder::Stop() const {
  pid_t group = 0;
  if (!absl::SimpleAtoi(Trimmed(Own("started")), &group) || group <= 1) {
    return absl::UnavailableError("the shim has not told its pid yet");
  }
  // While anybody of the group lives its number is not given to another one. So its leader is the shim, or nobody.
  const absl::StatusOr<std::string> leader = ReadTextFile(absl::StrCat("/proc/", group, "/cmdline"));
  if (leader.ok() && !leader->empty() && !absl::StrContains(*leader, Own(""))) {
    return absl::UnavailableError("the shim has gone, and all that it started");
  }
  return kill(-group, SIGTERM) == 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, "cannot stop the run");
}

bool RunFolder::WasTold() const { return fs::exists(Own("told")); }

void RunFolder::RememberTold(bool told) const {
  std::error_code ignored;
  if (told) {
    std::ofstream(Own("told"));
  } else {
    fs::remove(Own("told"), ignored);
  }
}

void RunFolder::Note(char severity, const std::string& words) const {
  std::ofstream(LogFile(), std::ios::app)
      << LogPrefix(severity, UnixMs()) << " " << OneLine(words, kMaxLogBytes) << "\n";
}

std::string RunFolder::LogFile() const { return LogPath(job_dir_, "service"); }

// What `downpour run` said last; or the user's program, if that made no model. One that was killed had no time for
// words, and its last ones are of something else.
std::string RunFolder::LastWords(int exit_code) const {
  if (exit_code == kShellSays + SIGKILL) return absl::StrCat("its run was killed (exit code ", exit_code, ")");
  constexpr int64_t kEnd = 16384;
  std::string words, told, said, last;
  const std::string end = EndOf(LogFile(), kEnd);
  for (absl::string_view line : absl::StrSplit(absl::StripAsciiWhitespace(end), '\n')) {
    if (!TimeOfLine(std::string(line)).empty()) continue;  // the service's own
    last = std::string(line);
    bool is_programs = !absl::StripAsciiWhitespace(line).empty();
    for (const char* prefix : {"downpour run: ", "downpour stage: ", "cluster: "}) {
      if (!absl::ConsumePrefix(&line, prefix)) continue;
      is_programs = false;
      if (!absl::StartsWith(line, "warning: ")) words = std::string(line);  // no run ends by a warning
    }
    if (absl::ConsumePrefix(&line, "downpour: ")) told = std::string(line);
    if (is_programs) said = std::string(absl::StripAsciiWhitespace(line));
  }
  const bool is_programs_fault = absl::StrContains(words, kNoModel);
  if (words.empty() || (is_programs_fault && !told.empty())) {
    words = told;
  } else if (is_programs_fault && !said.empty()) {
    absl::StrAppend(&words, ": ", said);  // such as argparse's sentence, or an exception's
  }
  if (words.empty()) words = last;
  return OneLine(words, kMaxLogBytes);
}

std::string JobFolderOf(const std::string& root, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return absl::StrCat(root, "/jobs/", name);
  return absl::StrCat(root, "/jobs/", name.substr(0, slash), "/trials/", name.substr(slash + 1));
}

}  // namespace downpour
