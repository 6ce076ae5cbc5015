// downpour-chief: a job's coordinator in a process of its own.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/earlier_job.h"
#include "chief/chief_role.h"
#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "chief/status.h"
#include "chief/status_metrics.h"
#include "runtime/descriptor_need.h"
#include "runtime/exit_code.h"
#include "runtime/http/status_server.h"
#include "runtime/posix/initial_values.h"
#include "runtime/posix/job_file.h"
#include "runtime/posix/keys.h"
#include "runtime/posix/process.h"
#include "runtime/posix/storage.h"
#include "runtime/process/cluster_environment.h"
#include "runtime/process/glog_setup.h"
#include "runtime/zmq/role_main.h"
#include "runtime/zmq/sockets.h"
#include "schema/checkpoint_format.h"
#include "schema/text.h"

ABSL_FLAG(std::string, job, "", "the job file");
ABSL_FLAG(std::string, job_dir, "", "the job folder: what the chief writes lies in it");
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "where to listen, HOST:PORT or ipc:///PATH; port 0: the kernel chooses");
ABSL_FLAG(bool, resume, false, "go on from the newest valid checkpoint in the job folder");
ABSL_FLAG(std::string, give_up, "",
          "TERM-N, the newest checkpoint of the job folder, which cannot be used: begin again");
ABSL_FLAG(downpour::Settings, set, {}, "KEY=VALUE, an entry of the job file to override; may be given several times");
ABSL_FLAG(double, ran_before, 0, "seconds of scheduling.maxRunningTime that were over before the chief was started");
ABSL_FLAG(bool, supervised, false, "whoever starts this also starts tasks that end: nobody is told to type how");
ABSL_FLAG(
    std::string, metrics, "",
    "serve /metrics for Prometheus at ADDRESS:PORT, or at 127.0.0.1:PORT if only PORT is given; port 0: the kernel "
    "chooses. Any address but 127.0.0.1 needs the next three");
ABSL_FLAG(std::string, metrics_token_file, "", "a file of mode 0600 with the token that whoever scrapes sends");
ABSL_FLAG(std::string, metrics_certificate, "", "a PEM file, for TLS");
ABSL_FLAG(std::string, metrics_private_key, "", "the certificate's, a PEM file");
ABSL_FLAG(std::string, command, "", "what people are told to type to start the job again; without, this command line");

