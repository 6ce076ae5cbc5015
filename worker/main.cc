// downpour-worker: a worker and its device in a process of their own.

#include <cstdlib>

#include "runtime/posix_main.h"
#include "runtime/posix_member.h"
#include "worker/trainer.h"
#include "worker/worker_role.h"

int main(int argc, char** argv) {
  using namespace downpour;
  const Usage usage = {"downpour-worker", "computes gradients for a job and pushes them.",
                       "  downpour-worker --chief=10.0.0.1:7000\n"};
  if (auto exit_code = BeginMember(argc, argv, usage, "worker")) return *exit_code;

  Mailbox mailbox;
  auto trainer = std::make_unique<Trainer>(TrainerOptions{});
  auto options = MemberOptionsFromFlags<WorkerOptions>();
  options.device = trainer->device();
  ComputeThread computer(std::move(trainer), &mailbox);
  WorkerRole role(std::move(options));
  const int exit_code = RunRole(role, /*listen=*/"", {.mailbox = &mailbox, .computer = &computer});
  std::_Exit(exit_code);  // the device may be amid a long request, for which nobody waits any more
}
