// DescriptorNeed: the open files that a task of a job takes, nearly all of them for its connections.
//
// Units: descriptors, as RLIMIT_NOFILE counts them.
// Source: libzmq 4.3.4. Each of its sockets has an eventfd. A link that is dialled has three of them (itself, and the
//   two ends of its monitor, without which nobody would hear that a key is refused) and its connection. One that is
//   accepted has its connection alone. Where a ps and a worker share memory, each has one more (runtime/shm/link.h).
// Tests: tests/unit/runtime/descriptor_need_test.cc, tests/unit/runtime/zmq/links_test.cc.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "job/job.h"
#include "schema/message.h"

namespace downpour {

inline constexpr uint64_t kDescriptorsPerDialledLink = 4;
// Files, logs, ZeroMQ's threads, a GPU's driver, who asks for the status, and one for each 256 MiB that are shared.
inline constexpr uint64_t kOwnDescriptors = 128;

uint64_t DescriptorNeed(TaskRole role, const ClusterSpec& cluster);

// RESOURCE_EXHAUSTED, with the remedy, if a process that may have `limit` of them cannot be that task. 0: not known.
absl::Status CheckDescriptors(TaskRole role, const ClusterSpec& cluster, uint64_t limit);

}  // namespace downpour
