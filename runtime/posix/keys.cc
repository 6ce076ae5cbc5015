#include "runtime/posix/keys.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/whole_file.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kKeyChars = 40;
constexpr size_t kClusterBytes = 16;
constexpr size_t kMaxFileBytes = 64 << 10;

std::string PublicPath(const std::string& folder, PeerRole role) { return folder + "/" + NameOf(role) + ".public"; }
std::string SecretPath(const std::string& folder, PeerRole role) { return folder + "/" + NameOf(role) + ".secret"; }

// With whom each role talks: only their keys are read, so that only they are let in.
std::vector<PeerRole> PeersOf(PeerRole role) {
  switch (role) {
    case PeerRole::kChief:
      return {PeerRole::kPs, PeerRole::kWorker, PeerRole::kClient, PeerRole::kViewer};
    case PeerRole::kPs:
      return {PeerRole::kChief, PeerRole::kWorker, PeerRole::kViewer};
    case PeerRole::kWorker:
    case PeerRole::kViewer:
      return {PeerRole::kChief, PeerRole::kPs};
    case PeerRole::kClient:
      return {PeerRole::kChief};
  }
  return {};
}

// A cluster needs no viewer, and keys of an earlier release have none. A viewer without the key of ps asks the chief
// alone.
bool MayBeAbsent(PeerRole self, PeerRole peer) {
  return peer == PeerRole::kViewer || (self == PeerRole::kViewer && peer == PeerRole::kPs);
}

// ---- Reading --------------------------------------------------------------------------------------------------------

// OK if it is what it should be and its owner's alone.
absl::Status CheckPrivate(const std::string& path, int fd, mode_t kind) {
  struct stat found {};
  if (fstat(fd, &found) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("cannot look at ", path, ": ", std::strerror(errno)));
  }
  if ((found.st_mode & S_IFMT) != kind) {
    return absl::PermissionDeniedError(absl::StrCat(path, " is no plain ", kind == S_IFDIR ? "folder" : "file"));
  }
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, " belongs to another user; chown it to yours"));
  }
  if ((found.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " can be opened by others than its owner; chmod ", kind == S_IFDIR ? "700 " : "600 ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenPrivate(int at, const std::string& name, const std::string& path, mode_t kind) {
  // O_NONBLOCK: a pipe in a key's place must not hold us up.
  UniqueFd fd(openat(at, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.ok() && errno == ELOOP) {
    const std::string link = ShellWord(path);
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is a link; ",
        kind == S_IFDIR
            ? "name the folder that it leads to"
            : absl::StrCat("put the file in its place: cp --remove-destination \"$(readlink -f ", link, ")\" ", link)));
  }
  if (!fd.ok() && errno == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", path,
                     "; copy it from where this cluster's keys were made (new ones, by `downpour keys new`, are ",
                     "those of another cluster)"));
  }
  if (!fd.ok()) return absl::PermissionDeniedError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  if (absl::Status status = CheckPrivate(path, fd.get(), kind); !status.ok()) return status;
  return fd;
}

absl::StatusOr<KeyFile> ReadKeyFile(int folder, const std::string& path, PeerRole role) {
  absl::StatusOr<UniqueFd> fd = OpenPrivate(folder, path.substr(path.rfind('/') + 1), path, S_IFREG);
  if (!fd.ok()) return fd.status();
  std::string text(kMaxFileBytes, '\0');
  const ssize_t bytes = read(fd->get(), text.data(), text.size());
  if (bytes < 0) return absl::PermissionDeniedError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  text.resize(static_cast<size_t>(bytes));
  absl::StatusOr<KeyFile> file = ParseKeyFile(text);
  explicit_bzero(text.data(), text.size());
  if (!file.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ":", std::string(file.status().message())));
  if (file->role != role) {
    return absl::InvalidArgumentError(absl::StrCat(path, " holds a key for a ", NameOf(file->role)));
  }
  return file;
}

// The private key of `role`, checked against its public one.
absl::StatusOr<KeyFile> ReadSecret(int folder, const std::string& path, PeerRole role) {
  absl::StatusOr<KeyFile> file = ReadKeyFile(folder, path, role);
  if (!file.ok()) return file;
  char belongs[kKeyChars + 1];
  const bool is_pair = !file->secret_key.empty() && file->public_keys.size() == 1 &&
                       zmq_curve_public(belongs, file->secret_key.c_str()) == 0 && belongs == file->public_keys[0];
  if (!is_pair)
    return absl::InvalidArgumentError(absl::StrCat(path, " does not hold one secret key and its public one"));
  return file;
}

