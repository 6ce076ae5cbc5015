#include "runtime/descriptor_need.h"

#include "absl/strings/str_cat.h"

namespace downpour {

uint64_t DescriptorNeed(TaskRole role, const ClusterSpec& cluster) {
  const auto servers = static_cast<uint64_t>(cluster.parameter_server_count);
  const auto workers = static_cast<uint64_t>(cluster.worker_count);
  switch (role) {
    case TaskRole::kChief:
      return kOwnDescriptors + 2 * servers + workers;  // a ps dials it twice: records have a link of their own
    case TaskRole::kPs:
      return kOwnDescriptors + 2 * kDescriptorsPerDialledLink + 2 * workers;
    case TaskRole::kWorker:
      return kOwnDescriptors + (1 + servers) * kDescriptorsPerDialledLink + servers;
  }
  return kOwnDescriptors;
}

absl::Status CheckDescriptors(TaskRole role, const ClusterSpec& cluster, uint64_t limit) {
  const uint64_t need = DescriptorNeed(role, cluster);
  if (limit == 0 || limit >= need) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "with ", cluster.parameter_server_count, " ps and ", cluster.worker_count, " workers this task needs ", need,
      " open files, and may have ", limit, ": start it where `ulimit -n ", need, "` works, or with LimitNOFILE=", need,
      " in its systemd unit"));
}

}  // namespace downpour
