// Key folders: the CURVE keys by which the processes of one cluster know each other.
//
//   downpour keys new --out keys                                   // WriteNewKeys
//   absl::StatusOr<KeyRing> keys = LoadKeys("keys", PeerRole::kWorker);
//
// Shapes: ROLE.public and ROLE.secret (schema/key_file.h) for chief, ps, worker, client and viewer. Of several keys in
//   ROLE.public all are let in, and the first is whom one dials. A host needs its own roles' secrets, and public
//   keys only of those with whom they talk. Without viewer.public a chief, or a ps, lets no viewer in.
// Errors: INVALID_ARGUMENT for what is no key file, with its line; PERMISSION_DENIED for a file or folder that others
//   than its owner may open; FAILED_PRECONDITION for a link; NOT_FOUND for a key that this role needs; ALREADY_EXISTS
//   rather than to replace a key. All name the path and the remedy; none tells a secret.
// Source: ZMTP CURVE, rfc.zeromq.org/spec/25.
// Tests: tests/unit/runtime/posix/keys_test.cc.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/key_file.h"
#include "schema/peer_role.h"

namespace downpour {

struct CurvePair {
  std::string public_key;  // Z85, as all keys here
  std::string secret_key;
  bool operator==(const CurvePair&) const = default;
};
CurvePair MakeCurvePair();

// What one process needs.
struct KeyRing {
  PeerRole self{};
  std::string cluster;
  CurvePair own;
  std::array<std::vector<std::string>, std::size(kAllPeerRoles)> known;  // by role

  const std::vector<std::string>& Of(PeerRole role) const { return known[static_cast<size_t>(role)]; }
  // Whose key this is; nothing: nobody's who has business with us.
  std::optional<PeerRole> RoleOf(const std::string& public_key) const;
  bool operator==(const KeyRing&) const = default;
};

// From here on the process leaves no core dump, nor lets others of its user look into it.
absl::StatusOr<KeyRing> LoadKeys(const std::string& folder, PeerRole self);
// What it holds by now. INVALID_ARGUMENT if that is of another cluster.
absl::StatusOr<KeyRing> LoadKeysAgain(const std::string& folder, const KeyRing& before);
// Likewise; nothing where `folder` is empty.
absl::StatusOr<std::optional<KeyRing>> KeysIn(const std::string& folder, PeerRole self);

// Which folder a process goes by: the one given by a flag, else that of the environment's DOWNPOUR_KEYS, else `keys` in
// the job folder if that is there. Empty: none. What is empty says nothing.
std::string KeysFolder(const std::string& given, const std::string& job_dir);
// Where `downpour run` makes keys.
std::string KeysOfJob(const std::string& job_dir);

// Whose secrets lie in a folder, whether they are good or not.
std::vector<PeerRole> SecretsIn(const std::string& folder);

// A new cluster's keys in a new folder.
absl::Status WriteNewKeys(const std::string& folder);
// A new pair for a role. Its old public key stays in ROLE.public, behind the new one, until somebody takes it out.
absl::Status RenewKeys(const std::string& folder, PeerRole role);
// A new folder `out` for one host of a role that nobody dials, with a pair of its own and what else it needs; the
// public key, which ROLE.public in `folder` has from now on beside the others.
absl::StatusOr<std::string> IssueKeys(const std::string& folder, PeerRole role, const std::string& out);

}  // namespace downpour
