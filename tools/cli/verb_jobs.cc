#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/human_units.h"
#include "cluster/job_folder.h"
#include "cluster/output_options.h"
#include "cluster/terminal.h"
#include "service/job.h"
#include "tools/cli/job_submission.h"
#include "tools/cli/job_table.h"
#include "tools/cli/python_packages.h"
#include "tools/cli/service_place.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kFileColumns = 160;  // of a table that no terminal shows
constexpr const char* kJobs = "/v1/projects/p/jobs";
constexpr auto kPause = std::chrono::milliseconds(500);

struct JobsOptions {
  ServicePlace place = UsualPlace();
  std::string filter;
  bool as_json = false;
  JobSubmission submission;
};

std::string PathOf(const JobsOptions& options) { return absl::StrCat(kJobs, "/", options.submission.name); }

int Fail(const absl::Status& status, Streams streams) {
  return Complain(streams, "jobs", std::string(status.message()), kExitFailed);
}

int SayState(const JobsOptions& options, const absl::StatusOr<json>& job, Streams streams) {
  if (!job.ok()) return Fail(job.status(), streams);
  streams.out << "Job " << options.submission.name << " is " << (*job)["state"].get<std::string>() << "\n";
  return kExitDone;
}

int Submit(const JobsOptions& options, const ServiceClient& service, Streams streams) {
  JobOptions said = options.submission.job;
  said.config_file = options.submission.config;
  const absl::StatusOr<CodeOfFiles> of_files = AddCodeOfFiles(said, options.submission.code, Store::kOfService);
  if (!of_files.ok()) return Complain(streams, "jobs", std::string(of_files.status().message()), kExitBadJobFile);
  if (const std::string why = WhyNoSubmission(options.submission, of_files->code); !why.empty())
    return Complain(streams, "jobs", why, kExitBadCommandLine);
  const absl::StatusOr<json> body = BodyOf(options.submission, of_files->code, service, streams);
  if (absl::IsInvalidArgument(body.status())) {
    return Complain(streams, "jobs", std::string(body.status().message()), kExitBadJobFile);
  }
  if (!body.ok()) return Fail(body.status(), streams);
  const absl::StatusOr<json> job = service.Ask("POST", kJobs, body->dump());
  if (const int code = SayState(options, job, streams); code != kExitDone) return code;
  const std::string rest = absl::StrCat(" ", options.submission.name, " ", options.place.Words(), "\n");
  streams.err << "Next: downpour jobs describe" << rest << "      downpour jobs stream-logs" << rest;
  return kExitDone;
}

int ListJobs(const JobsOptions& options, const ServiceClient& service, Streams streams) {
  json jobs = json::array();
  std::string token;
  do {
    const std::string asked = httplib::detail::encode_query_param(options.filter);
    const absl::StatusOr<json> page =
        service.Ask("GET", absl::StrCat(kJobs, "?pageSize=100&filter=", asked, "&pageToken=", token));
    if (!page.ok()) return Fail(page.status(), streams);
    for (json& job : page->value("jobs", json::array())) jobs.push_back(std::move(job));
    token = page->value("nextPageToken", "");
  } while (!token.empty());
  const TerminalTraits terminal = ExamineTerminal(STDOUT_FILENO, ColorChoice::kNever);
  const size_t columns = terminal.redraws ? static_cast<size_t>(terminal.columns) : kFileColumns;
  streams.out << (options.as_json ? jobs.dump(2) + "\n" : JobTable(jobs, columns));
  return kExitDone;
}

int Describe(const JobsOptions& options, const ServiceClient& service, Streams streams) {
  const absl::StatusOr<json> job = service.Ask("GET", PathOf(options));
  if (!job.ok()) return Fail(job.status(), streams);
  streams.out << job->dump(2) << "\n";
  return kExitDone;
}

int Cancel(const JobsOptions& options, const ServiceClient& service, Streams streams) {
  const absl::StatusOr<json> done = service.Ask("POST", PathOf(options) + ":cancel", "{}");
  return done.ok() ? SayState(options, service.Ask("GET", PathOf(options)), streams) : Fail(done.status(), streams);
}

int Delete(const JobsOptions& options, const ServiceClient& service, Streams streams) {
  const absl::StatusOr<json> done = service.Ask("DELETE", PathOf(options), "{}");
  if (!done.ok()) return Fail(done.status(), streams);
  streams.out << "Job " << options.submission.name << " is deleted, with its folder\n";
  return kExitDone;
}

// How far a log was shown: the page that was not full yet, and which of its lines.
struct Shown {
  std::string page;
  std::set<std::string> lines;
};

// Lines that were not shown yet. A task's line may come a moment after a later one of another's.
absl::Status ShowNews(const JobsOptions& options, const ServiceClient& service, Shown* shown, Streams streams) {
  json asked = {{"filter", absl::StrCat("resource.labels.job_id=\"", options.submission.name, "\"")}};
  for (;;) {
    asked["pageToken"] = shown->page;
    const absl::StatusOr<json> page = service.Ask("POST", "/v2/entries:list", asked.dump());
    if (!page.ok()) return page.status();
    for (const json& entry : page->value("entries", json::array())) {
      if (!shown->lines.insert(entry["insertId"]).second) continue;
      const std::string task = entry["labels"]["task_name"], text = entry["textPayload"];
      streams.out << entry["severity"].get<std::string>() << "\t" << entry["timestamp"].get<std::string>() << "\t"
                  << task << "\t" << Printable(text, text.size()) << "\n";
    }
    const std::string next = page->value("nextPageToken", "");
    if (next.empty()) break;
    *shown = {.page = next, .lines = {}};
  }
  streams.out.flush();
  return absl::OkStatus();
}

