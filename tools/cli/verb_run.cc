#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "checkpoint/checkpoint_reader.h"
#include "cluster/human_units.h"
#include "cluster/job_folder.h"
#include "cluster/local_run.h"
#include "cluster/output_options.h"
#include "cluster/private_folder.h"
#include "cluster/status_table.h"
#include "job/job_file.h"
#include "runtime/posix/job_file.h"
#include "runtime/posix/keys.h"
#include "runtime/posix/process.h"
#include "runtime/posix/whole_file.h"
#include "runtime/process/child.h"
#include "runtime/zmq/sockets.h"
#include "schema/text.h"
#include "tools/cli/checkpoint_option.h"
#include "tools/cli/data_facts.h"
#include "tools/cli/doctor_job.h"
#include "tools/cli/folder_claim.h"
#include "tools/cli/job_options.h"
#include "tools/cli/job_warnings.h"
#include "tools/cli/python_code.h"
#include "tools/cli/staged_code.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kHere = "127.0.0.1:0";  // where this machine alone takes part

struct RunOptions {
  JobOptions job;
  PythonCode code;   // as the command line says it
  PythonCode whole;  // with what files say of it
  std::string job_dir;
  std::string listen = kHere;
  std::string keys;
  bool resume = false;
  std::string give_up;
  // As the chief's flags, which have underscores for hyphens.
  std::vector<std::pair<std::string, std::string>> metrics = {
      {"metrics", ""}, {"metrics-token-file", ""}, {"metrics-certificate", ""}, {"metrics-private-key", ""}};
  bool trace = false;
  bool quiet = false;
  ColorChoice color = ColorChoice::kAuto;
};

// How this program was called, so that what is printed can be typed.
std::string Self() { return ShellWord(program_invocation_name); }

// runs/NAME-20250131-235959
std::string FreshJobDir(const std::string& job_name) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  return absl::StrCat("runs/", job_name, "-", stamp);
}

// What starts this job again; with --resume it goes on.
std::string CommandOf(const RunOptions& options) {
  const std::string& file = options.job.job_file;  // -odd.yaml would be taken for an option
  std::vector<std::string> words = {program_invocation_name, "run", file.starts_with("-") ? "./" + file : file,
                                    "--job-dir", options.job_dir};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (options.listen != kHere) add({"--listen", options.listen});
  if (!options.keys.empty()) add({"--keys", options.keys});
  for (const auto& [name, value] : options.metrics) {
    if (!value.empty()) add({"--" + name, value});
  }
  if (options.trace) add({"--trace"});
  if (!options.job.config_file.empty()) add({"--config", options.job.config_file});
  if (!options.job.scale_tier.empty()) add({"--scale-tier", options.job.scale_tier});
  for (const std::string& pair : options.job.settings) add({"--set", pair});
  if (const PythonCode& code = options.code; !options.whole.module.empty()) {
    if (!code.package_path.empty()) add({"--package-path", code.package_path});
    for (const std::string& package : code.packages) add({"--packages", package});
    if (!code.module.empty()) add({"--module-name", code.module});
    if (code.interpreter != PythonCode().interpreter) add({"--python", code.interpreter});
    if (!code.args.empty()) add({"--"});
    words.insert(words.end(), code.args.begin(), code.args.end());
  }
  return ShellCommand(words);
}

// Why the job did not succeed, and how to go on. The chief's summary says both; its log, why it refused to begin.
std::string WhyItFailed(const RunOptions& options, const RunResult& result) {
  const std::string how_to_go_on = HowToGoOn(NewestCheckpoint(options.job_dir), CommandOf(options));
  if (result.summary) {
    const bool cancelled = result.summary->state == "CANCELLED";
    return absl::StrCat("the job ", cancelled ? "was cancelled: " : "failed: ", result.summary->error);
  }
  if (!result.cause.empty()) return absl::StrCat("the job failed: ", result.cause, ". ", how_to_go_on);
  if (result.stop_signal == 0) return LastWordIn(options.job_dir, kChiefTask);
  const std::string dropped =
      result.leases_dropped == 0
          ? ""
          : absl::StrCat("; no chief wrote the last checkpoint: ", Counted(result.leases_dropped, "committed lease"),
                         " at least will be computed again");
  return absl::StrCat("stopped by ", DescribeSignal(result.stop_signal), dropped, ". ", how_to_go_on);
}

