#include "service/service_client.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "service/job.h"
#include "tools/cluster/job_folder.h"

namespace downpour {

using nlohmann::json;

absl::StatusOr<ServiceClient> ServiceClient::Open(const ServiceSettings& settings) {
  constexpr int kTries = 100;
  constexpr auto kPause = std::chrono::milliseconds(50);
  absl::Status last;
  // One that holds the root may be about to begin or to end.
  for (int i = 0; i < kTries; ++i) {
    absl::StatusOr<std::unique_ptr<RunningService>> own = RunningService::Open(settings, {});
    if (own.ok()) {
      const std::string address = (*own)->address();
      return ServiceClient(*std::move(own), address);
    }
    if (!absl::IsAlreadyExists(own.status())) return own.status();
    ServiceClient other(nullptr, ReadTextFile(settings.root + "/address").value_or("http://127.0.0.1:1"));
    last = other.Ask("GET", "/v1/projects/p/jobs?pageSize=1").status();
    if (!absl::IsUnavailable(last)) return other;
    std::this_thread::sleep_for(kPause);
  }
  return last;
}

absl::StatusOr<json> ServiceClient::Ask(const std::string& method, const std::string& path,
                                        const std::string& body) const {
  constexpr time_t kSeconds = 60;
  httplib::Client client(address_);
  client.set_read_timeout(kSeconds);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.body = body;
  if (method != "GET") request.set_header("Content-Length", absl::StrCat(body.size()));
  const httplib::Result result = client.send(request);
  if (!result) return absl::UnavailableError(absl::StrCat("the service at ", address_, " does not answer"));
  const absl::StatusOr<json> answer = ParseJson(result->body);
  if (!answer.ok()) return answer.status();
  if (result->status < 300) return answer;
  const json& error = answer->is_object() ? answer->value("error", json::object()) : json::object();
  const std::string message = error.value("message", absl::StrCat("the service answered ", result->status));
  return result->status == 404 ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

}  // namespace downpour