// Its state and why it is not further, each time that one of them is another.
void TellState(const json& job, std::string* told, Streams streams) {
  const std::string why = Printable(job.value("stateMessage", ""));
  const std::string now = absl::StrCat("Job ", job["jobId"].get<std::string>(), " is ", job["state"].get<std::string>(),
                                       why.empty() ? "" : ": ", why);
  if (std::exchange(*told, now) != now) streams.err << now << std::endl;
}

// Until the job is over; its end is the exit code.
int Follow(const JobsOptions& options, const ServiceClient& service, bool with_logs, Streams streams) {
  Shown shown;
  std::string told;
  for (;;) {
    const absl::StatusOr<json> job =
        service.Ask("GET", PathOf(options));  // before its log, whose end is the job's then
    if (!job.ok()) return Fail(job.status(), streams);
    const std::string state = (*job)["state"];
    const bool failed = state != "SUCCEEDED" && IsOver(StateNamed(state).value_or(JobState::kRunning));
    if (!failed) TellState(*job, &told, streams);
    if (with_logs) {
      if (const absl::Status status = ShowNews(options, service, &shown, streams); !status.ok())
        return Fail(status, streams);
    }
    if (state == "SUCCEEDED") return kExitDone;
    if (failed) {
      return Complain(streams, "jobs", absl::StrCat("the job is ", state, ": ", job->value("errorMessage", "")),
                      kExitFailed);
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::function<int()> SetUpJobs(CLI::App& app, Streams streams) {
  auto options = std::make_shared<JobsOptions>();
  using Action = std::function<int(const ServiceClient&)>;
  auto chosen = std::make_shared<Action>();
  auto begins = std::make_shared<bool>(false);  // where there may be no jobs yet
  const auto add = [&](const char* name, const char* summary, Action action) {
    CLI::App* verb = app.add_subcommand(name, summary);
    AddPlaceOptions(*verb, &options->place);
    if (std::string(name) != "list") verb->add_option("JOB", options->submission.name, "The job's name")->required();
    verb->callback([chosen, begins, action = std::move(action), submits = std::string(name) == "submit"] {
      *chosen = action;
      *begins = submits;
    });
    return verb;
  };
  CLI::App* submit = add("submit", "Submit a job file, or a module of your own Python code",
                         [=](const ServiceClient& service) { return Submit(*options, service, streams); });
  submit->add_option("--file", options->submission.job.job_file, "A job file; with a module, its settings alone")
      ->type_name("JOB.yaml");
  submit->add_option("--set", options->submission.job.settings, "A key of the job file: training.epochs=3")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  submit->add_option("--scale-tier", options->submission.job.scale_tier, "BASIC, STANDARD_1 or PREMIUM_1")
      ->type_name("TIER");
  submit->add_option("--labels", options->submission.labels, "team=a,kind=b")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  submit->add_option("--job-dir", options->submission.bucket_folder, "What the module gets as --job-dir")
      ->type_name("gs://BUCKET/NAME");
  submit
      ->add_option("--config", options->submission.config,
                   "As of gcloud's --config: trainingInput, and keys of a job file under downpour")
      ->type_name("CONFIG.yaml");
  submit->add_option(kModuleOption, options->submission.code.module,
                     "The Python module that makes the model: trainer.task");
  submit->add_option("--package-path", options->submission.code.package_path, "The folder of its package")
      ->type_name("DIR");
  AddPackagesOption(*submit, "Wheels and sdists, or gs:// of the service's store", &options->submission.code.packages);
  submit->add_option("args", options->submission.code.args, "After --: the arguments of the module's own");
  CLI::App* list = add("list", "All jobs, the newest first",
                       [=](const ServiceClient& service) { return ListJobs(*options, service, streams); });
  list->add_option("--filter", options->filter, "state=RUNNING AND labels.team:a");
  AddFormatOption(*list, "A table, or all that describe shows of each", &options->as_json);
  add("describe", "All of one job, as JSON",
      [=](const ServiceClient& service) { return Describe(*options, service, streams); });
  add("stream-logs", "Its log as it comes, to its end",
      [=](const ServiceClient& service) { return Follow(*options, service, /*with_logs=*/true, streams); });
  add("wait", "Wait for its end",
      [=](const ServiceClient& service) { return Follow(*options, service, false, streams); });
  add("cancel", "End it, after one last checkpoint",
      [=](const ServiceClient& service) { return Cancel(*options, service, streams); });
  add("delete", "Delete one that is over, with its folder",
      [=](const ServiceClient& service) { return Delete(*options, service, streams); });
  app.require_subcommand(1);
  return [=] {
    if (const std::string why = WhyNoPlace(&options->place, *begins); !why.empty()) {
      return Complain(streams, "jobs", why, kExitBadCommandLine);
    }
    const absl::StatusOr<ServiceClient> service = OpenPlace(options->place);
    return service.ok() ? (*chosen)(*service) : Fail(service.status(), streams);
  };
}

}  // namespace

const Verb kJobsVerb = {
    "jobs", "Submit, list, describe, follow, cancel and delete jobs, with or without a service",
    "  downpour jobs submit first --file job.yaml --root ~/jobs\n"
    "  downpour jobs submit wd1 --module-name trainer.task --package-path trainer --root ~/jobs -- --epochs 2\n"
    "  downpour jobs submit tuned --file job.yaml --config search.yaml --root ~/jobs\n"
    "  downpour jobs stream-logs wd1 --root ~/jobs\n"
    "  downpour jobs list --root ~/jobs\n"
    "  downpour jobs list --service https://h0:7000 --token-file token --ca-certificate h0.pem\n",
    "0 done, and what was waited for succeeded; 1 refused, or the job did not succeed; 78 bad job file or --config",
    SetUpJobs};

}  // namespace downpour