int ReportFailure(const RunOptions& options, const RunResult& result, Streams streams) {
  streams.err << "downpour run: " << Printable(WhyItFailed(options, result), kMaxJobTextBytes) << "\n";
  if (result.chief_exit == kExitBadJobFile) return kExitBadJobFile;
  streams.err << "Logs: " << Self() << " logs --job-dir " << ShellWord(options.job_dir) << "\n";
  if (result.stop_signal != 0) return kExitSignalled + result.stop_signal;
  const bool cancelled = result.summary && result.summary->state == "CANCELLED";
  return cancelled ? result.chief_exit.value_or(kExitFailed) : kExitFailed;
}

int Report(const RunOptions& options, const RunResult& result, Streams streams) {
  if (result.chief_exit != kExitDone) return ReportFailure(options, result, streams);
  if (!result.summary && !std::filesystem::exists(options.job_dir + "/summary.json")) {
    return Complain(streams, "run",
                    absl::StrCat("the job has ended, but nothing of it is left in ", options.job_dir,
                                 ": something removed that folder, such as the program behind fit()"),
                    kExitFailed);
  }
  if (!result.summary)
    return Complain(streams, "run", LastWordIn(options.job_dir, kChiefTask), kExitDone);  // it was done before
  const bool color = ExamineTerminal(STDOUT_FILENO, options.color).color;
  const std::string job_dir = ShellWord(options.job_dir);
  streams.out << SummaryTable(*result.summary, color) << "Job folder: " << options.job_dir << "\n"
              << "Next:       " << Self() << " status --job-dir " << job_dir << "\n";
  // Only a worker can run the user's Python code.
  if (options.whole.module.empty())
    streams.out << "            " << Self() << " evaluate --job-dir " << job_dir << "\n";
  streams.out << "            " << Self() << " export --format safetensors --job-dir " << job_dir
              << " --out model.safetensors\n";
  return kExitDone;
}

// Whether the folder may take this run. Its chief will ask likewise; here nothing is written yet.
absl::Status CheckJobDir(const RunOptions& options, const JobSpec& job) {
  const std::string checkpoint = NewestCheckpoint(options.job_dir);
  if (!checkpoint.empty() && !options.resume && options.give_up.empty()) {
    return absl::AlreadyExistsError(absl::StrCat(options.job_dir, " already holds a job (", checkpoint,
                                                 "): go on with it by --resume, or choose another --job-dir"));
  }
  return CheckPlanIn(options.job_dir, job);
}

// Who is let in: on this machine alone its user; where others can reach the chief, whoever has the cluster's
// keys, which are made where none are named.
absl::Status Secure(const RunOptions& options, const PrivateFolder& sockets, LocalCluster* cluster) {
  cluster->listen = options.listen;
  cluster->keys = KeysFolder(options.keys, options.job_dir);
  if (CheckListenable(options.listen).ok()) {
    cluster->sockets = sockets.path();
    return CheckSockets(cluster->sockets, cluster->servers);
  }
  if (!cluster->keys.empty()) return absl::OkStatus();
  cluster->keys = KeysOfJob(options.job_dir);
  return WriteNewKeys(cluster->keys);
}

// Every task runs here, so what they would find wrong with their files is found before anything starts. Not where the
// job `has_begun`, with a copy of what it began with. Nor where the user's Python code has just made that.
bool HasItsData(const JobFileResult& job, bool has_begun, Streams streams) {
  const DataFacts facts = LookAtData(job);
  TellWarnings("run", job, facts, streams);
  bool is_good = true;
  for (const auto* errors : {&facts.absences, &facts.errors}) {
    for (const JobError& error : *errors) {
      if (has_begun && error.key == kInitializeFrom) continue;
      streams.err << ToString(error) << "\n";
      is_good = false;
    }
  }
  return is_good;
}

