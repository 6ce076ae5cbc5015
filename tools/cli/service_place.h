// ServicePlace: where the jobs and models are that a command speaks of: a service's folder, or a service elsewhere.
//
//   AddPlaceOptions(app, &place);
//   if (std::string why = WhyNoPlace(&place, /*begins=*/false); !why.empty()) return Complain(...);
//   absl::StatusOr<ServiceClient> service = OpenPlace(place);
//
// Tests: tests/process/test_job_service.py, test_service_door.py.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "service/service_client.h"

namespace CLI {
class App;
}

namespace downpour {

struct ServicePlace {
  ServiceSettings service = {};
  ServiceAddress elsewhere = {};

  // "--root ~/jobs" or "--service https://h0:7000", for commands that people are told to type.
  std::string Words() const;
};

ServicePlace UsualPlace();
void AddPlaceOptions(CLI::App& verb, ServicePlace* place);
// What the environment says counts where the command line names no place. `begins`: there may be no folder yet.
// Empty: there is a place.
std::string WhyNoPlace(ServicePlace* place, bool begins);
absl::StatusOr<ServiceClient> OpenPlace(const ServicePlace& place);

}  // namespace downpour
