#include "runtime/zmq/member_main.h"

#include <unistd.h>

#include <iostream>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "runtime/exit_code.h"
#include "runtime/posix/process.h"
#include "runtime/process/cluster_environment.h"
#include "runtime/process/glog_setup.h"
#include "runtime/zmq/role_main.h"
#include "runtime/zmq/sockets.h"
#include "schema/host_port.h"

ABSL_FLAG(std::string, chief, "", "where the chief listens, HOST:PORT");
ABSL_FLAG(int32_t, index, -1, "number of this task among its kind; -1 takes a free one");
ABSL_FLAG(std::string, launcher, "", "the same for all tasks that one supervisor starts");
ABSL_FLAG(uint32_t, attempt, 0, "how often that supervisor started this task before: replaces it at once");

namespace downpour {
namespace {

absl::Status CheckMemberFlags(PeerRole self) {
  const std::string chief = absl::GetFlag(FLAGS_chief);
  if (chief.empty()) {
    return absl::InvalidArgumentError(
        "--chief=HOST:PORT is missing: where does the chief listen? --cluster=FILE or TF_CONFIG may tell, too");
  }
  if (const absl::Status status = CheckDialable(chief); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--chief: ", status.message()));
  }
  if (const int32_t index = absl::GetFlag(FLAGS_index); index < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--index=", index, ": tasks are numbered from 0; -1 takes a free number"));
  }
  return ReadSharedFlags(self).status();
}

// Without an index the name is not known before the chief gives one; the pid tells files apart meanwhile.
std::string NameOfTask(const std::string& kind) {
  const int32_t index = absl::GetFlag(FLAGS_index);
  return index >= 0 ? absl::StrCat(kind, "-", index) : absl::StrCat(kind, "-pid", getpid());
}

}  // namespace

std::optional<int> BeginMember(int argc, const char* const* argv, const Usage& usage, const std::string& kind) {
  if (auto exit_code = ParseFlags(argc, argv, usage)) return exit_code;
  const bool is_ps = kind == "ps";
  if (auto exit_code = FillFlags(usage, is_ps ? TaskType::kPs : TaskType::kWorker)) return exit_code;
  if (const absl::Status status = CheckMemberFlags(is_ps ? PeerRole::kPs : PeerRole::kWorker); !status.ok()) {
    std::cerr << usage.program << ": " << status.message() << "\n";
    return kExitBadCommandLine;
  }
  return BeginTask(usage, NameOfTask(kind));
}

std::string OutOfReach(const std::string& chief, const std::string& listen) {
  const auto is_local = [](const std::string& endpoint) {
    const std::optional<HostPort> address = ParseHostPort(endpoint);
    return !address || address->host == "localhost" || address->host == HostName() || IsLoopback(address->host);
  };
  if (is_local(chief) || !is_local(listen)) return "";
  return absl::StrCat("listens at ", listen, ", where only workers of this machine reach it, though its chief is at ",
                      chief, "; for workers elsewhere give --listen=ADDRESS:0 and keys");
}

void WarnIfOutOfReach(const std::string& listen) {
  const std::string warning = OutOfReach(absl::GetFlag(FLAGS_chief), listen);
  if (!warning.empty()) LogWarning(warning);
}

MemberOptions MemberOptionsFromFlags() {
  MemberOptions options;
  options.chief = absl::GetFlag(FLAGS_chief);
  options.join.index = absl::GetFlag(FLAGS_index);
  options.join.host = HostName();
  options.join.pid = static_cast<uint32_t>(getpid());
  options.join.launcher = absl::GetFlag(FLAGS_launcher);
  options.join.attempt = absl::GetFlag(FLAGS_attempt);
  options.join.nonce = RandomNonce();
  options.descriptors = RaiseDescriptorLimit();
  options.forward_logs = absl::GetFlag(FLAGS_log_dir).empty();
  return options;
}

}  // namespace downpour