// Whether this host lets a cluster run at all.
absl::Status CheckHost(const JobSpec& job, LocalCluster* cluster) {
  if (const std::string why = WhyFilesEndEarly(FileSizeLimit(), LargestFileOf(job)); !why.empty()) {
    return absl::FailedPreconditionError(why);
  }
  return FindPrograms(fs::read_symlink("/proc/self/exe").parent_path(), cluster);
}

// The job's folder, before the job is known: the code in it is part of the job.
std::string JobDirOf(const RunOptions& options) {
  if (!options.job_dir.empty()) return options.job_dir;
  const JobFileResult file = LoadJobFile(options.job.job_file);
  const std::string named =
      options.job.config_file.empty() ? file.job_dir : LoadConfigFile(options.job.config_file).job_dir;
  return named.empty() ? FreshJobDir(file.job.name) : named;
}

// The folder, for as long as this run is at work. One that cannot be resumed is not made.
absl::Status Claim(const RunOptions& options, FolderClaim* claim) {
  const absl::Status readable = options.resume ? CheckJobFolder(options.job_dir) : absl::OkStatus();
  if (!readable.ok() && !absl::IsNotFound(readable)) return readable;
  if (options.resume && !HoldsJob(options.job_dir)) {
    return absl::NotFoundError(absl::StrCat("there is no job in ", options.job_dir,
                                            " to go on with: correct --job-dir, or begin one without --resume"));
  }
  return claim->Take(options.job_dir);
}

// Runs the user's Python code, if there is some, up to the model that it makes. Returns an exit code.
int DescribeCode(const std::string& folder, RunOptions* options, FolderClaim* claim, Streams streams) {
  absl::StatusOr<CodeOfFiles> of_files = AddCodeOfFiles(options->job, options->code, Store::kNone);
  if (!of_files.ok()) {
    streams.err << of_files.status().message() << "\n";
    return kExitBadJobFile;
  }
  PythonCode& code = options->whole = std::move(of_files->code);
  if (const std::string why = WhyNoCode(code); !why.empty()) return Complain(streams, "run", why, kExitBadCommandLine);
  if (code.module.empty()) return kExitDone;
  options->job_dir = fs::absolute(JobDirOf(*options)).lexically_normal();
  if (const absl::Status claimed = Claim(*options, claim); !claimed.ok()) {
    return Complain(streams, "run", std::string(claimed.message()), kExitFailed);
  }
  claim->Say("its Python code has not called downpour.fit yet. After 30 s `downpour run` says at which line it is");
  const absl::Cleanup is_known = [claim] { claim->Say(""); };
  if (of_files->has_job_dir) code.args.insert(code.args.end(), {"--job-dir", options->job_dir});
  absl::StatusOr<PythonJob> python = DescribePythonCode(code, KnownOf(options->job), folder, options->job_dir);
  if (!python.ok()) {
    return Complain(streams, "run", std::string(python.status().message()), ExitCodeOfCode(python.status()));
  }
  options->job.of_code = *std::move(python);
  return kExitDone;
}

// Copies the user's Python code into the job folder, with the job that it made.
absl::Status Stage(const RunOptions& options, const JobSpec& job, const std::string& description,
                   LocalCluster* cluster) {
  if (options.whole.module.empty()) return absl::OkStatus();
  const auto staged =
      StagePythonCode(options.job.of_code.archive, job, description, options.job_dir, Accepted::kOnceAChiefLeads);
  if (!staged.ok()) return staged.status();
  cluster->job_file = *staged;
  cluster->overrides.clear();
  cluster->python = options.whole.interpreter;
  return absl::OkStatus();
}

