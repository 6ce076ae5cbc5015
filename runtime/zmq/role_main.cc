#include "runtime/zmq/role_main.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "runtime/exit_code.h"
#include "runtime/posix/process.h"
#include "runtime/process/glog_setup.h"
#include "runtime/process/glog_warning_tap.h"
#include "runtime/process/spot_notice.h"
#include "runtime/process/stop_signals.h"

ABSL_FLAG(std::string, log_dir, "", "log to FOLDER/TASK.log instead of to stderr and to the chief");
ABSL_FLAG(
    std::string, keys, "",
    "the folder of this cluster's keys; else DOWNPOUR_KEYS in the environment, else keys in the chief's job folder, "
    "else none");
ABSL_FLAG(std::string, trace_dir, "", "write FOLDER/TASK.trace: what took effect where, for tools/dev/ledger_check");

namespace downpour {
namespace {

std::string PresetMetadataServer() {
  const char* server = std::getenv("DOWNPOUR_METADATA_SERVER");
  return server != nullptr ? server : SpotNotice::kServer;
}

}  // namespace
}  // namespace downpour

ABSL_FLAG(std::string, metadata_server, downpour::PresetMetadataServer(),
          "where the cloud says that it takes this machine away, which stops the task in good order; empty: nobody is "
          "asked. The environment's DOWNPOUR_METADATA_SERVER is the default");
ABSL_FLAG(bool, share_memory, downpour::SharedArena::IsWanted(),
          "a ps and those that pull from it on the same host say what they say through memory that both see; false, or "
          "DOWNPOUR_SHARE_MEMORY=0 in the environment: over their connection, as on two hosts");

namespace downpour {
namespace {

std::string& TaskName() {
  static std::string& name = *new std::string;
  return name;
}

std::optional<StopSignals>& Signals() {
  static std::optional<StopSignals> signals;
  return signals;
}

std::optional<WarningTap>& Warnings() {
  static std::optional<WarningTap> warnings;
  return warnings;
}

// ZeroMQ's end sends what was said last. It would also wait for a name being looked up, which may take a minute.
void Discard(std::unique_ptr<ZmqDriver> driver) {
  constexpr auto kLongest = std::chrono::seconds(2);
  std::promise<void> gone;
  const std::future<void> end = gone.get_future();
  std::thread([driver = std::move(driver), gone = std::move(gone)]() mutable {
    driver.reset();
    gone.set_value();
  }).detach();
  end.wait_for(kLongest);
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

std::optional<int> BeginTask(const Usage& usage, const std::string& task) {
  TaskName() = task;
  Signals().emplace();
  if (const absl::Status status = SetUpLogging(usage.program.c_str(), absl::GetFlag(FLAGS_log_dir), task);
      !status.ok()) {
    std::cerr << usage.program << ": " << status.message() << "\n";
    return kExitFailed;
  }
  Warnings().emplace();
  KeepFreedMemory();
  return std::nullopt;
}

absl::StatusOr<SharedFlags> ReadSharedFlags(PeerRole self, const std::string& job_dir) {
  SharedFlags flags{.keys_folder = KeysFolder(absl::GetFlag(FLAGS_keys), job_dir),
                    .keys = std::nullopt,
                    .metadata_server = absl::GetFlag(FLAGS_metadata_server)};
  if (!flags.metadata_server.empty()) {
    if (const absl::Status status = SpotNotice::Check(flags.metadata_server); !status.ok()) return status;
  }
  absl::StatusOr<std::optional<KeyRing>> keys = KeysIn(flags.keys_folder, self);
  if (!keys.ok()) return absl::InvalidArgumentError(keys.status().message());
  flags.keys = *std::move(keys);
  return flags;
}

int RunRole(Role& role, PeerRole self, const std::string& listen, DriverWorld world, const std::string& job_dir,
            const std::string& chief) {
  absl::StatusOr<SharedFlags> flags = ReadSharedFlags(self, job_dir);
  if (!flags.ok()) return EndMain(flags.status());
  absl::StatusOr<std::optional<TraceFile>> trace = OpenTrace();
  if (!trace.ok()) return EndMain(trace.status());
  ServiceManager service = ServiceManager::FromEnvironment();
  world.service = &service;
  std::optional<SpotNotice> spot;
  if (!flags->metadata_server.empty()) {
    spot.emplace(flags->metadata_server, SpotNotice::Pace(), [mailbox = world.mailbox](const std::string& notice) {
      mailbox->Post(StopRequested{SIGTERM, notice});
    });
  }
  if (trace->has_value()) world.trace = &**trace;
  if (self != PeerRole::kChief) {
    if (absl::GetFlag(FLAGS_share_memory)) {
      world.memory = &SharedArena::OfThisProcess();
    } else {
      LogInfo("shares no memory with processes of this host, since --share_memory is false");
    }
  }
  absl::StatusOr<std::unique_ptr<ZmqDriver>> driver = ZmqDriver::Open(
      {.listen = listen, .chief = chief, .keys = flags->keys, .keys_folder = flags->keys_folder}, world);
  if (!driver.ok()) return EndMain(driver.status());
  Signals()->DeliverTo(world.mailbox);  // which somebody reads from here on
  Warnings()->DeliverTo(world.mailbox);
  const int exit_code = (*driver)->Run(role);
  Signals().reset();  // before the mailbox goes
  Warnings().reset();
  Discard(*std::move(driver));
  return exit_code;
}

int EndMain(const absl::Status& status) {
  LogError(std::string(status.message()));
  const bool command_line = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  return command_line ? kExitBadCommandLine : kExitFailed;
}

}  // namespace downpour
