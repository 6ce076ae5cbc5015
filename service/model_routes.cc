#include "service/model_routes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/nearest_name.h"
#include "schema/text.h"
#include "service/filter.h"
#include "service/http_answer.h"
#include "service/job.h"

namespace downpour {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr const char* kProject = R"(/v1/projects/([^/]+))";
constexpr int kUsualPage = 20, kMostPage = 100;
// A version that is deployed meanwhile answers its creation at once, so that gcloud need not ask again after 5 s.
constexpr auto kWaitForDeployment = std::chrono::seconds(2);

// A resource, and by what a page's token names it.
using Item = std::pair<std::string, json>;

absl::Status CheckField(const std::string& field, const std::vector<std::string>& known) {
  if (absl::c_linear_search(known, field) || absl::StartsWith(field, "labels.")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the filter's field ", OneLine(field, 100),
                                                 " is none here: there are ", absl::StrJoin(known, ", "),
                                                 ", labels.KEY", DidYouMean(field, known)));
}

// A page of `items`, in their order. The token names its last one.
absl::StatusOr<json> PageOf(const Request& request, const char* name, const std::vector<std::string>& fields,
                            const std::vector<Item>& items) {
  const absl::StatusOr<Filter> filter = Filter::Parse(request.get_param_value("filter"));
  if (!filter.ok()) return filter.status();
  const absl::Status fits = filter->CheckEach(
      [&](const std::string& field, const std::string&, const std::string&) { return CheckField(field, fields); });
  if (!fits.ok()) return fits;
  const absl::StatusOr<int> size = PageSize(request.get_param_value("pageSize"), kUsualPage, kMostPage);
  if (!size.ok()) return size.status();
  auto from = items.begin();
  if (const std::string token = request.get_param_value("pageToken"); !token.empty()) {
    from = std::ranges::find(items, token, &Item::first);
    if (from == items.end()) return ForeignToken();
    ++from;
  }
  json answer = json::object();
  std::string last;
  for (; from != items.end(); ++from) {
    if (!filter->Holds(from->second)) continue;
    if (answer.contains(name) && static_cast<int>(answer[name].size()) == *size) {
      answer["nextPageToken"] = last;
      break;
    }
    last = from->first;
    answer[name].push_back(from->second);
  }
  return answer;
}

// How fresh a version is that follows a job in training, where it answers.
void AddFreshness(const VersionStatus& version, json* resource) {
  if (!version.is_live) return;
  json fresh = json::object();
  if (version.age_seconds) fresh["ageSeconds"] = *version.age_seconds;
  const RecentPredictions recent = version.meter->Recent(PredictionMeter::Clock::now());
  if (recent.p50_age_seconds > 0) {
    fresh["p50Seconds"] = recent.p50_age_seconds;
    fresh["p99Seconds"] = recent.p99_age_seconds;
  }
  if (!fresh.empty()) (*resource)["freshness"] = std::move(fresh);
}

json VersionResource(const VersionStatus& version, const std::string& project) {
  json resource =
      ResourceOf(version.version,
                 {.project = project, .is_default = version.is_default, .last_used_ms = version.meter->last_used_ms()});
  AddFreshness(version, &resource);
  return resource;
}

json ModelResource(const ModelStatus& model, const std::string& project) {
  const VersionStatus* usual = model.Default();
  return ResourceOf(model.model, project, usual == nullptr ? json() : VersionResource(*usual, project));
}

// With what it made or changed, as that is now.
json OperationResource(const Operation& operation, const std::string& project, const ModelService& models) {
  json made;
  if (operation.type == OperationType::kUpdateModel) {
    if (const auto model = models.Find(operation.model); model.ok()) made = ModelResource(*model, project);
  } else if (operation.type == OperationType::kCreateVersion || operation.type == OperationType::kUpdateVersion) {
    const auto version = models.FindVersion(operation.model, operation.version);
    if (version.ok()) made = VersionResource(*version, project);
  }
  return ResourceOf(operation, project, std::move(made));
}

// A handler whose operation, model or version is told as a resource of the project that the path names.
class Handlers {
 public:
  explicit Handlers(ModelService& models) : models_(models) {}

