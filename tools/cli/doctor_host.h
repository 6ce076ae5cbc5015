// Looks at this host: whether it has what a job needs, and what will make it slow.
//
// Shapes: what is looked at comes in as facts, so that each judgement is a pure function.
// Source: adjtimex(2); /proc/meminfo, /proc/cpuinfo, /proc/driver/nvidia/version as
//   proc(5) and the driver's README have them.
// Tests: tests/unit/tools/cli/doctor_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/cli/findings.h"

namespace downpour {

struct HostFacts {
  std::optional<uint64_t> memory_available;  // bytes; as are all sizes
  std::optional<uint64_t> disk_free;
  uint64_t descriptors = 0;         // that a process may have, once it has raised its own limit
  std::optional<uint64_t> largest_file = {};  // that a process may write, by `ulimit -f`; nullopt: any
  bool clock_synchronized = false;  // to others, as the kernel believes
  std::string cpu_flags;            // separated by spaces
  std::string gpu_driver;           // its own words; empty: there is none
  bool gpu_library = false;         // libcuda loads
  std::string gpu_module_lacks;     // where there is a driver: what keeps the CUDA module from being loaded
  int zmq_version = 0;              // 40304 is 4.3.4
};
// `folder`: where free space is looked at, or the nearest one above it that is there.
HostFacts LookAtHost(const std::string& folder);
bool ComputesOnGpu(const HostFacts& facts);  // do workers here, unless they are told otherwise?

// What logs, journals and the service's store may grow to before anybody need think of them.
inline constexpr uint64_t kLeastFileBytes = uint64_t{1} << 20;

struct HostNeeds {
  uint64_t memory = 0;
  uint64_t disk = 0;
  uint64_t descriptors = 0;  // of one process
  uint64_t file = kLeastFileBytes;  // the largest one
  int servers = 1;           // ps of the job
};
// Why files of `needed` bytes cannot be written here, with the remedy; empty where they can.
std::string WhyFilesEndEarly(std::optional<uint64_t> largest_file, uint64_t needed);
Findings JudgeHost(const HostFacts& facts, const HostNeeds& needs, const std::string& folder);

}  // namespace downpour
