// downpour-ps: a parameter server in a process of its own.

#include <utility>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "ps/ps_role.h"
#include "runtime/posix/storage.h"
#include "runtime/process/crash_notes.h"
#include "runtime/zmq/member_main.h"
#include "runtime/zmq/role_main.h"

ABSL_DECLARE_FLAG(std::string, chief);
ABSL_FLAG(std::string, job_dir, "", "the job folder; needed where the job says checkpoint.via: shared");
ABSL_FLAG(std::string, crash_notes, "",
          "a file on this host that outlives the process: a push at which two of this task's processes crashed is left "
          "out from then on; empty: a push that crashes its server does so until the job fails");
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "where to listen, HOST:PORT or ipc:///PATH; port 0: the kernel chooses");

int main(int argc, char** argv) {
  using namespace downpour;
  const Usage usage = {"downpour-ps", "holds some of a job's variables and applies what workers push.",
                       "  downpour-ps --chief=10.0.0.1:7000\n"
                       "  downpour-ps --chief=10.0.0.1:7000 --index=1 --listen=127.0.0.1:7001\n",
                       kMemberExitCode};
  if (auto exit_code = BeginMember(argc, argv, usage, "ps")) return *exit_code;
  WarnIfOutOfReach(absl::GetFlag(FLAGS_listen));

  Mailbox mailbox;
  std::unique_ptr<JobStorage> storage;
  if (const std::string folder = absl::GetFlag(FLAGS_job_dir); !folder.empty()) {
    absl::StatusOr<std::unique_ptr<JobStorage>> opened = PosixStorage::Open(folder, &mailbox);
    if (!opened.ok()) return EndMain(opened.status());
    storage = *std::move(opened);
  }
  const std::string notes = absl::GetFlag(FLAGS_crash_notes);
  // Never destroyed: a handler of fatal signals may read it until the process is gone.
  PsRole& role = *new PsRole({.member = MemberOptionsFromFlags(),
                              .has_job_dir = storage != nullptr,
                              .window = {},
                              .crashes = ReadCrashNotes(notes)});
  NoteCrashes(notes, &role.applying());
  return RunRole(role, PeerRole::kPs, absl::GetFlag(FLAGS_listen), {.mailbox = &mailbox, .storage = storage.get()},
                 /*job_dir=*/"", absl::GetFlag(FLAGS_chief));
}
