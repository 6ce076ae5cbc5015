#include "tools/doctor_keys.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/posix_keys.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kAbout = "keys";

// Who goes by the folder on a host of that role. The chief's host asks itself for the status.
std::vector<PeerRole> UsersOn(std::optional<TaskType> role) {
  if (role == TaskType::kChief) return {PeerRole::kChief, PeerRole::kClient};
  if (role == TaskType::kPs) return {PeerRole::kPs};
  if (role == TaskType::kWorker) return {PeerRole::kWorker};
  return {std::begin(kAllPeerRoles), std::end(kAllPeerRoles)};
}

std::string RemedyFor(const absl::Status& status, const std::string& folder) {
  if (absl::IsNotFound(status)) return "copy it from the folder that `downpour keys new` made";
  if (absl::IsPermissionDenied(status)) {
    return absl::StrCat("chown -R $USER ", ShellWord(folder), "; chmod -R u=rwX,go= ", ShellWord(folder));
  }
  return "copy all files anew from the folder that `downpour keys new` made";
}

Finding LookAtUser(const std::string& folder, PeerRole user) {
  const absl::StatusOr<KeyRing> keys = LoadKeys(folder, user);
  if (!keys.ok()) {
    const std::string said(keys.status().message());
    return Problem(kAbout, said.substr(0, said.find("; ")), RemedyFor(keys.status(), folder));
  }
  return Good(kAbout, absl::StrCat("those of a ", NameOf(user), ", of cluster ", keys->cluster.substr(0, 8)));
}

}  // namespace

Findings LookAtKeys(const std::string& folder, std::optional<TaskType> role) {
  if (folder.empty()) return {Good(kAbout, "none: nothing may listen beyond this machine")};
  const std::vector<PeerRole> users = UsersOn(role);
  Findings findings;
  for (const PeerRole user : kAllPeerRoles) {
    const bool needed = std::find(users.begin(), users.end(), user) != users.end();
    const std::string secret = absl::StrCat(folder, "/", NameOf(user), ".secret");
    if (needed) {
      findings.push_back(LookAtUser(folder, user));
    } else if (access(secret.c_str(), F_OK) == 0) {
      findings.push_back(
          Warning(kAbout, absl::StrCat(secret, " is here too"),
                  absl::StrCat("unless a ", NameOf(user), " runs here as well: rm ", ShellWord(secret))));
    }
  }
  return findings;
}

}  // namespace downpour
