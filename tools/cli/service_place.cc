#include "tools/cli/service_place.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "schema/text.h"
#include "tools/cli/service_options.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string ServicePlace::Words() const {
  return elsewhere.address.empty() ? absl::StrCat("--root ", ShellWord(service.root))
                                   : absl::StrCat("--service ", elsewhere.address);
}

ServicePlace UsualPlace() {
  ServicePlace place;
  place.service.backend = UsualBackend();
  place.service.recalls_backend = true;
  return place;
}

void AddPlaceOptions(CLI::App& verb, ServicePlace* place) {
  verb.add_option("--root", place->service.root, "The service's folder; default: $DOWNPOUR_JOBS")->type_name("DIR");
  verb.add_option("--python", place->service.backend.python, "The Python of jobs that start where no service runs")
      ->envname("DOWNPOUR_PYTHON")
      ->type_name("PROGRAM");
  verb.add_option("--service", place->elsewhere.address, "The address of a service; default: $DOWNPOUR_SERVICE")
      ->type_name("https://HOST:PORT");
  verb.add_option("--token-file", place->elsewhere.token_file, "The service's token, in a file of mode 0600")
      ->envname("DOWNPOUR_TOKEN_FILE")
      ->type_name("FILE");
  verb.add_option("--ca-certificate", place->elsewhere.ca, "Whose word proves the service's certificate, PEM")
      ->envname("DOWNPOUR_CA_CERTIFICATE")
      ->type_name("FILE");
}

std::string WhyNoPlace(ServicePlace* place, bool begins) {
  std::string& root = place->service.root;
  std::string& address = place->elsewhere.address;
  if (!root.empty() && !address.empty()) return "--root and --service are two places: name one of them";
  if (root.empty() && address.empty()) {
    address = FromEnvironment("DOWNPOUR_SERVICE");
    if (address.empty()) root = FromEnvironment("DOWNPOUR_JOBS");
  }
  if (root.empty() && address.empty()) return "say where the jobs are: --root DIR, or --service https://HOST:PORT";
  std::error_code ignored;
  if (address.empty() && !begins && !fs::exists(root, ignored)) {
    return absl::StrCat("there is no folder ", root, ", so there are no jobs in it: name the one that they were ",
                        "submitted to by --root DIR");
  }
  return "";
}

absl::StatusOr<ServiceClient> OpenPlace(const ServicePlace& place) {
  return place.elsewhere.address.empty() ? ServiceClient::Open(place.service, place.elsewhere)
                                         : ServiceClient::Dial(place.elsewhere);
}

}  // namespace downpour
