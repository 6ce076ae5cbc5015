#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cluster/chief_client.h"
#include "cluster/human_units.h"
#include "cluster/job_folder.h"
#include "cluster/private_folder.h"
#include "cluster/status_source.h"
#include "job/job_reader.h"
#include "runtime/posix/keys.h"
#include "runtime/process/cluster_environment.h"
#include "runtime/zmq/sockets.h"
#include "schema/message.h"
#include "tools/cli/doctor_host.h"
#include "tools/cli/doctor_job.h"
#include "tools/cli/doctor_keys.h"
#include "tools/cli/job_options.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct DoctorOptions {
  JobOptions job;
  PythonCode code;
  StatusSource running;
  std::string role;
  uint64_t tasks = 1;
  std::string listen;
  std::string cluster;
};

constexpr double kSkew = 2;  // seconds between two clocks that are worth a word

// What several roles would stumble over is told once.
void Append(Findings more, Findings* findings) {
  for (Finding& finding : more) {
    const bool is_new = std::find(findings->begin(), findings->end(), finding) == findings->end();
    if (is_new) findings->push_back(std::move(finding));
  }
}

template <typename Role>
std::optional<Role> RoleIn(std::initializer_list<Role> roles, const std::string& name) {
  for (const Role role : roles) {
    if (name == NameOf(role)) return role;
  }
  return std::nullopt;
}
std::optional<TaskType> TaskOf(const std::string& role) {
  return RoleIn({TaskType::kChief, TaskType::kPs, TaskType::kWorker}, role);
}
std::optional<PeerRole> PeerOf(const std::string& role) {
  return RoleIn({PeerRole::kChief, PeerRole::kPs, PeerRole::kWorker, PeerRole::kClient, PeerRole::kViewer}, role);
}

Findings CompareClocks(const StatusReport& status) {
  if (!status.chief.unix_ms) return {};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const double here = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  const double skew = here - static_cast<double>(*status.chief.unix_ms) / 1000;
  const std::string what = absl::StrFormat("%.1f s off the chief's", skew);
  if (skew < kSkew && skew > -kSkew) return {Good("clock", what)};
  return {Warning("clock", what + ": logs will not line up", "let both hosts take the time from one server")};
}

Finding CompareProtocols(const StatusReport& status) {
  const std::string what = absl::StrCat("answers, and speaks protocol ", status.chief.protocol.value_or(0));
  if (status.chief.protocol == kProtocolVersion) return Good("chief", what + ", as this program does");
  return Problem("chief", absl::StrCat(what, ", this program ", kProtocolVersion), "install one release on all hosts");
}

// Where the chief of a running job listens, as far as that is known.
std::string ChiefOf(const StatusSource& source) {
  if (!source.chief.empty()) return source.chief;
  const absl::StatusOr<ChiefLocation> location = ReadChiefLocation(source.job_dir);
  return location.ok() ? location->endpoint : "";
}

Finding KnockAtChief(const std::string& endpoint, const std::string& keys_folder, PeerRole visitor) {
  const absl::StatusOr<KeyRing> keys = LoadKeys(keys_folder, visitor);
  absl::StatusOr<ChiefClient> client = keys.ok() ? ChiefClient::Dial(endpoint, &*keys) : keys.status();
  const absl::Status let_in = client.ok() ? client->ShakeHands(kStatusTimeout) : client.status();
  if (let_in.ok()) return Good("chief", absl::StrCat("lets in a ", NameOf(visitor), " with these keys"));
  return SilentChief(endpoint, std::string(let_in.message()), /*has_keys=*/true);
}

