#include "tools/cli/python_code.h"

#include <signal.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cluster/job_folder.h"
#include "job/tf_config.h"
#include "runtime/exit_code.h"
#include "runtime/posix/code_cache.h"
#include "runtime/process/child.h"
#include "runtime/process/group_guard.h"
#include "schema/sha256.h"
#include "schema/text.h"
#include "tools/cli/python_packages.h"
#include "worker/python/python_child.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kPackageEndings[] = {".whl", ".tar.gz", ".zip"};

std::string JobEntry(const std::string& key, const Json& value) { return absl::StrCat(key, "=", value.dump()); }

// What downpour.fit was told, a number each, so that a file that says one of them leaves the others.
void AddDefaults(const std::string& key, const Json& value, std::vector<std::string>* entries) {
  if (!value.is_object()) return entries->push_back(JobEntry(key, value));
  for (const auto& [name, inner] : value.items()) AddDefaults(absl::StrCat(key, ".", name), inner, entries);
}

absl::StatusOr<PythonJob> JobOf(const Json& description, const PythonCode& code, const Payload& archive,
                                const std::string& job_dir) {
  const std::string version = description.value("version", "");
  if (version != DOWNPOUR_VERSION) {
    return absl::InvalidArgumentError(absl::StrCat("the Python package downpour is of version ", CleanText(version, 64),
                                                   ", this program of " DOWNPOUR_VERSION,
                                                   ": install the one of this release"));
  }
  const Json& metrics = description.at("metrics");
  const Json python = {{"module", code.module},
                       {"sha256", Sha256Of({archive})},
                       {"bytes", archive.size()},
                       {"args", code.args},
                       {"metrics", metrics}};
  PythonJob job;
  job.archive = archive;
  for (const Json& metric : metrics) job.metrics.push_back(metric.at("name").get<std::string>());
  job.takes_one_example = description.value("takesOneExample", true);
  job.entries = {JobEntry("python", python), JobEntry("model.variables", description.at("variables")),
                 JobEntry("model.classes", description.at("classes")),
                 // Each by itself, so that a file may say in which order they are.
                 JobEntry("data.format", kPythonFormat),
                 JobEntry("data.trainExamples", description.at("trainExamples")),
                 JobEntry("data.evalExamples", description.at("evalExamples"))};
  if (const Json tables = description.value("tables", Json::array()); !tables.empty()) {
    job.entries.push_back(JobEntry("model.tables", tables));
  }
  job.defaults.push_back(JobEntry("model.initializeFrom", OwnValuesPath(job_dir)));
  if (!job.metrics.empty()) job.defaults.push_back(JobEntry("training.metrics", job.metrics));
  for (const auto& [key, value] : description.at("settings").items()) AddDefaults(key, value, &job.defaults);
  return job;
}

// As waitpid tells it.
absl::StatusOr<int> RunToItsEnd(const ChildSpec& spec) {
  const absl::StatusOr<pid_t> pid = StartChild(spec);
  if (!pid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(pid.status().message()), ": install Python 3, or name its program by --python"));
  }
  GroupGuard guard;
  guard.Watch(*pid);
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(*pid), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  kill(-*pid, SIGKILL);  // what the user's code left, while the number is still its group's
  int status = 0;
  waitpid(*pid, &status, 0);
  return status;
}

// Of what workers get, so that what is left out of it is missed here. TF_CONFIG says that this is the chief.
absl::Status RunToItsModel(const PythonCode& code, const JobSpec& job, const std::string& unpacked,
                           const std::string& folder, Clock::time_point begun) {
  ChildSpec spec{.argv = {code.interpreter, "-m", "downpour.child", "describe", "--out", folder, "--package", unpacked,
                          "--module", code.module, "--environment", unpacked + kPackagesSuffix}};
  const Clock::duration limit = job.scheduling.max_running_time;
  if (limit != Clock::duration::zero()) {
    const std::chrono::duration<double> until = (begun + limit).time_since_epoch();
    spec.argv.insert(spec.argv.end(), {"--until", absl::StrFormat("%.3f", until.count())});
  }
  spec.argv.push_back("--");
  const char* trial = std::getenv("CLOUD_ML_TRIAL_ID");
  const std::string text = TfConfigOf(job, {.type = TaskType::kChief, .trial = trial == nullptr ? "" : trial});
  for (const char* name : {"TF_CONFIG", "CLUSTER_SPEC"}) spec.environment.emplace_back(name, text);
  NameTool(&spec);
  spec.argv.insert(spec.argv.end(), code.args.begin(), code.args.end());
  const absl::StatusOr<int> status = RunToItsEnd(spec);
  if (!status.ok()) return status.status();
  if (*status == 0) return absl::OkStatus();
  if (limit != Clock::duration::zero() && Clock::now() - begun >= limit) {
    const std::string place = CleanText(ReadTextFile(folder + "/place").value_or("the calls above say where"), 400);
    const std::string time = absl::StrFormat("%.10g", std::chrono::duration<double>(limit).count());
    return absl::DeadlineExceededError(absl::StrCat("the Python code ", code.module, " has come to no model in the ",
                                                    time, " s of scheduling.maxRunningTime: ", place));
  }
  const std::string find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('downpour') is None)";
  const absl::StatusOr<int> found = RunToItsEnd({.argv = {code.interpreter, "-c", find}});
  if (!found.ok() || *found != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(code.interpreter, " has no package downpour: ", code.interpreter,
                     " -m pip install this release's folder python/, or name another program by --python"));
  }
  const std::string what = absl::StrCat("the Python code ", code.module, " came to no model: ", DescribeEnd(*status));
  const bool refused = WIFEXITED(*status) && WEXITSTATUS(*status) == kExitBadJobFile;
  return refused ? absl::InvalidArgumentError(what) : absl::AbortedError(what);
}

}  // namespace

