#include "tools/cli/doctor_job.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cluster/human_units.h"
#include "cluster/private_folder.h"
#include "cluster/role_commands.h"
#include "data/dataset.h"
#include "job/slice_grid.h"
#include "runtime/descriptor_need.h"
#include "runtime/posix/own_address.h"
#include "runtime/posix/tcp_probe.h"
#include "runtime/zmq/sockets.h"
#include "schema/host_port.h"
#include "schema/text.h"
#include "tools/cli/job_warnings.h"

namespace downpour {
namespace {

constexpr double kLongWait = 10;  // seconds; shorter ones are how things go

Finding LookAtAddress(const std::string& role, const std::string& endpoint) {
  const std::string about = "address";
  const std::string name = absl::StrCat(role, " at ", endpoint);
  const TcpProbe probe = TryToConnect(*ParseHostPort(endpoint));
  if (probe.ok()) return Good(about, absl::StrCat(name, " answers"));
  if (probe.error == ECONNREFUSED) {
    const char* of_a_ps = ", though a running ps may have another";  // it listens where it was told to, or anywhere
    return Good(about,
                absl::StrCat(name, " can be reached; nobody listens at that port", role == "chief" ? " yet" : of_a_ps));
  }
  return Problem(
      about,
      absl::StrCat(name, probe.no_address.empty() ? " cannot be reached: " : " does not resolve: ", WhyOf(probe)),
      RemedyOf(probe, role));
}

// Null where it cannot be read.
std::unique_ptr<Dataset> LookAtCopy(const std::string& which, const DataSpec& data, const SetFiles& files,
                                    Findings* findings) {
  absl::StatusOr<std::unique_ptr<Dataset>> opened = OpenDataset(data, files);
  if (!opened.ok()) {
    findings->push_back(Problem("data", std::string(opened.status().message()),
                                "copy the data to the same path on every host with workers"));
    return nullptr;
  }
  const auto examples = static_cast<double>((*opened)->size());
  findings->push_back(Good("data", absl::StrFormat("%s: %s examples, fingerprint %016x", which, HumanCount(examples),
                                                   (*opened)->fingerprint())));
  return *std::move(opened);
}

Finding JudgeState(const std::string& job, const std::string& state, const std::string& error) {
  const std::string what = absl::StrCat(job, " is ", state);
  const std::string why = absl::StrCat(what, " and over: ", error);
  if (state == "FAILED") return Warning("job", why, "mend what is named there, then go on as it says");
  if (state == "CANCELLED") return Warning("job", why, "go on as it says, unless it was meant to end");
  const bool succeeded = state == "SUCCEEDED";
  return Good("job",
              what + (succeeded ? " and over; to train it further, raise training.epochs and add --resume" : ""));
}

std::string LogsOf(const StatusReport& status, const std::string& task) {
  return absl::StrCat("downpour logs ", task, " --job-dir ", ShellWord(status.chief.job_dir));
}

// The chief knows the command that starts a task which nobody else starts, or all; one that is there only needs time.
Finding JudgePending(const StatusReport& status, const PendingReport& pending) {
  const std::string program = absl::StrCat("downpour-", pending.task.substr(0, pending.task.rfind('-')), " ");
  const auto start = std::find_if(status.next.begin(), status.next.end(), [&](const std::string& command) {
    return command.starts_with(program) || !command.starts_with("downpour");
  });
  const bool is_here = std::any_of(status.tasks.begin(), status.tasks.end(), [&](const TaskReport& task) {
    return task.name == pending.task && (task.state == "PREPARING" || task.state == "RUNNING");
  });
  const bool to_start = !is_here && start != status.next.end();
  return Warning("job", absl::StrCat(pending.task, " ", pending.why),
                 to_start ? *start : "wait for it, or look why it lingers: " + LogsOf(status, pending.task));
}

// Of workers that wait for longer than anything but work takes, while others get on.
Findings JudgeWaits(const StatusReport& status) {
  Findings findings;
  for (const WaitReport& wait : status.waits) {
    if (!wait.task.starts_with("worker-") || wait.on == "work" || wait.seconds.value_or(0) < kLongWait) continue;
    findings.push_back(Warning("job",
                               absl::StrFormat("%s has waited for %.0f s for %s%s", wait.task, *wait.seconds, wait.on,
                                               wait.why.empty() ? "" : ": " + wait.why),
                               absl::StrCat("see what it does: ", LogsOf(status, wait.task),
                                            "; a process that hangs is started again once it is killed")));
  }
  return findings;
}

Finding Diverging(const std::string& why) { return Warning("job", "it is DIVERGING: " + why, "go on as it says"); }

// A round that failed for a ps's sake is followed by others; a disk is mended by nobody else.
Finding JudgeCheckpoint(const StatusReport& status) {
  const std::string about = "checkpoint";
  if (status.checkpoint.error_cause != "ps") {
    return Problem(about, status.checkpoint.error, "make room or mend the folder");
  }
  std::vector<std::string> gone;
  for (const TaskReport& task : status.tasks) {
    if (task.role == "ps" && task.state != "RUNNING") gone.push_back(task.name);
  }
  return Warning(about, status.checkpoint.error,
                 gone.empty() ? "wait for the next one, which is on its way"
                              : absl::StrCat("bring back ", HumanNames(gone), "; the next one follows by itself"));
}

bool IsOfData(const JobError& error) { return error.key.starts_with("data."); }

}  // namespace

bool IsTask(const Listener& who, std::optional<TaskType> role, const std::string& chief) {
  const bool is_role =
      role ? who.program == absl::StrCat("downpour-", NameOf(*role)) : who.program.starts_with("downpour-");
  const std::string flag = "--chief=";
  return is_role && std::all_of(who.words.begin(), who.words.end(), [&](const std::string& word) {
           return chief.empty() || !word.starts_with(flag) || word == flag + chief;
         });
}

Findings JudgeJob(const JobFileResult& read, const DataFacts& facts, std::optional<TaskType> role) {
  Findings findings;
  const auto add = [&](Finding::Grade grade, const JobError& error) {
    const TaskType reader = IsOfData(error) ? TaskType::kWorker : TaskType::kChief;
    const bool is_elsewhere = role && role != reader && (IsOfData(error) || error.key == kInitializeFrom);
    if (is_elsewhere) return;
    const std::string section = error.key.substr(0, error.key.find('.'));
    findings.push_back(
        {grade, section == "training" ? "learning" : section, absl::StrCat(error.key, ": ", error.what), error.remedy});
  };
  for (const JobError& warning : WarningsOf(read, facts)) add(Finding::Grade::kWarning, warning);
  for (const JobError& error : facts.errors) add(Finding::Grade::kProblem, error);
  for (const JobError& absence : facts.absences) {
    if (!IsOfData(absence)) add(Finding::Grade::kProblem, absence);
  }
  return findings;
}

Findings LookAtJobData(const JobSpec& job, const DataFacts& facts) {
  if (job.model.is_own()) {
    const auto examples = static_cast<double>(job.data.train_examples);
    return {Good("data", absl::StrCat("train: ", HumanCount(examples), " examples, which the Python code brings"))};
  }
  if (std::any_of(facts.errors.begin(), facts.errors.end(), IsOfData)) return {};  // JudgeJob tells them
  Findings findings;
  const std::unique_ptr<Dataset> train = LookAtCopy("train", job.data, job.data.train, &findings);
  if (job.data.eval.empty()) return findings;
  const std::unique_ptr<Dataset> eval = LookAtCopy("eval", job.data, job.data.eval, &findings);
  if (train != nullptr && eval != nullptr) {
    findings.push_back(Good("data", absl::StrFormat("both: fingerprint %016x", FingerprintOf(*train, eval.get()))));
  }
  return findings;
}

uint64_t LargestFileOf(const JobSpec& job) {
  uint64_t values = 0;
  for (const Slice& slice : MakeSliceGrid(*InferVariables(job.model)).slices) {
    values += static_cast<uint64_t>(slice.bytes());
  }
  const uint64_t state = values * static_cast<uint64_t>(1 + SlotCount(job.training));
  const uint64_t shard = state / static_cast<uint64_t>(job.cluster.parameter_server_count);
  return std::max({kLeastFileBytes, shard, static_cast<uint64_t>(job.python.bytes)});
}

HostNeeds NeedsOf(const JobSpec& job, const DataFacts& facts, std::optional<TaskType> role, bool on_gpu) {
  const SliceGrid grid = MakeSliceGrid(*InferVariables(job.model));
  uint64_t values = 0, widest = 0;
  for (const Slice& slice : grid.slices) {
    values += static_cast<uint64_t>(slice.bytes());
    widest = std::max(widest, static_cast<uint64_t>(slice.bytes()));
  }
  const uint64_t state = values * static_cast<uint64_t>(1 + SlotCount(job.training));
  uint64_t data = 0;  // what Python code reads is not known
  for (const InputSpec& input : job.model.inputs) {
    uint64_t width = 1;
    for (const int64_t size : input.shape) width *= static_cast<uint64_t>(size);
    data += (facts.train_examples.value_or(0) + facts.eval_examples.value_or(0)) * (width + 1);
  }

  // While a checkpoint holds the old slices, new ones are written beside them. A worker keeps parameters, gradients and
  // those of the steps in flight, and where it pulls ahead those of the step at hand. For a GPU parameters are laid out
  // twice, mostly in half the bytes with bf16.
  const uint64_t all_servers = 2 * state;
  const uint64_t laid_out = !on_gpu ? 0 : job.training.precision == ProductPrecision::kBf16 ? 1 : 2;
  const uint64_t one_worker = ((job.training.pull_ahead ? 5 : 4) + laid_out) * values + data;
  const auto servers = static_cast<uint64_t>(job.cluster.parameter_server_count);
  const uint64_t disk = state * static_cast<uint64_t>(job.checkpoint.keep + 1);
  const uint64_t of_chief = DescriptorNeed(TaskRole::kChief, job.cluster);
  const uint64_t of_ps = DescriptorNeed(TaskRole::kPs, job.cluster);
  const uint64_t of_worker = DescriptorNeed(TaskRole::kWorker, job.cluster);
  const uint64_t file = LargestFileOf(job);
  if (role == TaskType::kChief) return {.memory = 4 * widest, .disk = disk, .descriptors = of_chief, .file = file};
  if (role == TaskType::kPs) return {.memory = all_servers / servers + widest, .disk = 0, .descriptors = of_ps};
  if (role == TaskType::kWorker) return {.memory = one_worker, .disk = 0, .descriptors = of_worker};
  return {.memory = all_servers + static_cast<uint64_t>(job.cluster.worker_count) * one_worker,
          .disk = disk,
          .descriptors = std::max({of_chief, of_ps, of_worker}),
          .file = file};
}

std::string WhyNoRoomFor(uint32_t more, const JobSpec& job, const DataFacts& facts, const HostFacts& host) {
  const uint64_t each = NeedsOf(job, facts, TaskType::kWorker, ComputesOnGpu(host)).memory;
  if (!host.memory_available || each == 0) return "";
  const uint64_t have_room = *host.memory_available / each;
  if (have_room >= more) return "";
  return absl::StrCat("each worker needs about ", HumanBytes(static_cast<double>(each)), " of memory, and ",
                      HumanBytes(static_cast<double>(*host.memory_available)), " are available here: ",
                      have_room == 0 ? "there is room for none more" : absl::StrCat("there is room for ", have_room),
                      more == 1 ? "" : absl::StrCat(", not for ", more),
                      ". Start workers on other hosts, or free memory");
}

Findings LookAtAddresses(const std::vector<ClusterConfig>& sources) {
  Findings findings;
  for (const ClusterConfig& source : sources) {
    for (const auto& [index, endpoint] : source.chief) findings.push_back(LookAtAddress("chief", endpoint));
    for (const auto& [index, endpoint] : source.ps) {
      findings.push_back(LookAtAddress(absl::StrCat("ps-", index), endpoint));
    }
  }
  return findings;
}

Findings LookAtServers(const StatusReport& status) {
  constexpr size_t kMost = 16;  // each may cost a second
  Findings findings;
  for (const TaskReport& task : status.tasks) {
    const std::optional<HostPort> address = ParseHostPort(task.endpoint);
    const bool is_there = task.state == "RUNNING" || task.state == "PREPARING";
    if (!is_there || !address || IsLoopback(address->host) || findings.size() == kMost) continue;
    findings.push_back(LookAtAddress(task.name, task.endpoint));
  }
  return findings;
}

Finding SilentChief(const std::string& endpoint, const std::string& why, bool has_keys) {
  const auto finding = [&](const std::string& remedy) { return Problem("chief", why, remedy); };
  const std::optional<HostPort> address = ParseHostPort(endpoint);
  if (!address) return finding("start the chief; its job folder and --chief=HOST:PORT tell where it listens");
  const TcpProbe probe = TryToConnect(*address);
  if (!probe.ok()) return finding(RemedyOf(probe, "the chief"));
  return finding(has_keys ? "give the keys of its cluster, and see whether it has keys at all"
                          : "give the keys of its cluster, if it has keys: --keys=DIR");
}

Finding LookAtOwnAddress(const std::string& endpoint, bool has_keys, const std::string& chief,
                         std::optional<TaskType> role) {
  if (endpoint.rfind("ipc:", 0) == 0) {
    const absl::Status status = CheckListenable(endpoint);
    return status.ok() ? Good("listen", endpoint)
                       : Problem("listen", std::string(status.message()), "let --listen name a shorter path");
  }
  const std::optional<HostPort> address = ParseHostPort(endpoint);
  if (!address) return Problem("listen", endpoint + " is no address", "write HOST:PORT, [IPV6]:PORT or ipc:///PATH");
  if (!CheckListenable(endpoint, has_keys).ok()) {
    return Problem("listen", absl::StrCat("anyone could reach ", endpoint, ", and there are no keys"),
                   "downpour keys new --out DIR, then --keys=DIR; or listen on 127.0.0.1");
  }
  const auto [no_address, error] = TryToListen(*address);
  if (!no_address.empty()) {
    return Problem("listen", absl::StrCat(endpoint, " does not resolve: ", no_address), "name an address");
  }
  const std::string told = AsOthersReachIt(endpoint, chief);
  if (error == 0) {
    return Good("listen", absl::StrCat(endpoint, " is free",
                                       told == endpoint ? "" : "; others are told " + ParseHostPort(told)->host));
  }
  const std::string what = absl::StrCat("cannot listen on ", endpoint, ": ", std::strerror(error));
  if (const auto who = error == EADDRINUSE ? ListenerAt(address->port) : std::nullopt; who) {
    const std::string process = absl::StrCat(who->program, ", process ", who->pid);
    if (IsTask(*who, role, chief)) return Good("listen", absl::StrCat(process, ", listens on ", endpoint, " already"));
    return Problem("listen", absl::StrCat(what, ", by ", process), "choose another port, or port 0 for any free one");
  }
  return error == EADDRINUSE ? Problem("listen", what, "choose another port, or port 0 for any free one")
                             : Problem("listen", what, "listen on an address that this host has");
}

Finding LookAtSockets(int servers) {
  const absl::StatusOr<PrivateFolder> folder = PrivateFolder::Make();
  const absl::Status status = folder.ok() ? CheckSockets(folder->path(), servers) : folder.status();
  if (status.ok()) return Good("sockets", absl::StrCat("fit in ", folder->path()));
  return Problem("sockets", std::string(status.message()), "let TMPDIR name such a folder");
}

Findings JudgeStatus(const StatusReport& status) {
  Findings findings = {JudgeState(status.job, status.state, status.error)};
  for (const PendingReport& pending : status.pending) findings.push_back(JudgePending(status, pending));
  for (const FailureReport& failure : status.failures) {
    if (failure.age.value_or(0) > kLately) continue;
    findings.push_back(Problem("job", absl::StrCat(failure.task, ": ", failure.what), LogsOf(status, failure.task)));
  }
  if (!status.stalled.empty()) {
    findings.push_back(Problem("job", status.stalled, "mend what its tasks wait for, as named there"));
  } else {
    for (Finding& wait : JudgeWaits(status)) findings.push_back(std::move(wait));
  }
  if (!status.diverging.empty()) findings.push_back(Diverging(status.diverging));
  if (!status.checkpoint.error.empty()) findings.push_back(JudgeCheckpoint(status));
  return findings;
}

Findings JudgeEnd(const SummaryReport& summary) {
  Findings findings = {JudgeState(summary.job, summary.state, summary.error)};
  if (!summary.diverging.empty()) findings.push_back(Diverging(summary.diverging));
  return findings;
}

}  // namespace downpour