// The job file of Python code names no model: the code does, and the command that resumes such a job names the code.
int SayWhichCodeIsMissing(const RunOptions& options, Streams streams) {
  if (!options.resume || !options.whole.module.empty()) return kExitBadJobFile;
  const std::string module = LoadJobFile(PythonFolder(options.job_dir) + "/job.json").job.python.module;
  if (module.empty()) return kExitBadJobFile;
  return Complain(streams, "run",
                  absl::StrCat(options.job_dir, " holds a job of Python code: give --module-name ", module,
                               " again, with the --package-path or --packages that it was started with"),
                  kExitBadJobFile);
}

std::vector<std::string> ChiefFlags(const RunOptions& options, const JobSpec& job, Clock::time_point begun) {
  std::vector<std::string> flags;
  for (const auto& [name, value] : options.metrics) {
    if (value.empty()) continue;
    flags.push_back(absl::StrCat("--", absl::StrReplaceAll(name, {{"-", "_"}}), "=", value));
  }
  // The clock of scheduling.maxRunningTime has run while the code came to its model.
  if (!options.whole.module.empty() && job.scheduling.max_running_time != Clock::duration::zero()) {
    const std::chrono::duration<double> ran = Clock::now() - begun;
    flags.push_back(absl::StrFormat("--ran_before=%.3f", ran.count()));
  }
  return flags;
}

int RunCluster(RunOptions options, Streams streams) {
  const Clock::time_point begun = Clock::now();
  std::signal(SIGPIPE, SIG_IGN);  // whoever read our words may go away; the job goes on
  if (const absl::Status status = CheckListenable(options.listen, /*with_keys=*/true); !status.ok()) {
    return Complain(streams, "run", std::string(status.message()), kExitBadCommandLine);
  }
  const absl::StatusOr<PrivateFolder> sockets = PrivateFolder::Make();  // and the model's description, for a moment
  if (!sockets.ok()) return Complain(streams, "run", std::string(sockets.status().message()), kExitFailed);
  FolderClaim claim;
  if (const int code = DescribeCode(sockets->path(), &options, &claim, streams); code != kExitDone) return code;
  const ChosenJob chosen = LoadChosenJob(options.job, "run", streams);
  const JobFileResult& parsed = chosen.parsed;
  if (options.job_dir.empty()) options.job_dir = chosen.job_dir;
  const bool has_begun = parsed.job.model.is_own() || (!options.job_dir.empty() && HoldsJob(options.job_dir));
  const bool has_its_data = HasItsData(parsed, has_begun, streams);  // told beside what the job file has wrong
  if (!parsed.ok()) return SayWhichCodeIsMissing(options, streams);
  if (!has_its_data) return kExitBadJobFile;
  LocalCluster cluster;
  if (const absl::Status able = CheckHost(parsed.job, &cluster); !able.ok()) {
    return Complain(streams, "run", std::string(able.message()), kExitFailed);
  }
  if (options.job_dir.empty()) options.job_dir = FreshJobDir(parsed.job.name);
  if (const absl::Status claimed = Claim(options, &claim); !claimed.ok()) {
    return Complain(streams, "run", std::string(claimed.message()), kExitFailed);
  }
  claim.Keep();
  if (const absl::Status prepared = CheckJobDir(options, parsed.job); !prepared.ok()) {
    const int code = absl::IsInvalidArgument(prepared) ? kExitBadJobFile : kExitFailed;
    return Complain(streams, "run", std::string(prepared.message()), code);
  }
  cluster.job_file = options.job.job_file;
  cluster.job_dir = options.job_dir;
  cluster.overrides = chosen.overrides;
  cluster.command = CommandOf(options);
  cluster.resume = options.resume;
  cluster.give_up = options.give_up;
  cluster.chief_flags = ChiefFlags(options, parsed.job, begun);
  cluster.trace = options.trace;
  cluster.servers = static_cast<int>(parsed.job.cluster.parameter_server_count);
  cluster.workers = static_cast<int>(parsed.job.cluster.worker_count);
  cluster.server_wait = parsed.job.timing.server_wait;
  if (const absl::Status secured = Secure(options, *sockets, &cluster); !secured.ok()) {
    return Complain(streams, "run", std::string(secured.message()), kExitBadCommandLine);
  }
  const absl::Cleanup settle = [&] { SettlePythonCode(options.job_dir); };
  if (const absl::Status staged = Stage(options, parsed.job, sockets->path(), &cluster); !staged.ok()) {
    return Complain(streams, "run", std::string(staged.message()), kExitFailed);
  }
  cluster.launcher = absl::StrFormat("%s-%d-%016x", HostName(), getpid(), RandomNonce());

  const absl::StatusOr<std::unique_ptr<Supervisor>> supervisor = Supervisor::Create();
  if (!supervisor.ok()) return Complain(streams, "run", std::string(supervisor.status().message()), kExitFailed);
  Talk talk(streams.err, ExamineTerminal(STDERR_FILENO, options.color), STDERR_FILENO);
  const auto journalled = [job_dir = cluster.job_dir] {
    return static_cast<double>(NewestJournalEntry(job_dir).batches_committed);
  };
  const RunResult result = LocalRun(std::move(cluster), **supervisor, talk, !options.quiet, journalled).UntilEnd();
  return Report(options, result, streams);
}

