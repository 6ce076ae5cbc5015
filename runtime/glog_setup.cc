#define GLOG_CUSTOM_PREFIX_SUPPORT  // the library has it; its header hides it otherwise
#include "runtime/glog_setup.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/posix_fd.h"

namespace downpour {
namespace {

void WritePrefix(std::ostream& out, const google::LogMessageInfo& line, void*) {
  const google::LogMessageTime& t = line.time;
  char prefix[64];
  std::snprintf(prefix, sizeof(prefix), "%c %04d-%02d-%02d %02d:%02d:%02d.%03d", line.severity[0], t.year() + 1900,
                t.month() + 1, t.day(), t.hour(), t.min(), t.sec(), t.usec() / 1000);
  out << prefix;
}

}  // namespace

absl::Status SetUpLogging(const char* program, const std::string& folder, const std::string& task) {
  if (!folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const std::string path = absl::StrCat(folder, "/", task, ".log");
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    // What libraries write when they abort goes to descriptor 2, so that is where the file goes.
    if (!file.ok() || dup2(file.get(), STDERR_FILENO) < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot log to ", path));
    }
  }
  FLAGS_logtostderr = true;
  const char* no_color = std::getenv("NO_COLOR");
  FLAGS_colorlogtostderr = folder.empty() && isatty(STDERR_FILENO) && (no_color == nullptr || *no_color == '\0');
  google::InitGoogleLogging(program, &WritePrefix);
  google::InstallFailureSignalHandler();
  return absl::OkStatus();
}

void LogError(const std::string& sentence) { LOG(ERROR) << sentence; }

}  // namespace downpour
