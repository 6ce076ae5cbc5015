// ServiceClient: how a command reaches a service at an address, or the jobs under a root, whether a service is at work
// there or not.
//
//   absl::StatusOr<ServiceClient> service = ServiceClient::Open({.root = "~/jobs", ...});
//   absl::StatusOr<ServiceClient> service = ServiceClient::Dial({.address = "https://h0:7000", ...});
//   absl::StatusOr<nlohmann::json> jobs = service->Ask("GET", "/v1/projects/p/jobs");
//
// Shapes: where no service holds the root this process is the service, as long as the object lives. What it started
//   continues.
// Errors: of Open, UNAVAILABLE where the service that holds the root does not answer, and those of Dial; of Dial,
//   INVALID_ARGUMENT for an address that is none, a token file that others may read, or no file of certificates. Of
//   Ask, what the service said; UNAUTHENTICATED where it wants a token, or is not who its certificate says.
// Tests: tests/process/test_job_service.py, test_service_door.py.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "service/running_service.h"

namespace downpour {

struct ServiceAddress {
  std::string address = {};     // https://h0:7000
  std::string token_file = {};  // of mode 0600
  std::string ca = {};          // PEM: who vouches for the service's certificate; empty: those of this machine
};

class ServiceClient {
 public:
  // `other`: the token and certificates for a service that holds the root and listens where others reach it.
  static absl::StatusOr<ServiceClient> Open(const ServiceSettings& settings, ServiceAddress other = {});
  static absl::StatusOr<ServiceClient> Dial(const ServiceAddress& where);
  absl::StatusOr<nlohmann::json> Ask(const std::string& method, const std::string& path,
                                     const std::string& body = "") const;

 private:
  ServiceClient() = default;
  std::unique_ptr<RunningService> own_;  // none: another process is the service
  std::string address_, token_, ca_;
};

}  // namespace downpour
