#include "runtime/process/crash_notes.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/posix/fd.h"

namespace downpour {
namespace {

constexpr off_t kMostRead = 64 << 10;

// For the handler: plain objects that are there from NoteCrashes on.
int notes_fd = -1;
const Applying* watched = nullptr;
pid_t applier = 0;
bool first_piece = true;

absl::StatusOr<UniqueFd> OpenNotes(const std::string& path, int flags) {
  UniqueFd file(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat facts {};
  if (!file.ok() || fstat(file.get(), &facts) < 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("crash notes ", path));
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("crash notes ", path, ": this is no plain file; name another one"));
  }
  return file;
}

// Nothing here takes memory or a lock: the process has crashed.
void Note(const PushName& name) {
  constexpr size_t kDigits = 21;  // of 2^64, and what parts it from the next
  std::array<char, 1 + 4 * kDigits> line;
  char* end = line.data();
  *end++ = '\n';
  for (const uint64_t number : {name.run, ToNumber(name.lease), uint64_t{name.step}, uint64_t{ToNumber(name.slice)}}) {
    end = std::to_chars(end, line.data() + line.size(), number).ptr;
    *end++ = ' ';
  }
  end[-1] = '\n';
  [[maybe_unused]] const ssize_t written = write(notes_fd, line.data(), static_cast<size_t>(end - line.data()));
}

// Called by glog's handler of fatal signals, with one piece of what it says after the other.
void NoteAndWrite(const char* piece, size_t bytes) {
  if (const bool is_first = std::exchange(first_piece, false); is_first && gettid() == applier) {
    if (const std::optional<PushName> name = watched->Now()) Note(*name);
  }
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, piece, bytes);
}

std::optional<PushName> ParseNote(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  uint64_t run = 0, lease = 0;
  uint32_t step = 0, slice = 0;
  if (words.size() != 4 || !absl::SimpleAtoi(words[0], &run) || !absl::SimpleAtoi(words[1], &lease) ||
      !absl::SimpleAtoi(words[2], &step) || !absl::SimpleAtoi(words[3], &slice)) {
    return std::nullopt;
  }
  return PushName{run, LeaseId{lease}, step, SliceId{slice}};
}

}  // namespace

std::vector<PushName> ReadCrashNotes(const std::string& path) {
  const absl::StatusOr<UniqueFd> file = OpenNotes(path, O_RDONLY);
  std::vector<PushName> crashes;
  if (!file.ok()) {
    LOG_IF(WARNING, !absl::IsNotFound(file.status())) << file.status().message();
    return crashes;
  }
  std::string text(kMostRead, '\0');
  const off_t size = lseek(file->get(), 0, SEEK_END);
  const ssize_t got = pread(file->get(), text.data(), text.size(), std::max<off_t>(0, size - kMostRead));
  PLOG_IF(WARNING, got < 0) << "crash notes " << path;
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (const std::optional<PushName> name = ParseNote(line)) crashes.push_back(*name);
  }
  return crashes;
}

void NoteCrashes(const std::string& path, const Applying* applying) {
  if (path.empty()) return;
  absl::StatusOr<UniqueFd> file = OpenNotes(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file.ok()) {
    LOG(WARNING) << file.status().message();
    return;
  }
  CHECK(watched == nullptr) << "once in a process";
  watched = applying;
  applier = gettid();
  notes_fd = file->Release();
  google::InstallFailureWriter(&NoteAndWrite);
}

}  // namespace downpour
