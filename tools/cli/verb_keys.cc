#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/posix/keys.h"
#include "schema/text.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct KeysOptions {
  std::string out;
  std::string folder;
  std::string role;
};

PeerRole RoleNamed(const std::string& name) {
  const auto named = [&](PeerRole role) { return name == NameOf(role); };
  return *std::find_if(std::begin(kAllPeerRoles), std::end(kAllPeerRoles), named);
}

int New(const KeysOptions& options, Streams streams) {
  if (const absl::Status status = WriteNewKeys(options.out); !status.ok()) {
    return Complain(streams, "keys", std::string(status.message()), kExitFailed);
  }
  const std::string dir = ShellWord(options.out);
  streams.out << "Keys of a new cluster: " << options.out
              << "\n\nThe chief's host needs  chief.secret, ps.public, worker.public, client.public, viewer.public"
                 "\na ps's host             ps.secret, chief.public, worker.public"
                 "\na worker's host         worker.secret, chief.public, ps.public"
                 "\nwho stops or scales it  client.secret, chief.public"
                 "\nwho looks at it alone   viewer.secret, chief.public"
                 "\nwho predicts by it too  the same and ps.public; each ps's host then viewer.public"
                 "\n\nin a folder of their own (mode 700, its files 600), and no other secret. Next:\n\n"
                 "  downpour-chief --keys="
              << dir << " --listen=0.0.0.0:7000 --job=JOB.yaml --job_dir=DIR\n  downpour status --keys " << dir
              << " --chief HOST:7000\n";
  return kExitDone;
}

int Renew(const KeysOptions& options, Streams streams) {
  if (const absl::Status status = RenewKeys(options.folder, RoleNamed(options.role)); !status.ok()) {
    return Complain(streams, "keys", std::string(status.message()), kExitFailed);
  }
  const std::string file = absl::StrCat(options.folder, "/", options.role);
  streams.out << "New keys: " << file << ".public and " << file
              << ".secret. The old public key is still let in: take the "
              << "last line out of " << file << ".public once nobody needs it.\n";
  return kExitDone;
}

int Issue(const KeysOptions& options, Streams streams) {
  const absl::StatusOr<std::string> key = IssueKeys(options.folder, RoleNamed(options.role), options.out);
  if (!key.ok()) return Complain(streams, "keys", std::string(key.status().message()), kExitFailed);
  streams.out << "Keys of one " << options.role << "'s host: " << options.out << "\nCopy " << options.folder << "/"
              << options.role << ".public to the hosts that are to let it in; running tasks take notice. To shut that "
              << "host out,\ntake this line out of it again:\n\n  public " << *key << "\n";
  return kExitDone;
}

std::function<int()> SetUpKeys(CLI::App& app, Streams streams) {
  auto options = std::make_shared<KeysOptions>();
  CLI::App* fresh = app.add_subcommand("new", "Make the keys of a new cluster: a pair for each role");
  fresh->add_option("--out", options->out, "The folder to make")->required()->type_name("DIR");
  CLI::App* renew = app.add_subcommand("renew", "Replace the pair of one role");
  renew->add_option("--keys", options->folder, "The folder of the cluster's keys")->required()->type_name("DIR");
  renew->add_option("role", options->role, "chief, ps, worker, client or viewer")
      ->required()
      ->check(CLI::IsMember({"chief", "ps", "worker", "client", "viewer"}));
  CLI::App* issue = app.add_subcommand("issue", "Make a folder for one more host, with a pair of its own");
  issue->add_option("--keys", options->folder, "The folder of the cluster's keys")->required()->type_name("DIR");
  issue->add_option("--out", options->out, "The folder to make for that host")->required()->type_name("DIR");
  issue->add_option("role", options->role, "worker, client or viewer")
      ->required()
      ->check(CLI::IsMember({"worker", "client", "viewer"}));
  app.require_subcommand(1);
  return [=] {
    return fresh->parsed()   ? New(*options, streams)
           : renew->parsed() ? Renew(*options, streams)
                             : Issue(*options, streams);
  };
}

}  // namespace

const Verb kKeysVerb = {"keys", "Make the keys by which the processes of a cluster know each other",
                        "  downpour keys new --out keys\n"
                        "  downpour keys issue --keys keys worker --out keys-of-h3\n"
                        "  downpour keys issue --keys keys viewer --out keys-of-ann\n"
                        "  downpour keys renew --keys keys worker\n",
                        "0 done, 1 the folder cannot be read or written", SetUpKeys};

}  // namespace downpour