std::vector<std::string> PackagesIn(const std::string& given) {
  std::error_code error;
  if (fs::is_regular_file(given, error)) return {given};
  std::vector<std::string> packages;
  std::string name;
  for (const absl::string_view piece : absl::StrSplit(given, ',')) {
    absl::StrAppend(&name, name.empty() ? "" : ",", piece);
    const auto is_end = [&](const char* ending) { return absl::EndsWith(name, ending); };
    if (std::ranges::any_of(kPackageEndings, is_end)) packages.push_back(std::exchange(name, ""));
  }
  if (!name.empty() || packages.empty()) packages.push_back(std::move(name));
  return packages;
}

void AddPackagesOption(CLI::App& app, const std::string& help, std::vector<std::string>* packages) {
  const auto add = [packages](const std::vector<std::string>& all) {
    for (const std::string& given : all) {
      for (std::string& package : PackagesIn(given)) packages->push_back(std::move(package));
    }
  };
  app.add_option_function<std::vector<std::string>>("--packages", add, help)
      ->allow_extra_args(false)
      ->type_name("FILE,...");
}

void AddPythonOptions(CLI::App& app, PythonCode* code) {
  app.add_option(kModuleOption, code->module, "The Python module that makes the model: trainer.task");
  app.add_option("--package-path", code->package_path, "The folder of its package (default: the working folder)")
      ->type_name("DIR");
  AddPackagesOption(app, "Wheels and sdists that are installed too; one may have the module", &code->packages);
  app.add_option("--python", code->interpreter, "The Python that runs it")
      ->envname("DOWNPOUR_PYTHON")
      ->type_name("PROGRAM")
      ->capture_default_str();
  app.add_option("args", code->args, "After --: the arguments of the module's own");
}

std::string WhyNoCode(const PythonCode& code) {
  const std::string lost = !code.package_path.empty() ? "--package-path" : !code.packages.empty() ? "--packages" : "";
  if (!code.module.empty() || (code.args.empty() && lost.empty())) return "";
  const std::string what = code.args.empty() ? lost + " has no meaning here: it goes with"
                                             : code.args[0] + " has no meaning here: what follows -- goes to";
  return what + " the Python module that --module-name names";
}

absl::StatusOr<PythonJob> DescribePythonCode(const PythonCode& code, const JobSpec& job, const std::string& folder,
                                             const std::string& job_dir) {
  const Clock::time_point begun = Clock::now();
  const absl::StatusOr<Payload> archive = GatherCode(code, folder);
  if (!archive.ok()) return archive.status();
  const PythonSpec spec = {.module = code.module,
                           .sha256 = Sha256Of({*archive}),
                           .bytes = static_cast<int64_t>(archive->size()),
                           .args = code.args};
  const CodeCache cache(DefaultCodeFolder());
  absl::StatusOr<CachedCode> unpacked = cache.Find(spec);
  if (absl::IsNotFound(unpacked.status())) unpacked = cache.Keep(spec, {*archive});
  if (!unpacked.ok()) return unpacked.status();
  JobSpec known = job;
  known.python = spec;
  if (const absl::Status status = RunToItsModel(code, known, unpacked->path, folder, begun); !status.ok())
    return status;
  const absl::StatusOr<std::string> text = ReadTextFile(folder + "/description.json");
  if (!text.ok()) return text.status();
  try {
    return JobOf(Json::parse(*text), code, *archive, job_dir);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Python package downpour wrote no description of the model: ", CleanText(error.what(), 200)));
  }
}

int ExitCodeOfCode(const absl::Status& error) {
  if (absl::IsDeadlineExceeded(error)) return kExitOutOfTime;
  return absl::IsInvalidArgument(error) ? kExitBadJobFile : kExitFailed;
}

}  // namespace downpour
