#include "runtime/posix_main.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <system_error>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "runtime/exit_code.h"
#include "runtime/glog_setup.h"
#include "runtime/posix_process.h"
#include "runtime/zmq_sockets.h"

ABSL_FLAG(std::string, chief, "", "where the chief listens, HOST:PORT (ps and worker)");
ABSL_FLAG(int32_t, index, -1, "number of this task among its kind; -1 takes a free one");
ABSL_FLAG(std::string, job_dir, "",
          "the job folder; ps and worker need none unless the job says checkpoint.via: shared");
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "where to listen, HOST:PORT or ipc:///PATH; port 0: the kernel chooses");
ABSL_FLAG(std::string, launcher, "", "the same for all tasks that one supervisor starts");
ABSL_FLAG(uint32_t, attempt, 0, "how often that supervisor started this task before: replaces it at once");
ABSL_FLAG(std::string, log_dir, "", "log to FOLDER/TASK.log instead of to stderr and to the chief");
ABSL_FLAG(std::string, trace_dir, "", "write FOLDER/TASK.trace: what took effect where, for tools/ledger_check");

namespace downpour {
namespace {

std::string& TaskName() {
  static std::string& name = *new std::string;
  return name;
}

// Without an index the name is not known before the chief gives one; the pid tells files apart meanwhile.
std::string NameOfTask(TaskRole role) {
  if (role == TaskRole::kChief) return "chief";
  const int32_t index = absl::GetFlag(FLAGS_index);
  return absl::StrCat(role == TaskRole::kPs ? "ps-" : "worker-", index >= 0 ? absl::StrCat(index) : "",
                      index >= 0 ? "" : absl::StrCat("pid", getpid()));
}

absl::Status CheckMemberFlags() {
  const std::string chief = absl::GetFlag(FLAGS_chief);
  if (chief.empty()) {
    return absl::InvalidArgumentError("--chief=HOST:PORT is missing: where does the chief listen?");
  }
  if (const absl::Status status = CheckDialable(chief); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--chief: ", status.message()));
  }
  if (const int32_t index = absl::GetFlag(FLAGS_index); index < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--index=", index, ": tasks are numbered from 0; -1 takes a free number"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TraceFile>> OpenTrace() {
  const std::string folder = absl::GetFlag(FLAGS_trace_dir);
  if (folder.empty()) return std::optional<TraceFile>();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  // A process that is started again has a file of its own: a line cut short by a kill stays the last of its file.
  absl::StatusOr<TraceFile> file = TraceFile::Open(absl::StrCat(folder, "/", TaskName(), ".", getpid(), ".trace"));
  if (!file.ok()) return file.status();
  return std::optional<TraceFile>(*std::move(file));
}

}  // namespace

std::optional<int> BeginMain(int argc, const char* const* argv, const Usage& usage, TaskRole role) {
  if (auto exit_code = ParseFlags(argc, argv, usage)) return exit_code;
  if (role != TaskRole::kChief) {
    if (const absl::Status status = CheckMemberFlags(); !status.ok()) {
      std::cerr << usage.program << ": " << status.message() << "\n";
      return kExitBadCommandLine;
    }
  }
  TaskName() = NameOfTask(role);
  if (const absl::Status status = SetUpLogging(argv[0], absl::GetFlag(FLAGS_log_dir), TaskName()); !status.ok()) {
    std::cerr << usage.program << ": " << status.message() << "\n";
    return kExitFailed;
  }
  KeepFreedMemory();
  return std::nullopt;
}

MemberFacts MemberFactsFromFlags() {
  return {.chief = absl::GetFlag(FLAGS_chief),
          .index = absl::GetFlag(FLAGS_index),
          .host = HostName(),
          .pid = static_cast<uint32_t>(getpid()),
          .launcher = absl::GetFlag(FLAGS_launcher),
          .attempt = absl::GetFlag(FLAGS_attempt),
          .nonce = RandomNonce(),
          .forward_logs = absl::GetFlag(FLAGS_log_dir).empty()};
}

int RunRole(Role& role, const std::string& listen, DriverWorld world) {
  absl::StatusOr<std::optional<TraceFile>> trace = OpenTrace();
  if (!trace.ok()) return EndMain(trace.status());
  StopSignals signals;
  world.signals = &signals;
  if (trace->has_value()) world.trace = &**trace;
  absl::StatusOr<std::unique_ptr<ZmqDriver>> driver = ZmqDriver::Open({.listen = listen}, world);
  if (!driver.ok()) return EndMain(driver.status());
  return (*driver)->Run(role);
}

int EndMain(const absl::Status& status) {
  LogError(std::string(status.message()));
  const bool command_line = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  return command_line ? kExitBadCommandLine : kExitFailed;
}

}  // namespace downpour