Findings AskChief(const StatusSource& source, bool has_keys) {
  const absl::StatusOr<Answer> answer = StatusAsker(source).Ask();
  const std::string why(answer.status().message());
  if (absl::IsUnauthenticated(answer.status())) return {Problem("chief", why, "ask as it says")};
  if (!answer.ok()) return {SilentChief(ChiefOf(source), why, has_keys)};
  if (answer->summary) return JudgeEnd(*answer->summary);
  Findings findings = {CompareProtocols(*answer->status)};
  Append(CompareClocks(*answer->status), &findings);
  Append(JudgeStatus(*answer->status), &findings);
  Append(LookAtServers(*answer->status), &findings);
  return findings;
}

// How the last chief of a folder ended; empty if it has not: nobody answers there any more.
Findings LookForEnd(const std::string& job_dir) {
  const absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir);
  if (!chief.ok()) return {};
  if (const auto found = ReadSummaryOf(job_dir, chief->term); found.ok()) return JudgeEnd(found->summary);
  if (!HasGone(*chief, job_dir)) return {};
  return {Problem("chief", HowItWasLeft(job_dir, *chief), "go on as it says")};
}

Findings LookAtStartedJob(const StatusSource& source, const std::string& keys, std::optional<PeerRole> role) {
  if (source.chief.empty()) {
    if (Findings end = LookForEnd(source.job_dir); !end.empty()) return end;
  }
  Findings findings;
  bool knows_servers = false;
  const std::vector<PeerRole> visitors = VisitorsOf(keys, role);
  for (const PeerRole visitor : visitors) {
    const bool asks = visitor == PeerRole::kClient || visitor == PeerRole::kViewer;
    if (asks && visitor == visitors.front()) {
      Append(AskChief(source, !keys.empty()), &findings);
    } else {
      Append({KnockAtChief(ChiefOf(source), keys, visitor)}, &findings);
    }
    knows_servers |= asks;
  }
  if (!knows_servers) {
    findings.push_back(Warning("ps", "whether those of a running job can be reached from here was not looked at",
                               "look once more with a client's keys: only they may ask where the ps are"));
  }
  return findings;
}

Findings LookAtJob(const DoctorOptions& options, Streams streams, bool on_gpu, HostNeeds* needs) {
  const absl::StatusOr<PrivateFolder> scratch = PrivateFolder::Make();
  if (!scratch.ok()) return {Problem("job file", std::string(scratch.status().message()), "make room there")};
  JobOptions job = options.job;
  if (DescribeCode("doctor", scratch->path(), options.code, &job, streams) != kExitDone) {
    return {Problem("code", "the Python code makes no model here", "mend what is named above")};
  }
  const ChosenJob chosen = LoadChosenJob(job, "doctor", streams);
  const DataFacts facts = LookAtData(chosen.parsed);
  if (!chosen.parsed.ok()) {
    for (const JobError& error : facts.errors) streams.err << ToString(error) << "\n";
    return {Problem("job file", absl::StrCat(options.job.job_file, " has errors"), "mend what is named above")};
  }
  Findings findings = {Good("job file", options.job.job_file)};
  const std::optional<TaskType> role = TaskOf(options.role);
  *needs = NeedsOf(chosen.parsed.job, facts, role, on_gpu);
  needs->memory *= options.tasks;
  needs->servers = static_cast<int>(chosen.parsed.job.cluster.parameter_server_count);
  Append(JudgeJob(chosen.parsed, facts, role), &findings);
  if (!role || role == TaskType::kWorker) Append(LookAtJobData(chosen.parsed.job, facts), &findings);
  return findings;
}

int PrintFindings(const Findings& findings, std::ostream& out) {
  int warnings = 0, problems = 0;
  for (const Finding& finding : findings) {
    warnings += finding.grade == Finding::Grade::kWarning;
    problems += finding.grade == Finding::Grade::kProblem;
    const char* mark = finding.grade == Finding::Grade::kGood      ? "ok"
                       : finding.grade == Finding::Grade::kWarning ? "warning"
                                                                   : "PROBLEM";
    out << absl::StrFormat("%-8s %-10s %s\n", mark, finding.about, Printable(finding.what));
    if (!finding.remedy.empty()) out << absl::StrFormat("%-20s-> %s\n", "", Printable(finding.remedy));
  }
  out << problems << (problems == 1 ? " problem, " : " problems, ") << warnings
      << (warnings == 1 ? " warning\n" : " warnings\n");
  return problems == 0 ? kExitDone : kExitFailed;
}

