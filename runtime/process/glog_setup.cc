#define GLOG_CUSTOM_PREFIX_SUPPORT  // the library has it; its header hides it otherwise
#include "runtime/process/glog_setup.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "runtime/log_line.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/process.h"

namespace downpour {
namespace {

constexpr int kSecond = 1000;

int64_t UnixMs(const google::LogMessageTime& time) {
  return static_cast<int64_t>(time.timestamp()) * kSecond + time.usec() / kSecond;
}

void WritePrefix(std::ostream& out, const google::LogMessageInfo& line, void*) {
  out << LogPrefix(line.severity[0], UnixMs(line.time));
}

class FileSink final : public google::LogSink {
 public:
  explicit FileSink(UniqueFd file) : file_(std::move(file)) {}

  using google::LogSink::send;
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime& time,
            const char* message, size_t bytes) override {
    const std::string line = absl::StrCat(LogPrefix(google::GetLogSeverityName(severity)[0], UnixMs(time)), " ",
                                          std::string(message, bytes), "\n");
    // At once, so that a line is whole whoever else appends; a full disk must not end the process.
    [[maybe_unused]] const ssize_t written = write(file_.get(), line.data(), line.size());
  }

 private:
  const UniqueFd file_;
};

absl::StatusOr<UniqueFd> OpenLog(const std::string& folder, const std::string& task) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = absl::StrCat(folder, "/", task, ".log");
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot log to ", path));
  return file;
}

void BeginLogging(const char* program, bool may_have_color) {
  FLAGS_logtostderr = true;
  const char* no_color = std::getenv("NO_COLOR");
  FLAGS_colorlogtostderr = may_have_color && isatty(STDERR_FILENO) && (no_color == nullptr || *no_color == '\0');
  google::InitGoogleLogging(program, &WritePrefix);
}

// Nothing here takes memory. Of a signal, so that whoever supervises the process starts another one.
[[noreturn]] void EndOutOfMemory() {
  constexpr std::string_view kSentence =
      "out of memory: give this process more, or the job more tasks of its kind to share in what it holds\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
  std::signal(SIGABRT, SIG_DFL);  // the stack says nothing of who took the memory
  std::abort();
}

}  // namespace

absl::Status SetUpLogging(const char* program, const std::string& folder, const std::string& task) {
  if (!folder.empty()) {
    const absl::StatusOr<UniqueFd> file = OpenLog(folder, task);
    if (!file.ok()) return file.status();
    // What libraries write when they abort goes to descriptor 2, so that is where the file goes.
    if (dup2(file->get(), STDERR_FILENO) < 0) return absl::ErrnoToStatus(errno, "cannot log to a file");
  }
  BeginLogging(program, folder.empty());
  google::InstallFailureSignalHandler();
  // Where `ulimit -f` ends a file, a write fails as on a full disk, and is told of as that.
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_new_handler(&EndOutOfMemory);
  if (const std::optional<uint64_t> most = FileSizeLimit()) {
    LOG(WARNING) << "a file may have at most " << *most << " bytes here (`ulimit -f`): what does not fit fails as on a "
                 << "full disk";
  }
  return absl::OkStatus();
}

void LogTroubleAlone(const char* program) {
  FLAGS_minloglevel = google::GLOG_WARNING;
  BeginLogging(program, /*may_have_color=*/true);
}

absl::Status AlsoLogTo(const std::string& folder, const std::string& task) {
  absl::StatusOr<UniqueFd> file = OpenLog(folder, task);
  if (!file.ok()) return file.status();
  google::AddLogSink(new FileSink(*std::move(file)));  // lives as long as the process: it logs to its end
  return absl::OkStatus();
}

void LogError(const std::string& sentence) { LOG(ERROR) << sentence; }
void LogWarning(const std::string& sentence) { LOG(WARNING) << sentence; }
void LogInfo(const std::string& sentence) { LOG(INFO) << sentence; }

}  // namespace downpour
