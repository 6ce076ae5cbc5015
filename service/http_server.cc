#include "service/http_server.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "schema/text.h"
#include "service/http_answer.h"
#include "service/job_routes.h"
#include "service/page_routes.h"
#include "service/watch_routes.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(const HttpSettings& settings, JobService& service) {
  absl::StatusOr<std::unique_ptr<HttpListener>> listener = HttpListener::Open(settings, kMostConnections);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<HttpServer> server(new HttpServer(*std::move(listener)));
  server->Prepare(service);
  return server;
}

void HttpServer::Prepare(JobService& service) {
  httplib::Server& http = listener_->http();
  http.set_payload_max_length(static_cast<size_t>(kMostObjectBytes));
  http.set_default_headers(PageHeaders());
  http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const absl::Status status = MayAsk(request);
    if (status.ok()) return httplib::Server::HandlerResponse::Unhandled;
    AnswerError(status, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty() || response.status < 400) return;
    if (response.status == 404) {
      return AnswerError(absl::NotFoundError(absl::StrCat("there is nothing at ", OneLine(request.path, 200),
                                                          ": the service has /v1/projects/P/jobs")),
                         response);
    }
    AnswerJson(ErrorBody(response.status, "the request is not understood", "INVALID_ARGUMENT"), response);
  });
  http.set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
    AnswerError(absl::InternalError("the service failed at this request"), response);
  });
  AddJobRoutes(http, service);
  AddLogRoutes(http, service);
  AddStorageRoutes(http, service.objects());
  AddMetricsRoute(http, service);
  AddWatchRoutes(http, service);
  AddPageRoutes(http);
}

absl::Status HttpServer::MayAsk(const httplib::Request& request) const {
  if (absl::Status status = listener_->CheckHost(request); !status.ok()) return status;
  // Whoever follows a link to the page, or has no token yet, gets the page and no job.
  if (request.method == "GET" && IsPageFile(request.path)) return absl::OkStatus();
  return listener_->CheckCaller(request);
}

}  // namespace downpour
