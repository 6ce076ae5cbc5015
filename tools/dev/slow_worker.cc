// A worker whose steps take as long as one says: downpour-worker on the CPU but for that. So many workers fit on few
// cores, and one of them can be slower than the others.
//
//   SLOW_STEP_MS=32 SLOW_INDEX=0 SLOW_FACTOR=4 ...   each step takes 32 ms, those of worker-0 four times that
//
// Units: milliseconds, of which the computing is a part; a step that computes for longer takes that long.
// Cost: it sleeps. tests/accuracy/learning.py and straggler.py measure with it.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "model/trainer.h"
#include "runtime/process/compute_thread.h"
#include "runtime/process/glog_setup.h"
#include "runtime/zmq/member_main.h"
#include "runtime/zmq/role_main.h"
#include "tensor/device.h"
#include "worker/worker_role.h"

namespace downpour {
namespace {

int NumberFrom(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  int number = otherwise;
  if (text != nullptr && (!absl::SimpleAtoi(text, &number) || number < 0)) {
    LogError(std::string(variable) + " is no number: " + text);
    std::_Exit(2);
  }
  return number;
}

class SlowComputer final : public Computer {
 public:
  SlowComputer(std::unique_ptr<Computer> computer, std::chrono::milliseconds step)
      : computer_(std::move(computer)), step_(step) {}

  // The gradients are held back, so that nothing of a step leaves before it has taken its time.
  void Run(const ComputeRequest& request, const Done& done) override {
    const bool trains = std::holds_alternative<TrainStep>(request);
    const auto until = std::chrono::steady_clock::now() + (trains ? step_ : std::chrono::milliseconds());
    computer_->Run(request, [&](absl::Status status, ComputeResult result) {
      std::this_thread::sleep_until(until);
      done(std::move(status), std::move(result));
    });
  }

 private:
  std::unique_ptr<Computer> computer_;
  const std::chrono::milliseconds step_;
};

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  using namespace downpour;
  const Usage usage = {"slow_worker", "computes gradients as downpour-worker does, in steps of a given length.",
                       "  SLOW_STEP_MS=32 slow_worker --chief=10.0.0.1:7000\n"};
  if (auto exit_code = BeginMember(argc, argv, usage, "worker")) return *exit_code;
  WorkerOptions options;
  options.member = MemberOptionsFromFlags();
  absl::StatusOr<Device> device = OpenDevice("cpu", options.member.join.index, HostBackendOptions());
  if (!device.ok()) return EndMain(device.status());
  const bool is_slower = options.member.join.index == NumberFrom("SLOW_INDEX", -1);
  const int step = NumberFrom("SLOW_STEP_MS", 0) * (is_slower ? NumberFrom("SLOW_FACTOR", 1) : 1);
  Mailbox mailbox;
  auto trainer = std::make_unique<Trainer>(std::move(device->backend));
  ComputeThread computer(std::make_unique<SlowComputer>(std::move(trainer), std::chrono::milliseconds(step)), &mailbox);
  WorkerRole role(std::move(options));
  const int exit_code = RunRole(role, PeerRole::kWorker, /*listen=*/"", {.mailbox = &mailbox, .computer = &computer});
  std::_Exit(exit_code);  // the device may be amid a step, for which nobody waits any more
}