  absl::StatusOr<json> Tell(const Request& request, const absl::StatusOr<ModelStatus>& model) const {
    if (!model.ok()) return model.status();
    return ModelResource(*model, request.matches[1]);
  }
  absl::StatusOr<json> Tell(const Request& request, const absl::StatusOr<VersionStatus>& version) const {
    if (!version.ok()) return version.status();
    return VersionResource(*version, request.matches[1]);
  }
  absl::StatusOr<json> Tell(const Request& request, const absl::StatusOr<Operation>& operation) const {
    if (!operation.ok()) return operation.status();
    return OperationResource(*operation, request.matches[1], models_);
  }

  absl::StatusOr<json> ListModels(const Request& request) const {
    std::vector<Item> items;
    for (const ModelStatus& model : models_.All()) {
      items.emplace_back(model.model.name, ModelResource(model, request.matches[1]));
    }
    return PageOf(request, "models", {"name", "description", "etag"}, items);
  }

  absl::StatusOr<json> ListVersions(const Request& request) const {
    const absl::StatusOr<ModelStatus> model = models_.Find(request.matches[2]);
    if (!model.ok()) return model.status();
    std::vector<Item> items;
    for (const VersionStatus& version : model->versions) {
      items.emplace_back(version.version.name, VersionResource(version, request.matches[1]));
    }
    return PageOf(request, "versions",
                  {"name", "description", "etag", "state", "deploymentUri", "createTime", "errorMessage"}, items);
  }

  absl::StatusOr<json> ListOperations(const Request& request) const {
    std::vector<Item> items;
    for (const Operation& operation : models_.Operations()) {
      items.emplace_back(operation.name, OperationResource(operation, request.matches[1], models_));
    }
    return PageOf(request, "operations", {"name", "done"}, items);
  }

  absl::StatusOr<json> CreateModel(const Request& request, const std::string& body) const {
    absl::StatusOr<Model> model = ReadModel(body);
    if (!model.ok()) return model.status();
    return Tell(request, models_.CreateModel(*std::move(model)));
  }

  absl::StatusOr<json> CreateVersion(const Request& request, const std::string& body, const CheckOrigin& may) const {
    absl::StatusOr<ModelVersion> version = ReadVersion(request.matches[2], body);
    if (!version.ok()) return version.status();
    if (IsAnyPath(version->origin, models_.root())) {
      if (const absl::Status status = may(request); !status.ok()) return status;
    }
    const absl::StatusOr<Operation> operation = models_.CreateVersion(*std::move(version));
    if (!operation.ok()) return operation.status();
    return Tell(request, models_.WaitFor(operation->name, kWaitForDeployment));
  }

  absl::StatusOr<json> PatchModelOf(const Request& request, const std::string& body) const {
    const std::string mask = request.get_param_value("updateMask");
    return Tell(request,
                models_.UpdateModel(request.matches[2], [&](Model* model) { return PatchModel(mask, body, model); }));
  }

  absl::StatusOr<json> PatchVersionOf(const Request& request, const std::string& body) const {
    const std::string mask = request.get_param_value("updateMask");
    return Tell(request, models_.UpdateVersion(request.matches[2], request.matches[3], [&](ModelVersion* version) {
      return PatchVersion(mask, body, version);
    }));
  }

 private:
  ModelService& models_;
};

// Numbers of the models' versions, for the page.
json RowsOf(const ModelStatus& model) {
  const auto now = PredictionMeter::Clock::now();
  json versions = json::array();
  for (const VersionStatus& one : model.versions) {
    const PredictionCounts all = one.meter->Counts();
    const RecentPredictions recent = one.meter->Recent(now);
    json row = {{"version", one.version.name},
                {"state", NameOf(one.version.state)},
                {"isDefault", one.is_default},
                {"isOpen", one.is_open},
                {"isLive", one.is_live && one.version.state == VersionState::kReady},
                {"origin", one.version.origin},
                {"createTime", TimeText(one.version.created_ms)},
                {"requests", all.requests},
                {"errors", all.errors},
                {"rows", all.rows},
                {"requestsPerSecond", recent.requests_per_second},
                {"rowsPerSecond", recent.rows_per_second},
                {"errorsPerSecond", recent.errors_per_second}};
    if (recent.p50_seconds > 0) row["p50Seconds"] = recent.p50_seconds, row["p99Seconds"] = recent.p99_seconds;
    AddFreshness(one, &row);
    if (!one.version.found.empty()) row["deployedFrom"] = one.version.found;
    if (!one.version.error.empty()) row["errorMessage"] = one.version.error;
    versions.push_back(std::move(row));
  }
  return {{"model", model.model.name}, {"description", model.model.description}, {"versions", std::move(versions)}};
}