int Examine(const DoctorOptions& options, Streams streams) {
  Findings findings;
  HostNeeds needs;
  const std::string folder = options.running.job_dir.empty() ? "." : options.running.job_dir;
  const HostFacts host = LookAtHost(folder);
  if (!options.job.job_file.empty()) Append(LookAtJob(options, streams, ComputesOnGpu(host), &needs), &findings);
  Append(JudgeHost(host, needs, folder), &findings);
  if (options.role.empty()) findings.push_back(LookAtSockets(needs.servers));

  const LaunchSources sources = ReadLaunchSources(options.cluster, ProcessEnvironment());
  for (const JobError& error : sources.errors) {
    findings.push_back(Problem("cluster", ToString(error), "correct it, or give --cluster=none"));
  }
  Append(LookAtAddresses(sources.configs), &findings);
  const std::string keys = KeysFolder(options.running.keys, options.running.job_dir);
  Append(LookAtKeys(keys, PeerOf(options.role)), &findings);
  if (!options.listen.empty()) {
    findings.push_back(LookAtOwnAddress(options.listen, !keys.empty(), ChiefOf(options.running), TaskOf(options.role)));
  }
  // Of a job file the folder may be one that is still to be made.
  const bool to_be_there = options.job.job_file.empty() && !options.running.job_dir.empty();
  if (!options.running.chief.empty() || to_be_there || ReadChiefLocation(options.running.job_dir).ok()) {
    Append(LookAtStartedJob(options.running, keys, PeerOf(options.role)), &findings);
  }
  return PrintFindings(findings, streams.out);
}

std::function<int()> SetUpDoctor(CLI::App& app, Streams streams) {
  auto options = std::make_shared<DoctorOptions>();
  AddJobOptions(app, &options->job);
  app.get_option("job")->required(false);
  AddPythonOptions(app, &options->code);
  app.get_option(kModuleOption)->needs(app.get_option("job"));
  app.add_option("--role", options->role,
                 "What this host is for: chief, ps, worker; client, who asks for a status and commands; viewer, who "
                 "asks alone; else for a whole cluster")
      ->check(CLI::IsMember({"chief", "ps", "worker", "client", "viewer"}));
  app.add_option("--tasks", options->tasks, "How many tasks of that role")->check(CLI::Range(int64_t{1}, kMostTasks));
  app.add_option("--listen", options->listen, "Where a task of this host is to listen, HOST:PORT");
  app.add_option("--keys", options->running.keys,
                 "The folder of the cluster's keys (default: $DOWNPOUR_KEYS, else keys in the job folder)")
      ->type_name("DIR");
  app.add_option("--cluster", options->cluster, "A file like TF_CONFIG, or none");
  app.add_option("--chief", options->running.chief, "Where the chief of a running job listens")
      ->check([](const std::string& at) { return std::string(CheckDialable(at).message()); }, "")
      ->type_name("HOST:PORT");
  app.add_option("--job-dir", options->running.job_dir, "The job folder: its disk, and its chief if it has one");
  return [options, streams] { return Examine(*options, streams); };
}

}  // namespace

const Verb kDoctorVerb = {"doctor", "Find what would keep a job from running well here, and say how to mend it",
                          "  downpour doctor job.yaml\n"
                          "  downpour doctor job.yaml --role worker --chief h0:7000 --keys keys\n"
                          "  downpour doctor job.yaml --package-path trainer --module-name trainer.task\n"
                          "  downpour doctor --job-dir runs/first\n",
                          "0 no problem, though there may be warnings, 1 problems", SetUpDoctor};

}  // namespace downpour
