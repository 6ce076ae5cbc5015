#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/human_units.h"
#include "cluster/output_options.h"
#include "cluster/text_table.h"
#include "service/deployed_files.h"
#include "service/job.h"
#include "tools/cli/service_place.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModels = "/v1/projects/p/models";
constexpr auto kOperationPause = std::chrono::milliseconds(200);

struct ModelsOptions {
  ServicePlace place = UsualPlace();
  std::string model, version, origin, description, instances;
  bool as_json = false, logs_requests = false, becomes_default = false, is_live = false;

  std::string ModelPath() const { return absl::StrCat(kModels, "/", model); }
  std::string VersionPath() const { return absl::StrCat(ModelPath(), "/versions/", version); }
};

int FailModels(const absl::Status& status, Streams streams) {
  return Complain(streams, "models", std::string(status.message()), kExitFailed);
}

int SayOr(const absl::StatusOr<json>& answer, const std::string& words, Streams streams) {
  if (!answer.ok()) return FailModels(answer.status(), streams);
  streams.out << words << "\n";
  return kExitDone;
}

int CreateModel(const ModelsOptions& options, const ServiceClient& service, Streams streams) {
  const json body = {{"name", options.model},
                     {"description", options.description},
                     {"onlinePredictionLogging", options.logs_requests}};
  return SayOr(service.Ask("POST", kModels, body.dump()), absl::StrCat("Model ", options.model, " is there"), streams);
}

// A version that was to follow a job looks like that job's origin to its end and beyond: what it came to tells.
std::string OriginIn(const json& version) {
  const std::string origin = Printable(version["origin"].get<std::string>());
  const fs::path found = version.value("deployedFrom", "");
  if (!IsLiveOrigin(origin) || version.value("isLive", false) || found.empty()) return origin;
  return absl::StrCat(origin, ", over: ", Printable(found.filename().string()));
}

int ListModels(const ModelsOptions& options, const ServiceClient& service, Streams streams) {
  const absl::StatusOr<json> all = service.Ask("GET", absl::StrCat(kModels, ":overview"));
  if (!all.ok()) return FailModels(all.status(), streams);
  if (options.as_json) {
    streams.out << (*all)["models"].dump(2) << "\n";
    return kExitDone;
  }
  std::vector<std::vector<std::string>> rows = {{"MODEL", "VERSION", "STATE", "DEFAULT", "FROM", "REQUESTS", "ERRORS"}};
  for (const json& model : (*all)["models"]) {
    const std::string name = model["model"];
    if (model["versions"].empty()) rows.push_back({name, "-", "-", "-", "-", "-", "-"});
    for (const json& version : model["versions"]) {
      rows.push_back({name, version["version"], version["state"], version["isDefault"].get<bool>() ? "yes" : "-",
                      OriginIn(version), absl::StrCat(version["requests"].get<uint64_t>()),
                      absl::StrCat(version["errors"].get<uint64_t>())});
    }
  }
  streams.out << TextTable(rows, 5, 6);
  return kExitDone;
}

int DescribeModel(const ModelsOptions& options, const ServiceClient& service, Streams streams) {
  absl::StatusOr<json> model = service.Ask("GET", options.ModelPath());
  if (!model.ok()) return FailModels(model.status(), streams);
  std::string token;
  (*model)["versions"] = json::array();
  do {
    const absl::StatusOr<json> page =
        service.Ask("GET", absl::StrCat(options.ModelPath(), "/versions?pageSize=100&pageToken=", token));
    if (!page.ok()) return FailModels(page.status(), streams);
    for (const json& version : page->value("versions", json::array())) (*model)["versions"].push_back(version);
    token = page->value("nextPageToken", "");
  } while (!token.empty());
  streams.out << model->dump(2) << "\n";
  return kExitDone;
}

int DeleteModel(const ModelsOptions& options, const ServiceClient& service, Streams streams) {
  const bool is_model = options.version.empty();
  return SayOr(service.Ask("DELETE", is_model ? options.ModelPath() : options.VersionPath(), "{}"),
               is_model
                   ? absl::StrCat("Model ", options.model, " is deleted")
                   : absl::StrCat("Version ", options.version, " of ", options.model, " is deleted, with its files"),
               streams);
}

int SetDefault(const ModelsOptions& options, const ServiceClient& service, Streams streams) {
  return SayOr(service.Ask("POST", options.VersionPath() + ":setDefault", "{}"),
               absl::StrCat("Version ", options.version, " is the default of ", options.model), streams);
}

// A path of this machine as an absolute one; what names a job or gs:// stays as it is.
std::string OriginFrom(const std::string& said) {
  fs::path path = said;
  if (path.filename() == "latest" || path.filename() == "best") path = path.parent_path();
  std::error_code error;
  const bool is_path = said.find('/') != std::string::npos || said.starts_with('.') || path.has_extension();
  if (said.starts_with("gs://") || !is_path || !fs::exists(path, error)) return said;
  return fs::absolute(said).lexically_normal();
}

absl::StatusOr<json> Ended(json operation, const ServiceClient& service) {
  while (!operation.value("done", false)) {
    std::this_thread::sleep_for(kOperationPause);
    absl::StatusOr<json> now = service.Ask("GET", absl::StrCat("/v1/", operation["name"].get<std::string>()));
    if (!now.ok()) return now.status();
    operation = *std::move(now);
  }
  if (!operation.contains("error")) return operation;
  return absl::FailedPreconditionError(operation["error"].value("message", ""));
}

