#include "runtime/process/resources.h"

#include <glog/logging.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

double SecondsOf(int who) {
  rusage usage{};
  PCHECK(getrusage(who, &usage) == 0) << "getrusage";
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Its own, and that of those which it has waited for.
double SecondsOfChild(const std::string& proc) {
  std::ifstream file(proc + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // a program's name may be anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kBeforeUtime = 11;  // state, the third of proc_pid_stat(5), to cmajflt
  std::string skipped;
  for (int i = 0; i < kBeforeUtime; ++i) fields >> skipped;
  int64_t ticks = 0;
  for (int i = 0; i < 4; ++i) {  // utime, stime, cutime, cstime
    int64_t some = 0;
    fields >> some;
    ticks += some;
  }
  static const auto kTicksPerSecond = static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(ticks) / kTicksPerSecond;
}

uint64_t OwnResidentBytes() {
  uint64_t reserved = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> reserved >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Of the pages that no other process has, clean and dirty.
uint64_t PrivateBytesOf(const std::string& proc) {
  constexpr uint64_t kKiB = 1024;
  std::ifstream file(proc + "/smaps_rollup");
  uint64_t bytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "Private_")) continue;
    std::istringstream fields(line);
    std::string name;
    uint64_t kib = 0;
    fields >> name >> kib;
    bytes += kib * kKiB;
  }
  return bytes;
}

void AddChildren(const std::string& proc, std::vector<pid_t>* pids) {
  std::error_code error;  // it may end meanwhile
  for (fs::directory_iterator thread(proc + "/task", error), end; !error && thread != end; thread.increment(error)) {
    std::ifstream children(thread->path() / "children");
    pids->insert(pids->end(), std::istream_iterator<pid_t>(children), {});
  }
}

}  // namespace

ResourceSample ResourceMeter::Sample() {
  std::vector<pid_t> children;
  AddChildren("/proc/self", &children);
  double seconds = 0;
  uint64_t bytes = OwnResidentBytes();
  for (size_t i = 0; i < children.size(); ++i) {
    const std::string proc = absl::StrCat("/proc/", children[i]);
    seconds += SecondsOfChild(proc);
    bytes += PrivateBytesOf(proc);
    AddChildren(proc, &children);
  }
  seconds += SecondsOf(RUSAGE_SELF) + SecondsOf(RUSAGE_CHILDREN);
  if (seconds < seen_seconds_) gone_seconds_ += seen_seconds_ - seconds;
  seen_seconds_ = seconds;
  ResourceSample sample;
  sample.cpu_seconds = seconds + gone_seconds_;
  sample.resident_bytes = bytes;
  return sample;
}

}  // namespace downpour
