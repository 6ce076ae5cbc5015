#include "service/job_routes.h"

namespace downpour {
namespace {

// openapi.json, as the build made it.
constexpr const char kOpenApi[] =
#include "service/openapi.inc"
    ;

}  // namespace

void AddOpenApiRoute(httplib::Server& server) {
  server.Get("/openapi.json", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(kOpenApi, sizeof(kOpenApi) - 1, "application/json");
  });
}

}  // namespace downpour