bool IsUnderModels(const Request& request) {
  static const std::regex kModels(R"(/v1/projects/[^/]+/(models|operations)([/:].*)?)");
  return std::regex_match(request.path, kModels);
}

}  // namespace

bool HasPlainErrors(const std::string& path) {
  return path.starts_with("/v1/models") || path == "/v2" || path.starts_with("/v2/models") ||
         path.starts_with("/v2/health");
}

bool AsksForPredictions(const Request& request) {
  if (HasPlainErrors(request.path)) return true;
  return request.method == "GET" ? IsUnderModels(request)
                                 : request.path.ends_with(":predict") || request.path.ends_with(":explain");
}

bool Deploys(const Request& request) { return request.method != "GET" && IsUnderModels(request); }

void AddModelRoutes(httplib::Server& server, ModelService& models, CheckOrigin may_name_any_path) {
  const auto handlers = std::make_shared<const Handlers>(models);
  const std::string all = absl::StrCat(kProject, "/models"), model = all + "/([A-Za-z0-9_]+)";
  const std::string versions = model + "/versions", version = versions + "/([A-Za-z0-9_]+)";
  const std::string operations = absl::StrCat(kProject, "/operations");
  using Get = absl::StatusOr<json> (Handlers::*)(const Request&) const;
  const auto get = [&](const std::string& path, Get act) {
    server.Get(path, [handlers, act](const Request& request, Response& response) {
      AnswerOr((handlers.get()->*act)(request), response);
    });
  };
  get(all, &Handlers::ListModels);
  get(versions, &Handlers::ListVersions);
  get(operations, &Handlers::ListOperations);
  server.Get(model, [&models, handlers](const Request& request, Response& response) {
    AnswerOr(handlers->Tell(request, models.Find(request.matches[2])), response);
  });
  server.Get(version, [&models, handlers](const Request& request, Response& response) {
    AnswerOr(handlers->Tell(request, models.FindVersion(request.matches[2], request.matches[3])), response);
  });
  server.Get(operations + "/([A-Za-z0-9_]+)", [&models, handlers](const Request& request, Response& response) {
    AnswerOr(handlers->Tell(request, models.FindOperation(request.matches[2])), response);
  });
  server.Get(all + ":overview", [&models](const Request&, Response& response) {
    json rows = json::array();
    for (const ModelStatus& one : models.All()) rows.push_back(RowsOf(one));
    AnswerJson({{"models", std::move(rows)}}, response);
  });
  const auto act = [&](const auto& add, const std::string& path, BodyHandler handler) {
    (server.*add)(path, WithBody(std::move(handler)));
  };
  using Add = httplib::Server& (httplib::Server::*)(const std::string&, httplib::Server::HandlerWithContentReader);
  const Add post = &httplib::Server::Post, patch = &httplib::Server::Patch, remove = &httplib::Server::Delete;
  act(post, all,
      [handlers](const Request& request, const std::string& body) { return handlers->CreateModel(request, body); });
  act(post, versions, [handlers, may_name_any_path](const Request& request, const std::string& body) {
    return handlers->CreateVersion(request, body, may_name_any_path);
  });
  act(post, version + ":setDefault", [handlers, &models](const Request& request, const std::string&) {
    return handlers->Tell(request, models.SetDefault(request.matches[2], request.matches[3]));
  });
  act(patch, model,
      [handlers](const Request& request, const std::string& body) { return handlers->PatchModelOf(request, body); });
  act(patch, version,
      [handlers](const Request& request, const std::string& body) { return handlers->PatchVersionOf(request, body); });
  act(remove, model, [handlers, &models](const Request& request, const std::string&) {
    return handlers->Tell(request, models.DeleteModel(request.matches[2]));
  });
  act(remove, version, [handlers, &models](const Request& request, const std::string&) {
    return handlers->Tell(request, models.DeleteVersion(request.matches[2], request.matches[3]));
  });
  for (const char* refused : {":getIamPolicy", ":setIamPolicy", ":testIamPermissions"}) {
    const auto answer = [](const Request&, const std::string&) -> absl::StatusOr<json> {
      return absl::InvalidArgumentError(
          "models have no policies here: who may ask and who may deploy is told by tokens (docs/SECURITY.md)");
    };
    act(post, model + refused, answer);
    server.Get(model + refused,
               [answer](const Request& request, Response& response) { AnswerOr(answer(request, ""), response); });
  }
}

}  // namespace downpour
