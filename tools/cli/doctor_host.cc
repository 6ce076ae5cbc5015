#include "tools/cli/doctor_host.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <zmq.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/driver/posix_process.h"
#include "tensor/cuda_module.h"
#include "tools/cluster/human_units.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int kOldestZmq = 40303;

// The rest of the first line of a file that begins so.
std::string LineOf(const std::string& path, const std::string& prefix) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, prefix)) return line.substr(prefix.size());
  }
  return "";
}

std::optional<uint64_t> MemoryAvailable() {
  uint64_t kib = 0;
  if (!(std::istringstream(LineOf("/proc/meminfo", "MemAvailable:")) >> kib)) return std::nullopt;
  return kib << 10;
}

std::optional<uint64_t> DiskFree(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, error);
  if (error) return std::nullopt;
  return space.available;
}

bool Loads(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

std::string Bytes(uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

Finding RoomFor(const std::string& about, std::optional<uint64_t> there, uint64_t needed, const std::string& where,
                const std::string& remedy) {
  if (!there) return Warning(about, absl::StrCat("cannot be told", where), remedy);
  std::string what = absl::StrCat(Bytes(*there), " free", where);
  if (needed > 0) absl::StrAppend(&what, ", about ", Bytes(needed), " needed");
  return *there >= needed ? Good(about, what) : Problem(about, what, remedy);
}

Finding JudgeLimits(uint64_t there, uint64_t needed) {
  std::string what = absl::StrCat(there, " open files per process");
  if (needed > 0) absl::StrAppend(&what, ", ", needed, " needed for the connections of this job");
  if (there >= needed) return Good("limits", what);
  return Problem("limits", what,
                 absl::StrCat("raise the hard limit: `ulimit -n ", needed, "` as root, nofile in ",
                              "/etc/security/limits.conf, or LimitNOFILE=", needed, " in the unit"));
}

constexpr const char* kLongerFiles =
    "raise it: `ulimit -f unlimited`, fsize in /etc/security/limits.conf, or LimitFSIZE=infinity in the unit";

std::string FilesHere(uint64_t largest, uint64_t needed) {
  return absl::StrCat("a file may have at most ", Bytes(largest), " here (`ulimit -f`), about ", Bytes(needed),
                      " needed");
}

Finding JudgeCpu(const std::string& flags) {
  const std::string padded = absl::StrCat(" ", flags, " ");
  if (absl::StrContains(padded, " avx512f ")) return Good("cpu", "has AVX-512, for which the kernels are made");
  if (absl::StrContains(padded, " avx2 ")) return Good("cpu", "has AVX2; with AVX-512 it would be twice as fast");
  return Warning("cpu", "has no AVX2: arithmetic will be several times slower",
                 "compute elsewhere, or let the hypervisor show the host's CPU");
}

Finding JudgeGpu(const HostFacts& facts) {
  if (facts.gpu_driver.empty()) return Good("gpu", "no NVIDIA driver: workers compute on the CPU");
  const auto warning = [&](const std::string& what, const char* remedy) {
    return Warning("gpu", absl::StrCat(facts.gpu_driver, ", but ", what, ": workers compute on the CPU"), remedy);
  };
  if (!facts.gpu_library) {
    return warning("libcuda.so.1 does not load", "install the driver's libcuda1 package, of the same version");
  }
  if (!facts.gpu_module_lacks.empty()) {
    return warning(facts.gpu_module_lacks, "build where a CUDA toolkit is, and have its cuBLAS here");
  }
  return Good("gpu", facts.gpu_driver);
}

}  // namespace

bool ComputesOnGpu(const HostFacts& facts) {
  return !facts.gpu_driver.empty() && facts.gpu_library && facts.gpu_module_lacks.empty();
}

HostFacts LookAtHost(const std::string& folder) {
  HostFacts facts;
  facts.memory_available = MemoryAvailable();
  facts.disk_free = DiskFree(folder);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.descriptors = limit.rlim_max;
  facts.largest_file = FileSizeLimit();
  timex clock{};
  facts.clock_synchronized = adjtimex(&clock) != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
  facts.cpu_flags = LineOf("/proc/cpuinfo", "flags\t\t:");
  facts.gpu_driver = LineOf("/proc/driver/nvidia/version", "NVRM version: ");
  facts.gpu_library = Loads("libcuda.so.1");
  if (!facts.gpu_driver.empty()) facts.gpu_module_lacks = std::string(LoadCudaModule().status().message());
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  facts.zmq_version = major * 10000 + minor * 100 + patch;
  return facts;
}

std::string WhyFilesEndEarly(std::optional<uint64_t> largest_file, uint64_t needed) {
  if (largest_file.value_or(needed) >= needed) return "";
  return absl::StrCat(FilesHere(*largest_file, needed), ": ", kLongerFiles);
}

Findings JudgeHost(const HostFacts& facts, const HostNeeds& needs, const std::string& folder) {
  Findings findings = {RoomFor("memory", facts.memory_available, needs.memory, "",
                               "run fewer tasks on this host, or a smaller model or batch"),
                       RoomFor("disk", facts.disk_free, needs.disk, absl::StrCat(" at ", folder),
                               "make room, keep fewer checkpoints (checkpoint.keep), or name another --job-dir")};
  findings.push_back(JudgeLimits(facts.descriptors, needs.descriptors));
  if (facts.largest_file) {
    const std::string files = FilesHere(*facts.largest_file, needs.file);
    findings.push_back(*facts.largest_file < needs.file ? Problem("files", files, kLongerFiles) : Good("files", files));
  }
  findings.push_back(facts.clock_synchronized
                         ? Good("clock", "synchronized")
                         : Warning("clock", "not synchronized, says the kernel: logs of several hosts will not line up",
                                   "apt-get install chrony, or enable systemd-timesyncd"));
  findings.push_back(JudgeCpu(facts.cpu_flags));
  findings.push_back(JudgeGpu(facts));
  const std::string zmq = absl::StrCat("libzmq ", facts.zmq_version / 10000, ".", facts.zmq_version / 100 % 100, ".",
                                       facts.zmq_version % 100);
  findings.push_back(facts.zmq_version >= kOldestZmq
                         ? Good("libraries", zmq)
                         : Problem("libraries", absl::StrCat(zmq, " has known holes"), "install 4.3.3 or newer"));
  return findings;
}

}  // namespace downpour