namespace {

// `keys`: their folder, which the environment may have named.
std::string CommandToStart(int argc, char** argv, const std::string& keys) {
  if (std::string told = absl::GetFlag(FLAGS_command); !told.empty()) return told;
  std::vector<std::string> words(argv, argv + argc);
  std::erase_if(words,
                [](const std::string& word) { return word.starts_with("--resume") || word.starts_with("--give_up="); });
  if (!keys.empty() && absl::GetFlag(FLAGS_keys).empty()) words.push_back("--keys=" + keys);
  return downpour::ShellCommand(words);
}

downpour::ChiefOptions::Starts WhoStarts() {
  using Starts = downpour::ChiefOptions::Starts;
  if (absl::GetFlag(FLAGS_supervised)) return Starts::kBySupervisor;
  return absl::GetFlag(FLAGS_command).empty() ? Starts::kByHand : Starts::kByCommand;
}

// Null where nobody asked for it. A job does not end because its metrics cannot be had: the chief that takes another
// one's place may find the port taken.
absl::StatusOr<std::unique_ptr<downpour::StatusServer>> ServeMetrics(const std::string& secret,
                                                                     downpour::Mailbox* mailbox) {
  std::string listen = absl::GetFlag(FLAGS_metrics);
  if (listen.empty()) return nullptr;
  if (listen.find(':') == std::string::npos) listen = "127.0.0.1:" + listen;
  auto metrics = std::make_shared<downpour::StatusMetrics>();
  auto server = downpour::StatusServer::Open(
      {.listen = listen,
       .token_file = absl::GetFlag(FLAGS_metrics_token_file),
       .certificate = absl::GetFlag(FLAGS_metrics_certificate),
       .key = absl::GetFlag(FLAGS_metrics_private_key)},
      mailbox, [metrics](const std::string& status) { return metrics->TextOf(status); }, secret);
  if (server.ok()) downpour::LogInfo(absl::StrCat("metrics at ", (*server)->address(), "/metrics"));
  if (server.ok()) return server;
  const std::string why = absl::StrCat("--metrics: ", std::string(server.status().message()));
  if (!absl::IsUnavailable(server.status())) return absl::InvalidArgumentError(why);
  downpour::LogWarning(absl::StrCat(why, "; the job runs without"));
  return nullptr;
}

// Whether the chief will begin another run in the folder, as Startup judges it: only then what slices begin with is
// staged. A job that goes on keeps what it began with, though the file may have changed since.
bool BeginsAnew(const std::string& folder) {
  uint64_t newest = 0;
  bool is_known = false;
  for (const char* name : {"/journal.a", "/journal.b"}) {
    std::ifstream file(folder + name, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    const absl::StatusOr<std::string> line = downpour::Unsealed(text.str());
    const absl::StatusOr<downpour::JournalEntry> entry =
        line.ok() ? downpour::DecodeEntry(*line) : absl::StatusOr<downpour::JournalEntry>(line.status());
    if (!entry.ok()) is_known |= newest == 0 && file.is_open();  // Startup says so
    if (!entry.ok() || entry->number <= newest) continue;
    newest = entry->number;
    is_known = entry->record.ended.empty();
  }
  std::error_code none;
  if (newest == 0) is_known |= std::filesystem::exists(absl::StrCat(folder, "/", downpour::kSummaryFile), none);
  for (const auto& round : std::filesystem::directory_iterator(folder + "/" + downpour::kCheckpointsDir, none)) {
    is_known |= std::filesystem::exists(round.path() / downpour::kManifestName, none);
  }
  return !is_known;
}

// What the job begins with, if its file names that and it is to begin. Returns what to exit with: 78 where the job
// file, or the file that it names, is to blame.
std::optional<int> StageWhatItBeginsWith(const downpour::JobSpec& job, const std::string& folder) {
  if (job.model.initialize_from.empty() || !BeginsAnew(folder)) return std::nullopt;
  const bool of_earlier_job = downpour::BeginsWithEarlierJob(job);
  const absl::StatusOr<std::string> note =
      of_earlier_job ? downpour::StageFromEarlierJob(job, folder) : downpour::StageInitialValues(job, folder);
  const absl::Status& status = note.status();
  const std::string whose = job.model.is_own() && !of_earlier_job ? "initial values: " : "model.initializeFrom: ";
  const auto sentence = [&whose](const std::string& words) { return whose + words; };
  if (!status.ok()) {
    const int exit_code = downpour::EndMain(absl::Status(status.code(), sentence(std::string(status.message()))));
    return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? downpour::kExitBadJobFile : exit_code;
  }
  downpour::LogInfo(sentence(*note));
  return std::nullopt;
}

downpour::Duration RanBefore() {
  constexpr double kMost = 1e9;  // seconds; no number of a command line is to go beyond what a Duration holds
  const double seconds = absl::GetFlag(FLAGS_ran_before);
  return std::chrono::duration_cast<downpour::Duration>(
      std::chrono::duration<double>(seconds > 0 ? std::min(seconds, kMost) : 0));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace downpour;
  const Usage usage = {"downpour-chief", "hands out a job's data, coordinates its checkpoints, answers how it goes.",
                       "  downpour-chief --job=mnist.yaml --job_dir=/jobs/mnist --listen=127.0.0.1:7000\n"
                       "  downpour-chief --job=mnist.yaml --job_dir=/jobs/mnist --resume\n",
                       "124 the job was out of time"};
  if (auto exit_code = ParseFlags(argc, argv, usage)) return *exit_code;
  if (auto exit_code = FillFlags(usage, TaskType::kChief)) return *exit_code;
  if (auto exit_code = BeginTask(usage, "chief")) return *exit_code;

  const auto complain = [](const std::string& what) {
    std::cerr << "downpour-chief: " << what << "; --help shows examples\n";
    return kExitBadCommandLine;
  };
  if (absl::GetFlag(FLAGS_job).empty()) return complain("--job=FILE and --job_dir=FOLDER are needed");
  const JobFileResult job = LoadJobFile(absl::GetFlag(FLAGS_job), absl::GetFlag(FLAGS_set).items);
  for (const JobError& warning : job.warnings) std::cerr << "warning: " << ToString(warning) << "\n";
  for (const JobError& error : job.errors) std::cerr << ToString(error) << "\n";
  if (!job.ok()) return kExitBadJobFile;
  const std::string named = absl::GetFlag(FLAGS_job_dir).empty() ? job.job_dir : absl::GetFlag(FLAGS_job_dir);
  if (named.empty()) return complain("--job_dir=FOLDER is needed");
  // Absolute, since others are told of it whose working folder is another.
  const std::string folder = std::filesystem::absolute(named).lexically_normal();

  const std::string abandoned = absl::GetFlag(FLAGS_give_up);
  const absl::StatusOr<Round> give_up = abandoned.empty() ? Round() : ParseRound(abandoned);
  if (!give_up.ok()) return complain(absl::StrCat("--give_up: ", std::string(give_up.status().message())));

  const uint64_t descriptors = RaiseDescriptorLimit();
  const absl::Status enough = CheckDescriptors(TaskRole::kChief, job.job.cluster, descriptors);
  if (!enough.ok()) return EndMain(enough);

  // Whatever the command line is to blame for is found before anything is written into the folder.
  const absl::StatusOr<SharedFlags> shared = ReadSharedFlags(PeerRole::kChief, folder);
  if (!shared.ok()) return EndMain(shared.status());
  std::string keys = shared->keys_folder;
  if (!keys.empty()) keys = std::filesystem::absolute(keys).lexically_normal();
  const std::string listen = absl::GetFlag(FLAGS_listen);
  if (const absl::Status status = CheckListenable(listen, !keys.empty()); !status.ok()) return EndMain(status);
  Mailbox mailbox;
  absl::StatusOr<std::unique_ptr<JobStorage>> storage = PosixStorage::Open(folder, &mailbox);
  if (!storage.ok()) return EndMain(storage.status());
  if (const absl::Status status = (*storage)->Lock(); !status.ok()) return EndMain(status);
  if (absl::GetFlag(FLAGS_log_dir).empty()) {  // members' lines come here too: one folder has the logs of all
    if (const absl::Status status = AlsoLogTo(folder + "/logs", "chief"); !status.ok()) return EndMain(status);
  }
  if (const std::optional<int> exit_code = StageWhatItBeginsWith(job.job, folder)) return *exit_code;

  // Whoever comes without keys may be any user of this host.
  const std::string secret = AdmitsByKey(listen, !keys.empty()) ? "" : RandomSecret();
  const absl::StatusOr<std::unique_ptr<StatusServer>> metrics = ServeMetrics(secret, &mailbox);
  if (!metrics.ok()) return EndMain(metrics.status());
  ChiefRole role({.job = job.job,
                  .job_dir = folder,
                  .host = HostName(),
                  .pid = static_cast<uint32_t>(getpid()),
                  .command = CommandToStart(argc, argv, keys),
                  .keys = keys,
                  .secrets = SecretsIn(keys),
                  .secret = secret,
                  .starts = WhoStarts(),
                  .descriptors = descriptors,
                  .resume = absl::GetFlag(FLAGS_resume),
                  .give_up = *give_up,
                  .nonce = RandomNonce(),
                  .ran_before = RanBefore(),
                  .timing = {}});
  return RunRole(role, PeerRole::kChief, listen,
                 {.mailbox = &mailbox, .storage = storage->get(), .status_server = metrics->get()}, folder);
}
