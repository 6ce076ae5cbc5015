#include "service/service_client.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cluster/job_folder.h"
#include "service/job.h"

namespace downpour {

using nlohmann::json;

absl::StatusOr<ServiceClient> ServiceClient::Dial(const ServiceAddress& where) {
  absl::StatusOr<std::string> token = ReadToken(where.token_file);
  if (!token.ok()) return token.status();
  const bool is_address = where.address.starts_with("http://") || where.address.starts_with("https://");
  if (!is_address) {
    return absl::InvalidArgumentError(
        absl::StrCat("the service's address is like https://h0:7000, and not ", where.address));
  }
  const bool is_here = where.address.starts_with("http://127.0.0.1:") || where.address.starts_with("http://localhost:");
  if (!token->empty() && !is_here && where.address.starts_with("http://")) {
    return absl::InvalidArgumentError("a token is sent by https:// alone: correct --service");
  }
  if (!where.ca.empty() && access(where.ca.c_str(), R_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read the certificates in ", where.ca));
  }
  ServiceClient service;
  service.address_ = std::string(absl::StripSuffix(where.address, "/"));
  service.token_ = *std::move(token);
  service.ca_ = where.ca;
  return service;
}

absl::StatusOr<ServiceClient> ServiceClient::Open(const ServiceSettings& settings, ServiceAddress other) {
  constexpr int kTries = 100;
  constexpr auto kPause = std::chrono::milliseconds(50);
  absl::Status last;
  // One that holds the root may be about to begin or to end.
  for (int i = 0; i < kTries; ++i) {
    absl::StatusOr<std::unique_ptr<RunningService>> own = RunningService::Open(settings, {});
    if (own.ok()) {
      ServiceClient service;
      service.address_ = (*own)->address();
      service.own_ = *std::move(own);
      return service;
    }
    if (!absl::IsAlreadyExists(own.status())) return own.status();
    other.address = ReadTextFile(settings.root + "/address").value_or("http://127.0.0.1:1");
    absl::StatusOr<ServiceClient> service = Dial(other);
    if (!service.ok()) return service;
    last = service->Ask("GET", "/v1/projects/p/jobs?pageSize=1").status();
    if (absl::IsUnauthenticated(last)) return last;
    if (!absl::IsUnavailable(last)) return service;
    std::this_thread::sleep_for(kPause);
  }
  return last;
}

absl::StatusOr<json> ServiceClient::Ask(const std::string& method, const std::string& path,
                                        const std::string& body) const {
  constexpr time_t kSeconds = 60;
  httplib::Client client(address_);
  if (!client.is_valid()) return absl::InvalidArgumentError(absl::StrCat(address_, " is no service's address"));
  if (!ca_.empty()) client.set_ca_cert_path(ca_.c_str());
  if (!token_.empty()) client.set_bearer_token_auth(token_);
  client.set_read_timeout(kSeconds);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.body = body;
  if (method != "GET") request.set_header("Content-Length", absl::StrCat(body.size()));
  const httplib::Result result = client.send(request);
  const bool is_trusted =
      result.error() != httplib::Error::SSLServerVerification && result.error() != httplib::Error::SSLLoadingCerts;
  if (!result && !is_trusted) {
    return absl::UnauthenticatedError(
        absl::StrCat("nobody vouches for the certificate of ", address_, ", or it has another name: give the ",
                     "certificate, or that of its issuer, by --ca-certificate, and the name that stands in it"));
  }
  if (!result)
    return absl::UnavailableError(absl::StrCat("the service at ", address_,
                                               " does not answer: start it by downpour serve, or correct --service"));
  const absl::StatusOr<json> answer = ParseJson(result->body);
  if (!answer.ok()) return answer.status();
  if (result->status < 300) return answer;
  const json& error = answer->is_object() ? answer->value("error", json::object()) : json::object();
  const std::string message = error.value("message", absl::StrCat("the service answered ", result->status));
  if (result->status == 401) {
    return absl::UnauthenticatedError(absl::StrCat("the service at ", address_, " wants its token: --token-file FILE"));
  }
  return result->status == 404 ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

}  // namespace downpour
