// downpour-worker: a worker and its device in a process of their own.

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "model/trainer.h"
#include "runtime/posix/code_cache.h"
#include "runtime/process/glog_setup.h"
#include "runtime/process/nvml_monitor.h"
#include "runtime/zmq/member_main.h"
#include "runtime/zmq/role_main.h"
#include "tensor/device.h"
#include "worker/job_computer.h"
#include "worker/python/python_computer.h"
#include "worker/worker_role.h"

ABSL_FLAG(std::string, device, "auto",
          "where to compute: cpu, cuda:N, or auto: of the GPUs that answer the one numbered --index modulo how many "
          "there are, which is fair among workers numbered one after the other on each host; where no GPU answers cpu");

ABSL_FLAG(std::string, python, "",
          "the Python that runs the code of a job that has some: a path, or a name that PATH finds; default: the "
          "environment variable DOWNPOUR_PYTHON, else python3");

ABSL_DECLARE_FLAG(std::string, cluster);

ABSL_FLAG(std::string, code_folder, "",
          "where the Python code of jobs is unpacked, for all workers of this user here; default: below ~/.cache");

namespace {

std::string Interpreter() {
  const char* const named = std::getenv("DOWNPOUR_PYTHON");
  if (const std::string flag = absl::GetFlag(FLAGS_python); !flag.empty()) return flag;
  return named != nullptr && *named != '\0' ? named : "python3";
}

// Which GPUs the user's Python code sees: with auto, all of them.
std::vector<std::pair<std::string, std::string>> VisibleGpus(const std::string& wish) {
  const std::string cuda = "cuda:";
  if (wish == "cpu") return {{"CUDA_VISIBLE_DEVICES", ""}};
  if (!wish.starts_with(cuda)) return {};
  return {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES", wish.substr(cuda.size())}};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace downpour;
  const Usage usage = {"downpour-worker", "computes gradients for a job and pushes them.",
                       "  downpour-worker --chief=10.0.0.1:7000\n"
                       "  downpour-worker --chief=10.0.0.1:7000 --device=cuda:1\n",
                       kMemberExitCode};
  if (auto exit_code = BeginMember(argc, argv, usage, "worker")) return *exit_code;

  WorkerOptions options;
  options.member = MemberOptionsFromFlags();
  absl::StatusOr<Device> device =
      OpenDevice(absl::GetFlag(FLAGS_device), options.member.join.index, HostBackendOptions());
  if (!device.ok()) {
    return EndMain(absl::Status(device.status().code(), absl::StrCat("--device: ", device.status().message())));
  }
  LogInfo(device->Describe());
  NvmlMonitor gpu(device->backend->pci_address());

  Mailbox mailbox;
  auto trainer = std::make_unique<Trainer>(std::move(device->backend));
  options.member.join.device = trainer->device();
  const std::string code_folder = absl::GetFlag(FLAGS_code_folder);
  const bool is_launched = absl::GetFlag(FLAGS_cluster) != "none" && std::getenv("TF_CONFIG") != nullptr;
  auto python = std::make_unique<PythonComputer>(
      PythonOptions{.interpreter = Interpreter(),
                    .code_folder = code_folder.empty() ? DefaultCodeFolder() : code_folder,
                    .environment = VisibleGpus(absl::GetFlag(FLAGS_device)),
                    .chief = options.member.chief,
                    .has_tf_config = is_launched});
  ComputeThread computer(std::make_unique<JobComputer>(std::move(trainer), std::move(python)), &mailbox);
  WorkerRole role(std::move(options));
  const int exit_code =
      RunRole(role, PeerRole::kWorker, /*listen=*/"", {.mailbox = &mailbox, .computer = &computer, .gpu = &gpu});
  std::_Exit(exit_code);  // the device may be amid a long request, for which nobody waits any more
}