std::function<int()> SetUpRun(CLI::App& app, Streams streams) {
  auto options = std::make_shared<RunOptions>();
  AddJobOptions(app, &options->job);
  AddPythonOptions(app, &options->code);
  CLI::Option* job_dir =
      app.add_option("--job-dir", options->job_dir, "Where checkpoints, logs and summary go (default: runs/NAME-TIME)");
  app.add_option("--listen", options->listen,
                 "Where the chief listens; others may join where this is no loopback address")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--keys", options->keys,
                 "The folder of the cluster's keys; where others may join and none is named, JOB_DIR/keys is made")
      ->envname("DOWNPOUR_KEYS")
      ->type_name("DIR");
  app.add_flag("--resume", options->resume, "Go on from the newest checkpoint in the job folder")->needs(job_dir);
  app.add_option("--give-up,--give_up", options->give_up,
                 "The newest checkpoint in the job folder, which cannot be used: begin again without it")
      ->needs(job_dir)
      ->type_name("TERM-N")
      ->check(CheckRound);
  constexpr const char* kMetricsHelp[] = {
      "Where the chief serves /metrics for Prometheus; port 0: the kernel chooses, and the chief's log says which",
      "A file of mode 0600 with the token that whoever scrapes sends; any address but 127.0.0.1 needs it",
      "A PEM file, for TLS; any address but 127.0.0.1 needs it", "The certificate's, a PEM file"};
  constexpr const char* kMetricsTypes[] = {"[HOST:]PORT", "FILE", "FILE", "FILE"};
  for (size_t i = 0; i < options->metrics.size(); ++i) {
    auto& [name, value] = options->metrics[i];
    app.add_option("--" + name, value, kMetricsHelp[i])->type_name(kMetricsTypes[i]);
  }
  app.add_flag("--trace", options->trace, "Write who applied which push into JOB_DIR/trace");
  app.add_flag("-q,--quiet", options->quiet, "No progress line");
  app.footer(
      "Ctrl-C or SIGTERM ends the job after one last checkpoint, a second one at once. A shell's script starts what\n"
      "it puts into the background with Ctrl-C ignored, and so it stays: stop that by SIGTERM.\n" +
      app.get_footer());
  AddColorOption(app, &options->color);
  return [options, streams] { return RunCluster(*options, streams); };
}

}  // namespace

const Verb kRunVerb = {"run", "Run a whole cluster on this machine: chief, parameter servers and workers",
                       "  downpour run job.yaml\n"
                       "  downpour run job.yaml --job-dir runs/first --set training.epochs=3\n"
                       "  downpour run job.yaml --job-dir runs/first --resume\n"
                       "  downpour run job.yaml --package-path trainer --module-name trainer.task -- --my-flag 3\n",
                       "0 the job succeeded, 1 it failed or its Python code raised, 78 bad job file, or of another "
                       "plan than the checkpoints, 124 out of time",
                       SetUpRun};

}  // namespace downpour
