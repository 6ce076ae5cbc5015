// ServiceClient: how a command reaches the jobs under a root, whether a service is at work there or not.
//
//   absl::StatusOr<ServiceClient> service = ServiceClient::Open({.root = "~/jobs", ...});
//   absl::StatusOr<nlohmann::json> jobs = service->Ask("GET", "/v1/projects/p/jobs");
//
// Shapes: where no service holds the root this process is the service, until the door's end. What it started continues.
// Errors: of Open, UNAVAILABLE where the service that holds the root does not answer; of Ask, what the service said.
// Tests: tests/process/test_job_service.py.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "service/running_service.h"

namespace downpour {

class ServiceClient {
 public:
  static absl::StatusOr<ServiceClient> Open(const ServiceSettings& settings);
  absl::StatusOr<nlohmann::json> Ask(const std::string& method, const std::string& path,
                                     const std::string& body = "") const;

 private:
  ServiceClient(std::unique_ptr<RunningService> own, std::string address)
      : own_(std::move(own)), address_(std::move(address)) {}
  std::unique_ptr<RunningService> own_;  // none: another process is the service
  std::string address_;
};

}  // namespace downpour
