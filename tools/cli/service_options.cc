#include "tools/cli/service_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/local_backend.h"
#include "tools/cli/data_facts.h"
#include "tools/cli/doctor_host.h"
#include "tools/cli/doctor_job.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

// Of a chief, ps or worker with a model of nearly no size: code, threads, buffers of sockets.
constexpr uint64_t kProcessBytes = uint64_t{40} << 20;

// deploy/cluster beside these programs' build.
std::string FindLauncher(const fs::path& program) {
  const fs::path path = program.parent_path().parent_path().parent_path() / "deploy/cluster";
  std::error_code ignored;
  return fs::exists(path, ignored) ? path.string() : "";
}

// By these the service finds its job again, ends it, and has one of it.
constexpr const char* kOwnOptions[] = {"--job-name", "--chdir", "--array", "--nodes",     "--ntasks",   "--signal",
                                       "--parsable", "--wrap",  "--wait",  "--test-only", "--clusters", "--no-requeue"};

std::string CheckSbatchOption(const std::string& option) {
  if (!option.starts_with("--") || option.size() == 2) {
    return absl::StrCat(option, " is no long option of sbatch, such as --time=12:00:00");
  }
  const std::string name = option.substr(0, option.find('='));  // sbatch also takes its beginning
  const bool is_own = std::any_of(std::begin(kOwnOptions), std::end(kOwnOptions),
                                  [&](const std::string& own) { return own.starts_with(name); });
  return is_own ? absl::StrCat(name, " is the service's own to say") : "";
}

void Check(const CLI::App& app, BackendSettings* settings) {
  const auto only_with = [&](BackendKind kind, const char* name, std::initializer_list<const char*> options) {
    for (const char* option : options) {
      if (settings->kind == kind || app.count(option) == 0) continue;
      throw CLI::ValidationError(option, absl::StrCat("belongs to --backend ", name));
    }
  };
  only_with(BackendKind::kLocal, "local", {"--cores", "--memory", "--gpus"});
  only_with(BackendKind::kSsh, "ssh", {"--hosts", "--ssh-config", "--chief-port", "--launcher"});
  only_with(BackendKind::kSlurm, "slurm", {"--partition", "--sbatch-option"});
  if (settings->kind != BackendKind::kSsh) return;
  if (settings->hosts.empty()) throw CLI::ValidationError("--backend", "ssh needs --hosts FILE");
  if (settings->launcher.empty()) {
    throw CLI::ValidationError("--backend", "ssh needs deploy/cluster: name it by --launcher FILE");
  }
  for (std::string* path : {&settings->hosts, &settings->launcher, &settings->ssh_config}) {
    if (!path->empty()) *path = fs::absolute(*path).lexically_normal();  // a run is started in its own folder
  }
}

}  // namespace

BackendSettings UsualBackend() {
  BackendSettings settings;
  settings.program = fs::read_symlink("/proc/self/exe").string();
  settings.room = RoomOfThisMachine();
  settings.memory_of = MemoryOf;
  settings.launcher = FindLauncher(settings.program);
  return settings;
}

void AddBackendOptions(CLI::App& app, BackendSettings* settings) {
  const std::map<std::string, BackendKind> kinds = {
      {"local", BackendKind::kLocal}, {"ssh", BackendKind::kSsh}, {"slurm", BackendKind::kSlurm}};
  app.add_option("--backend", settings->kind,
                 "Where jobs run: local (this machine), ssh (hosts, by deploy/cluster) or slurm; all jobs of a service")
      ->transform(CLI::CheckedTransformer(kinds).description(""))
      ->type_name("local|ssh|slurm")
      ->default_str("local");
  CLI::Option_group* local = app.add_option_group("local", "This machine: what jobs may take of it at a time");
  local->add_option("--cores", settings->room.cores, "Cores")->check(CLI::Range(1, 65536))->capture_default_str();
  local->add_option("--memory", settings->room.memory, "Memory, such as 64GiB (default: nine tenths of what is there)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false).description(""))
      ->type_name("SIZE");
  local->add_option("--gpus", settings->room.gpus, "GPUs")->check(CLI::Range(0, 1024))->capture_default_str();
  CLI::Option_group* ssh = app.add_option_group("ssh", "Hosts: one job at a time has all of them");
  ssh->add_option("--hosts", settings->hosts, "The hosts and their roles, as deploy/cluster takes them")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  ssh->add_option("--ssh-config", settings->ssh_config, "In place of ~/.ssh/config")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  ssh->add_option("--chief-port", settings->chief_port, "Where the chief listens on its host")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  ssh->add_option("--launcher", settings->launcher, "deploy/cluster, where it is not found beside the programs")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  CLI::Option_group* slurm = app.add_option_group("slurm", "Slurm: a batch job on one node for each job");
  slurm->add_option("--partition", settings->partition, "The partition (default: the cluster's own)")
      ->type_name("NAME");
  slurm
      ->add_option("--sbatch-option", settings->sbatch_options,
                   "More for sbatch, such as --sbatch-option=--time=12:00:00; may be repeated")
      ->check(CheckSbatchOption, "")
      ->allow_extra_args(false)
      ->type_name("OPTION");
  app.callback([&app, settings] { Check(app, settings); });
}

uint64_t MemoryOf(const JobFileResult& read) {
  const HostNeeds needs = NeedsOf(read.job, CountExamples(read.job), std::nullopt, /*on_gpu=*/false);
  const int64_t processes = 1 + read.job.cluster.worker_count + read.job.cluster.parameter_server_count;
  return needs.memory + static_cast<uint64_t>(processes) * kProcessBytes;
}

}  // namespace downpour
