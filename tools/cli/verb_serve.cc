#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/posix/process.h"
#include "schema/text.h"
#include "service/running_service.h"
#include "tools/cli/doctor_host.h"
#include "tools/cli/service_options.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct ServeOptions {
  std::string root;
  BackendSettings backend = UsualBackend();
  HttpSettings http;
  int python_processes = 1;
  int prediction_seconds = 30;
};

// By which gcloud comes through the door.
std::string CredentialsOf(const HttpSettings& http) {
  if (http.token_file.empty()) return "CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true";
  return absl::StrCat("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE=", ShellWord(http.token_file),
                      " CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=/ABSOLUTE/PATH/OF/CA.pem");
}

int Serve(const ServeOptions& options, Streams streams) {
  if (const std::string why = WhyFilesEndEarly(FileSizeLimit(), kMostCodeBytes); !why.empty()) {
    return Complain(streams, "serve", why, kExitFailed);
  }
  const sigset_t ends = SigtermAnd({SIGINT});
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread, so that this one alone takes them
  int ended_by = 0;
  {
    const absl::StatusOr<std::unique_ptr<RunningService>> service =
        RunningService::Open({.root = options.root,
                              .backend = options.backend,
                              .waits_for_root = true,
                              .opens_models = true,
                              .python_models = {.processes = options.python_processes,
                                                .call = std::chrono::seconds(options.prediction_seconds)}},
                             options.http);
    if (!service.ok()) {
      return Complain(streams, "serve", std::string(service.status().message()),
                      absl::IsInvalidArgument(service.status()) ? kExitBadCommandLine : kExitFailed);
    }
    const std::string& address = (*service)->address();
    streams.err << "Serving jobs at " << address << "\nWith gcloud:\n"
                << "  export CLOUDSDK_API_ENDPOINT_OVERRIDES_ML=" << address << "/\n"
                << "  export CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE=" << address << "/\n"
                << "  export CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING=" << address << "/\n"
                << "  export CLOUDSDK_CORE_PROJECT=p " << CredentialsOf(options.http) << std::endl;
    sigwait(&ends, &ended_by);
  }
  streams.err << "Running jobs continue; downpour serve finds them again" << std::endl;
  return kExitSignalled + ended_by;
}

std::function<int()> SetUpServe(CLI::App& app, Streams streams) {
  auto options = std::make_shared<ServeOptions>();
  app.add_option("--root", options->root, "The service's folder: its jobs and its gs://")->required()->type_name("DIR");
  app.add_option("--listen", options->http.listen, "Where it listens; others than this user need a token")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--python", options->backend.python, "The Python that runs the code of jobs")
      ->envname("DOWNPOUR_PYTHON")
      ->type_name("PROGRAM");
  app.add_option("--python-processes", options->python_processes,
                 "Processes that answer for each model of Python code; each takes the memory of its libraries")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--prediction-seconds", options->prediction_seconds, "How long a request for predictions may compute")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--token-file", options->http.token_file, "A file of mode 0600 with the token that clients send");
  app.add_option("--viewer-token-file", options->http.viewer_token_file,
                 "Likewise, the token of those who may only read, such as Prometheus");
  app.add_option("--asker-token-file", options->http.asker_token_file,
                 "Likewise, of those who may ask for predictions and no more");
  app.add_option("--submitter-token-file", options->http.submitter_token_file,
                 "Likewise, of those who may submit jobs, and look");
  app.add_option("--deployer-token-file", options->http.deployer_token_file,
                 "Likewise, of those who may deploy models, ask for predictions, and look");
  app.add_option("--certificate", options->http.certificate, "A PEM file, for TLS");
  app.add_option("--private-key", options->http.key, "The certificate's, a PEM file");
  AddBackendOptions(app, &options->backend);
  return [options, streams] { return Serve(*options, streams); };
}

}  // namespace

const Verb kServeVerb = {"serve", "Run the job service: jobs that wait their turn, by HTTP",
                         "  downpour serve --root ~/jobs --listen 127.0.0.1:7000\n"
                         "  downpour serve --root ~/jobs --listen 10.0.0.5:7000 --token-file token \\\n"
                         "      --certificate cert.pem --private-key key.pem\n"
                         "  downpour serve --root ~/jobs --backend ssh --hosts lab.hosts\n"
                         "  downpour serve --root /shared/jobs --backend slurm --partition main \\\n"
                         "      --sbatch-option=--time=12:00:00\n",
                         "0 help was shown, 1 its root or address is taken, or files may not be as long as a package",
                         SetUpServe};

}  // namespace downpour