int Deploy(const ModelsOptions& options, const ServiceClient& service, Streams streams) {
  if (absl::IsNotFound(service.Ask("GET", options.ModelPath()).status())) {
    if (const int code = CreateModel(options, service, streams); code != kExitDone) return code;
  }
  const json body = {{"name", options.version},
                     {"deploymentUri", OriginFrom(options.origin) + (options.is_live ? kLiveSuffix : "")},
                     {"description", options.description}};
  absl::StatusOr<json> operation = service.Ask("POST", options.ModelPath() + "/versions", body.dump());
  if (operation.ok()) operation = Ended(*std::move(operation), service);
  if (!operation.ok()) return FailModels(operation.status(), streams);
  streams.out << "Version " << options.version << " of " << options.model << " is ready, from "
              << Printable((*operation)["response"].value("deployedFrom", "")) << "\n";
  if (options.becomes_default) return SetDefault(options, service, streams);
  streams.err << "Next: downpour models predict " << options.model << " --version " << options.version
              << " --instances rows.json " << options.place.Words() << "\n";
  return kExitDone;
}

// Of one instance on each line.
absl::StatusOr<json> InstancesIn(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  json instances = json::array();
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    absl::StatusOr<json> instance = ParseJson(line);
    if (!instance.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", std::string(instance.status().message()),
                                                     "; each line is one instance"));
    }
    instances.push_back(*std::move(instance));
  }
  return instances;
}

int Predict(const ModelsOptions& options, const ServiceClient& service, Streams streams) {
  const absl::StatusOr<json> instances = InstancesIn(options.instances);
  if (!instances.ok()) return FailModels(instances.status(), streams);
  const std::string path = options.version.empty() ? options.ModelPath() : options.VersionPath();
  const absl::StatusOr<json> answer = service.Ask("POST", path + ":predict", json{{"instances", *instances}}.dump());
  if (!answer.ok()) return FailModels(answer.status(), streams);
  for (const json& prediction : (*answer)["predictions"]) streams.out << prediction.dump() << "\n";
  return kExitDone;
}

std::function<int()> SetUpModels(CLI::App& app, Streams streams) {
  auto options = std::make_shared<ModelsOptions>();
  using Act = int (*)(const ModelsOptions&, const ServiceClient&, Streams);
  auto chosen = std::make_shared<Act>(nullptr);
  const auto add = [&](const char* name, const char* summary, Act act) {
    CLI::App* verb = app.add_subcommand(name, summary);
    AddPlaceOptions(*verb, &options->place);
    if (std::string(name) != "list") verb->add_option("MODEL", options->model, "The model's name")->required();
    verb->callback([chosen, act] { *chosen = act; });
    return verb;
  };
  const auto add_description = [&](CLI::App* verb) {
    verb->add_option("--description", options->description, "For people");
    verb->add_flag("--enable-logging", options->logs_requests, "Keep a line for each request, where the model is new");
  };
  CLI::App* deploy = add("deploy", "Make a version from a job, a checkpoint or an exported file", Deploy);
  deploy->add_option("VERSION", options->version, "The version's name")->required();
  deploy->add_option("ORIGIN", options->origin, "wd1, wd1/best, gs://B/wd1, runs/first/latest or model.safetensors")
      ->required();
  deploy->add_flag("--live", options->is_live, "It answers by what the job's servers hold, as long as the job trains");
  deploy->add_flag("--set-default", options->becomes_default, "It answers for the model once it is ready");
  add_description(deploy);
  AddFormatOption(*add("list", "All versions of all models", ListModels), "A table, or all numbers", &options->as_json);
  add("describe", "All of one model, as JSON", DescribeModel);
  CLI::App* predict = add("predict", "Ask a model, one row on each line", Predict);
  predict->add_option("--instances", options->instances, "One JSON instance on each line")
      ->required()
      ->type_name("FILE");
  predict->add_option("--version", options->version, "Without it the default one");
  add("set-default", "Let another version answer for the model", SetDefault)
      ->add_option("VERSION", options->version, "The version's name")
      ->required();
  add_description(add("create", "Make a model that has no version yet", CreateModel));
  add("delete", "Delete a version, or a model that has none", DeleteModel)
      ->add_option("VERSION", options->version, "The version; without it the model");
  app.require_subcommand(1);
  return [=] {
    const bool begins = *chosen == CreateModel || *chosen == Deploy;
    if (const std::string why = WhyNoPlace(&options->place, begins); !why.empty()) {
      return Complain(streams, "models", why, kExitBadCommandLine);
    }
    const absl::StatusOr<ServiceClient> service = OpenPlace(options->place);
    return service.ok() ? (*chosen)(*options, *service, streams) : FailModels(service.status(), streams);
  };
}

}  // namespace

const Verb kModelsVerb = {"models", "Deploy trained models to a service, and ask them for predictions",
                          "  downpour models deploy digits v1 wd1/best --root ~/jobs\n"
                          "  downpour models predict digits --instances rows.json --root ~/jobs\n"
                          "  downpour models deploy digits now wd1 --live --root ~/jobs\n"
                          "  downpour models deploy digits v2 runs/first --set-default --root ~/jobs\n"
                          "  downpour models list --service https://h0:7000 --token-file token\n",
                          "0 done, 1 refused, or the version cannot answer", SetUpModels};

}  // namespace downpour
