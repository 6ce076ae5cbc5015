#include "service/running_service.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/posix/whole_file.h"
#include "schema/host_port.h"

namespace downpour {
namespace {

// Where the store of a service on loopback stays while it is started again and again: jobs outlive it. Another user may
// have the port of one that drew it, once it is gone. Elsewhere clients need a token, which no job is given.
std::string LastingAddress(const HttpSettings& http) {
  const std::optional<HostPort> listen = ParseHostPort(http.listen);
  const bool is_lasting = listen && listen->port != 0 && http.certificate.empty() &&
                          (listen->host == "127.0.0.1" || listen->host == "localhost");
  return is_lasting ? absl::StrCat("http://127.0.0.1:", listen->port) : "";
}

// gs://models/wd1/ and gs://models/wd1 are one folder.
std::string WithoutSlash(std::string uri) {
  while (uri.ends_with('/')) uri.pop_back();
  return uri;
}

// What a version may be deployed from.
OriginLookup LookupIn(const std::string& root, JobService& service) {
  const auto folder_of = [&service](const std::string& name) { return service.FolderOf(name).job_dir(); };
  const auto job_with = [&service, folder_of](const std::string& uri) {
    const absl::StatusOr<std::vector<Job>> jobs = service.All();
    std::string newest;
    for (const Job& job : jobs.ok() ? *jobs : std::vector<Job>()) {
      const std::string job_dir = nlohmann::json::parse(job.training_input).value("jobDir", "");
      if (!job_dir.empty() && WithoutSlash(job_dir) == WithoutSlash(uri)) newest = folder_of(job.name);
    }
    return newest;
  };
  return {
      .root = root,
      .path_of = [&service](const std::string& uri) { return service.objects().PathOf(uri); },
      .job_with = job_with,
      .job_named = [&service, folder_of](
                       const std::string& name) { return service.Find(name).ok() ? folder_of(name) : std::string(); }};
}

PythonServing ServingBy(const ServiceSettings& settings) {
  PythonServing python = settings.python_models;
  if (!settings.backend.python.empty()) python.interpreter = settings.backend.python;
  return python;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunningService>> RunningService::Open(ServiceSettings settings,
                                                                     const HttpSettings& http) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // what is known of a run is in its folder, not in its wait status
  settings.backend.root = std::filesystem::absolute(settings.root).lexically_normal();
  settings.backend.address = LastingAddress(http);
  settings.root = settings.backend.root;
  absl::StatusOr<std::unique_ptr<JobService>> service = JobService::Open(settings);
  if (!service.ok()) return service.status();
  for (const std::string& sentence : (*service)->found())
    std::cerr << absl::StrCat("the job service: ", sentence, "\n");
  absl::StatusOr<std::unique_ptr<ModelService>> models =
      ModelService::Open(LookupIn(settings.root, **service), ServingBy(settings));
  if (!models.ok()) return models.status();
  if (settings.opens_models) (*models)->OpenAll();
  (*service)->FindModelsBy([look_up = LookupIn(settings.root, **service),
                            it = models->get()](const BatchInput& input) -> absl::StatusOr<FoundOrigin> {
    if (!input.uri.empty()) return FindOrigin(input.uri, look_up);
    absl::StatusOr<std::string> place = it->PlaceOf(input.model, input.version);
    if (!place.ok()) return place.status();
    return FoundOrigin{.path = *std::move(place)};
  });
  absl::StatusOr<std::unique_ptr<HttpServer>> server =
      HttpServer::Open(http, **service, **models, settings.python_models.call);
  if (!server.ok()) return server.status();
  const absl::Status told = WriteWhole(settings.root + "/address", (*server)->address(), 0600, WhereThere::kReplace);
  if (!told.ok()) return told;
  return std::unique_ptr<RunningService>(
      new RunningService(*std::move(service), *std::move(models), *std::move(server)));
}

RunningService::RunningService(std::unique_ptr<JobService> service, std::unique_ptr<ModelService> models,
                               std::unique_ptr<HttpServer> http)
    : service_(std::move(service)),
      models_(std::move(models)),
      http_(std::move(http)),
      answers_([this] { http_->Run(); }),
      works_([this] { Work(); }) {}

RunningService::~RunningService() {
  {
    const std::lock_guard hold(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  http_->Stop();  // before its models: what they refuse then would be asked of them again
  works_.join();
  models_->End();  // requests may wait for the user's code
  answers_.join();
}

void RunningService::Work() {
  constexpr auto kPause = std::chrono::milliseconds(200);
  for (bool last = false;;) {
    if (const absl::Status status = service_->Work(); !status.ok()) {
      std::cerr << absl::StrCat("the job service: ", std::string(status.message()), "; it is tried again\n");
    }
    if (last) return;
    std::unique_lock hold(mutex_);
    wake_.wait_for(hold, kPause, [this] { return ends_; });
    last = ends_;  // what was asked for since the last round is begun still
  }
}

}  // namespace downpour
