#include "tools/cli/doctor_keys.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/posix/keys.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kAbout = "keys";

bool Holds(const std::vector<PeerRole>& secrets, PeerRole role) {
  return std::find(secrets.begin(), secrets.end(), role) != secrets.end();
}

// Whose secrets may lie on a host for that role. Who runs the chief may ask it there how it goes, and a client may do
// all that a viewer may.
bool MayHold(std::optional<PeerRole> role, PeerRole secret) {
  if (!role || secret == role) return true;
  if (secret == PeerRole::kViewer) return role == PeerRole::kChief || role == PeerRole::kClient;
  return secret == PeerRole::kClient && role == PeerRole::kChief;
}

// `said`: what cures one file; the remedies for a folder cure all.
std::string RemedyFor(const absl::Status& status, const std::string& said, const std::string& folder) {
  if (absl::IsFailedPrecondition(status)) return said;
  if (absl::IsNotFound(status)) return "copy it from the folder that `downpour keys new` made";
  if (absl::IsPermissionDenied(status)) {
    return absl::StrCat("chown -R $USER ", ShellWord(folder), "; chmod -R u=rwX,go= ", ShellWord(folder));
  }
  return "copy all files again from the folder that `downpour keys new` made";
}

Finding LookAtUser(const std::string& folder, PeerRole user) {
  const absl::StatusOr<KeyRing> keys = LoadKeys(folder, user);
  if (!keys.ok()) {
    const std::pair<std::string, std::string> said = absl::StrSplit(keys.status().message(), absl::MaxSplits("; ", 1));
    return Problem(kAbout, said.first, RemedyFor(keys.status(), said.second, folder));
  }
  return Good(kAbout, absl::StrCat("those of a ", NameOf(user), ", of cluster ", keys->cluster.substr(0, 8)));
}

}  // namespace

Findings LookAtKeys(const std::string& folder, std::optional<PeerRole> role) {
  if (folder.empty()) return {Good(kAbout, "none: nothing may listen beyond this machine")};
  const std::vector<PeerRole> secrets = SecretsIn(folder);
  Findings findings;
  std::vector<std::string> absent;
  for (const PeerRole user : kAllPeerRoles) {
    const bool is_here = Holds(secrets, user);
    if (user == role || (is_here && MayHold(role, user))) {
      findings.push_back(LookAtUser(folder, user));
    } else if (is_here) {
      const std::string secret = absl::StrCat(folder, "/", NameOf(user), ".secret");
      findings.push_back(
          Warning(kAbout, absl::StrCat(secret, " is here too"),
                  absl::StrCat("unless a ", NameOf(user), " runs here as well: rm ", ShellWord(secret))));
    } else if (!role) {
      absent.emplace_back(NameOf(user));
    }
  }
  if (!role && secrets.empty()) {
    return {Problem(kAbout, absl::StrCat("there is no secret in ", folder),
                    "name the folder that `downpour keys new` made, or what SECURITY.md gives a host of it")};
  }
  if (!absent.empty()) {
    findings.push_back(Good(kAbout, absl::StrCat("of no use here to a ", absl::StrJoin(absent, ", "),
                                                 ", whose secret is not in ", folder, " (--role says who needs it)")));
  }
  return findings;
}

std::vector<PeerRole> VisitorsOf(const std::string& folder, std::optional<PeerRole> role) {
  if (folder.empty()) return {PeerRole::kClient};
  const std::vector<PeerRole> secrets = SecretsIn(folder);
  std::vector<PeerRole> visitors;
  for (const PeerRole visitor : {PeerRole::kClient, PeerRole::kViewer, PeerRole::kWorker, PeerRole::kPs}) {
    const bool is_sent = visitor == PeerRole::kClient || !role || visitor == role;
    if (is_sent && Holds(secrets, visitor)) visitors.push_back(visitor);
  }
  return visitors;
}

}  // namespace downpour