// ---- Writing --------------------------------------------------------------------------------------------------------

absl::Status Write(const std::string& path, const std::string& text, WhereThere where_there) {
  return WriteWhole(path, text, 0600, where_there);
}

using Files = std::vector<std::pair<std::string, std::string>>;  // paths, and what is to be there

void RemoveFirst(size_t count, const Files& files) {
  for (size_t i = 0; i < count; ++i) unlink(files[i].first.c_str());
}

// All of them or none.
absl::Status WriteNew(const Files& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    const absl::Status status = Write(files[i].first, files[i].second, WhereThere::kRefuse);
    if (status.ok()) continue;
    RemoveFirst(i, files);
    if (!absl::IsAlreadyExists(status)) return status;
    return absl::AlreadyExistsError(absl::StrCat(std::string(status.message()), "; choose another folder"));
  }
  return absl::OkStatus();
}

absl::Status MakePrivateFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", std::strerror(errno)));
  }
  return OpenPrivate(AT_FDCWD, folder, folder, S_IFDIR).status();
}

std::string PrintSecret(const std::string& cluster, PeerRole role, const CurvePair& pair) {
  return PrintKeyFile({cluster, role, {pair.public_key}, pair.secret_key});
}

// A pair for a role of the cluster whose keys are in a folder.
struct NewPair {
  UniqueFd folder;
  KeyFile known;  // without it
  CurvePair pair;
  std::string secret;  // as a file
};
absl::StatusOr<NewPair> DrawPair(const std::string& folder, PeerRole role) {
  absl::StatusOr<UniqueFd> fd = OpenPrivate(AT_FDCWD, folder, folder, S_IFDIR);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<KeyFile> known = ReadKeyFile(fd->get(), PublicPath(folder, role), role);
  if (absl::IsNotFound(known.status()) && MayBeAbsent(role, role)) {
    known = ReadKeyFile(fd->get(), PublicPath(folder, PeerRole::kChief), PeerRole::kChief);
    if (known.ok()) known = KeyFile{.cluster = known->cluster, .role = role, .public_keys = {}, .secret_key = ""};
  }
  if (!known.ok()) return known.status();
  NewPair drawn{*std::move(fd), *std::move(known), MakeCurvePair(), ""};
  drawn.secret = PrintSecret(drawn.known.cluster, role, drawn.pair);
  return drawn;
}

}  // namespace

CurvePair MakeCurvePair() {
  char public_key[kKeyChars + 1], secret_key[kKeyChars + 1];
  PCHECK(zmq_curve_keypair(public_key, secret_key) == 0) << "this libzmq was built without CURVE";
  return {public_key, secret_key};
}

std::optional<PeerRole> KeyRing::RoleOf(const std::string& public_key) const {
  for (const PeerRole role : kAllPeerRoles) {
    const std::vector<std::string>& keys = Of(role);
    if (std::find(keys.begin(), keys.end(), public_key) != keys.end()) return role;
  }
  return std::nullopt;
}

absl::StatusOr<KeyRing> LoadKeys(const std::string& folder, PeerRole self) {
  PCHECK(prctl(PR_SET_DUMPABLE, 0) == 0) << "prctl";
  const absl::StatusOr<UniqueFd> fd = OpenPrivate(AT_FDCWD, folder, folder, S_IFDIR);
  if (!fd.ok()) return fd.status();
  const absl::StatusOr<KeyFile> own = ReadSecret(fd->get(), SecretPath(folder, self), self);
  if (!own.ok()) return own.status();
  KeyRing ring{.self = self, .cluster = own->cluster, .own = {own->public_keys[0], own->secret_key}, .known = {}};
  for (const PeerRole peer : PeersOf(self)) {
    const std::string path = PublicPath(folder, peer);
    absl::StatusOr<KeyFile> file = ReadKeyFile(fd->get(), path, peer);
    if (absl::IsNotFound(file.status()) && MayBeAbsent(self, peer)) continue;
    if (!file.ok()) return file.status();
    if (!file->secret_key.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " holds a secret key"));
    if (file->cluster != ring.cluster) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is of another cluster than ", SecretPath(folder, self)));
    }
    ring.known[static_cast<size_t>(peer)] = std::move(file->public_keys);
  }
  return ring;
}

