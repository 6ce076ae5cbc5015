#include "service/http_server.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "schema/text.h"
#include "service/http_answer.h"
#include "service/job_routes.h"
#include "service/model_routes.h"
#include "service/page_routes.h"
#include "service/watch_routes.h"

namespace downpour {
namespace {

using httplib::Request;
using httplib::Response;

absl::Status NothingAt(const Request& request) {
  return absl::NotFoundError(absl::StrCat("there is nothing at ", OneLine(request.path, 200),
                                          ": the service has /v1/projects/P/jobs and /v1/projects/P/models"));
}

// Any of them will do.
Rights RightsFor(const Request& request) {
  const bool reads = request.method == "GET" || request.method == "HEAD" || request.path == kEntriesPath;
  if (AsksForPredictions(request)) return reads ? kMayAsk | kMayLook : kMayAsk;
  if (Deploys(request)) return kMayDeploy;
  return reads ? kMayLook : kMaySubmit;
}

void AnswerNothingAt(const Request& request, Response& response) {
  HasPlainErrors(request.path) ? AnswerPlainError(NothingAt(request), response)
                               : AnswerError(NothingAt(request), response);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(const HttpSettings& settings, JobService& service,
                                                             ModelService& models, std::chrono::milliseconds most) {
  absl::StatusOr<std::unique_ptr<HttpListener>> listener = HttpListener::Open(settings, kMostConnections);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<HttpServer> server(new HttpServer(*std::move(listener), models, most));
  server->Prepare(service);
  return server;
}

void HttpServer::Prepare(JobService& service) {
  httplib::Server& http = listener_->http();
  listener_->KeepWhere([](const Request& request) {
    return HasPlainErrors(request.path) || (request.method == "POST" && request.path.ends_with(":predict"));
  });
  http.set_payload_max_length(static_cast<size_t>(kMostObjectBytes));
  http.set_default_headers(PageHeaders());
  http.set_pre_routing_handler([this](const Request& request, Response& response) {
    absl::Status status = CheckRequest(request);
    // The library would read such a body into memory, whatever its size.
    if (status.ok() && request.method == "PRI") status = absl::InvalidArgumentError("this server speaks HTTP/1.1");
    if (status.ok()) return httplib::Server::HandlerResponse::Unhandled;
    HasPlainErrors(request.path) ? AnswerPlainError(status, response) : AnswerError(status, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const Request& request, Response& response) {
    if (!response.body.empty() || response.status < 400) return;
    if (response.status == 404) return AnswerNothingAt(request, response);
    if (response.status == 413) {
      const absl::Status why =
          absl::OutOfRangeError(absl::StrCat("an object has at most ", kMostObjectBytes, " bytes"));
      return AnswerError(why, response);
    }
    const char* why = response.status == 414   ? "an address has at most 8192 bytes: send a shorter filter or name"
                      : response.status == 416 ? "the Range is outside of the answer: send another one, or none"
                                               : "the request is not understood: send HTTP/1.1, head below 64 KiB";
    AnswerJson(ErrorBody(response.status, why, "INVALID_ARGUMENT"), response);
  });
  http.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    AnswerError(absl::InternalError("the service failed at this request"), response);
  });
  AddPredictionRoutes(http, desk_);
  AddInferenceRoutes(http, desk_);
  AddServingRoutes(http, desk_);
  AddModelRoutes(http, desk_.models(), [this](const Request& request) { return CheckAnyPath(request); });
  AddJobRoutes(http, service);
  AddLogRoutes(http, service);
  AddStorageRoutes(http, service.objects());
  AddMetricsRoute(http, service, desk_.models());
  AddWatchRoutes(http, service);
  AddPageRoutes(http);
  // Last, since the first that fits is taken. Without them the library would read the body before it looks for a route.
  const auto nothing = [](const Request& request, Response& response, const httplib::ContentReader&) {
    AnswerNothingAt(request, response);
  };
  http.Post(".*", nothing);
  http.Put(".*", nothing);
  http.Patch(".*", nothing);
  http.Delete(".*", nothing);
}

absl::Status HttpServer::CheckRequest(const httplib::Request& request) const {
  if (absl::Status status = listener_->CheckHost(request); !status.ok()) return status;
  // Whoever follows a link to the page, or has no token yet, gets the page and no job.
  if (request.method == "GET" && IsPageFile(request.path)) return absl::OkStatus();
  return listener_->CheckCaller(request, RightsFor(request));
}

absl::Status HttpServer::CheckAnyPath(const Request& request) const {
  const absl::Status status = listener_->CheckCaller(request, kMaySubmit);
  if (status.ok()) return status;
  return absl::PermissionDeniedError(
      "who may not submit jobs may deploy from gs:// and from jobs alone: upload the files with gcloud storage cp");
}

}  // namespace downpour
