#include "service/http_server.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "schema/text.h"
#include "service/http_answer.h"
#include "service/job_routes.h"
#include "service/page_routes.h"
#include "service/watch_routes.h"

namespace downpour {
namespace {

using httplib::Request;
using httplib::Response;

absl::Status NothingAt(const Request& request) {
  return absl::NotFoundError(
      absl::StrCat("there is nothing at ", OneLine(request.path, 200), ": the service has /v1/projects/P/jobs"));
}

}  // namespace

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
  http.set_pre_routing_handler([this](const Request& request, Response& response) {
    absl::Status status = MayAsk(request);
    // The library would read such a body into memory, whatever its size.
    if (status.ok() && request.method == "PRI") status = absl::InvalidArgumentError("this server speaks HTTP/1.1");
    if (status.ok()) return httplib::Server::HandlerResponse::Unhandled;
    AnswerError(status, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const Request& request, Response& response) {
    if (!response.body.empty() || response.status < 400) return;
    if (response.status == 404) return AnswerError(NothingAt(request), response);
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
  AddJobRoutes(http, service);
  AddLogRoutes(http, service);
  AddStorageRoutes(http, service.objects());
  AddMetricsRoute(http, service);
  AddWatchRoutes(http, service);
  AddPageRoutes(http);
  // Last, since the first that fits is taken. Without them the library would read the body before it looks for a route.
  const auto nothing = [](const Request& request, Response& response, const httplib::ContentReader&) {
    AnswerError(NothingAt(request), response);
  };
  http.Post(".*", nothing);
  http.Put(".*", nothing);
  http.Patch(".*", nothing);
  http.Delete(".*", nothing);
}

absl::Status HttpServer::MayAsk(const httplib::Request& request) const {
  if (absl::Status status = listener_->CheckHost(request); !status.ok()) return status;
  // Whoever follows a link to the page, or has no token yet, gets the page and no job.
  if (request.method == "GET" && IsPageFile(request.path)) return absl::OkStatus();
  const bool reads = request.method == "GET" || request.method == "HEAD" || request.path == kEntriesPath;
  return listener_->CheckCaller(request, reads);
}

}  // namespace downpour