absl::StatusOr<KeyRing> LoadKeysAgain(const std::string& folder, const KeyRing& before) {
  absl::StatusOr<KeyRing> now = LoadKeys(folder, before.self);
  if (now.ok() && now->cluster != before.cluster) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " is of another cluster now: start this task again to use it"));
  }
  return now;
}

absl::StatusOr<std::optional<KeyRing>> KeysIn(const std::string& folder, PeerRole self) {
  if (folder.empty()) return std::optional<KeyRing>();
  absl::StatusOr<KeyRing> keys = LoadKeys(folder, self);
  if (!keys.ok()) return keys.status();
  return std::optional<KeyRing>(*std::move(keys));
}

std::string KeysFolder(const std::string& given, const std::string& job_dir) {
  if (!given.empty()) return given;
  if (const char* named = std::getenv("DOWNPOUR_KEYS"); named != nullptr && *named != '\0') return named;
  const std::string of_job = KeysOfJob(job_dir);
  return !job_dir.empty() && access(of_job.c_str(), F_OK) == 0 ? of_job : "";
}

std::string KeysOfJob(const std::string& job_dir) { return job_dir + "/keys"; }

std::vector<PeerRole> SecretsIn(const std::string& folder) {
  std::vector<PeerRole> roles;
  for (const PeerRole role : kAllPeerRoles) {
    if (access(SecretPath(folder, role).c_str(), F_OK) == 0) roles.push_back(role);
  }
  return roles;
}

absl::Status WriteNewKeys(const std::string& folder) {
  if (absl::Status status = MakePrivateFolder(folder); !status.ok()) return status;
  std::string id(kClusterBytes, '\0');
  PCHECK(getrandom(id.data(), id.size(), 0) == static_cast<ssize_t>(id.size())) << "getrandom";
  const std::string cluster = absl::BytesToHexString(id);
  Files files;
  for (const PeerRole role : kAllPeerRoles) {
    const CurvePair pair = MakeCurvePair();
    files.emplace_back(SecretPath(folder, role), PrintSecret(cluster, role, pair));
    files.emplace_back(PublicPath(folder, role), PrintKeyFile({cluster, role, {pair.public_key}, ""}));
  }
  return WriteNew(files);
}

absl::Status RenewKeys(const std::string& folder, PeerRole role) {
  absl::StatusOr<NewPair> drawn = DrawPair(folder, role);
  if (!drawn.ok()) return drawn.status();
  std::vector<std::string>& known = drawn->known.public_keys;
  known.insert(known.begin(), drawn->pair.public_key);
  // The public key first: a secret that nobody knows yet would shut its owner out.
  const absl::Status status = Write(PublicPath(folder, role), PrintKeyFile(drawn->known), WhereThere::kReplace);
  return status.ok() ? Write(SecretPath(folder, role), drawn->secret, WhereThere::kReplace) : status;
}

absl::StatusOr<std::string> IssueKeys(const std::string& folder, PeerRole role, const std::string& out) {
  absl::StatusOr<NewPair> drawn = DrawPair(folder, role);
  if (!drawn.ok()) return drawn.status();
  Files files = {{SecretPath(out, role), drawn->secret}};
  for (const PeerRole peer : PeersOf(role)) {
    const absl::StatusOr<KeyFile> file = ReadKeyFile(drawn->folder.get(), PublicPath(folder, peer), peer);
    if (!file.ok()) return file.status();
    files.emplace_back(PublicPath(out, peer), PrintKeyFile(*file));
  }
  absl::Status status = MakePrivateFolder(out);
  if (status.ok()) status = WriteNew(files);
  if (!status.ok()) return status;
  drawn->known.public_keys.push_back(drawn->pair.public_key);
  status = Write(PublicPath(folder, role), PrintKeyFile(drawn->known), WhereThere::kReplace);
  if (!status.ok()) {
    RemoveFirst(files.size(), files);  // nobody would let it in
    return status;
  }
  return drawn->pair.public_key;
}

}  // namespace downpour
