#include "runtime/posix/process.h"

#include <glog/logging.h>
#include <malloc.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "absl/strings/str_format.h"

namespace downpour {

std::string HostName() {
  char name[256] = {};
  PCHECK(gethostname(name, sizeof(name) - 1) == 0) << "gethostname";
  return name;
}

uint64_t RandomNonce() {
  uint64_t nonce = 0;
  PCHECK(getrandom(&nonce, sizeof(nonce), 0) == sizeof(nonce)) << "getrandom";
  return nonce;
}

std::string RandomSecret() { return absl::StrFormat("%016x%016x", RandomNonce(), RandomNonce()); }

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

int64_t UnixMs() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
}

uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  PCHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0) << "getrlimit";
  limit.rlim_cur = limit.rlim_max;
  PCHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0) << "setrlimit";
  return limit.rlim_max;
}

std::optional<uint64_t> FileSizeLimit() {
  rlimit limit{};
  PCHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0) << "getrlimit";
  return limit.rlim_cur == RLIM_INFINITY ? std::nullopt : std::optional<uint64_t>(limit.rlim_cur);
}

sigset_t SigtermAnd(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  for (const int signal : signals) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

}  // namespace downpour
