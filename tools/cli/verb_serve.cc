#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/driver/posix_whole_file.h"
#include "service/http_server.h"
#include "service/job_service.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string root;
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  HttpSettings http;
};

// Works every fifth of a second on a thread of its own, until it is destroyed.
class Rounds {
 public:
  Rounds(JobService& service, Streams streams)
      : thread_([this, &service, streams] {
          constexpr auto kPause = std::chrono::milliseconds(200);
          std::unique_lock hold(mutex_);
          while (!ends_) {
            hold.unlock();
            if (const absl::Status status = service.Work(); !status.ok()) {
              streams.err << "downpour serve: " << status.message() << "; it is tried again" << std::endl;
            }
            hold.lock();
            wake_.wait_for(hold, kPause, [this] { return ends_; });
          }
        }) {}
  ~Rounds() {
    {
      const std::lock_guard hold(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

int Serve(const Options& options, Streams streams) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // what is known of a run is in its folder, not in its wait status
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread, so that one alone takes them
  absl::StatusOr<std::unique_ptr<JobService>> service = JobService::Open(
      {.root = options.root, .cores = options.cores, .program = fs::read_symlink("/proc/self/exe").string()});
  if (!service.ok()) return Complain(streams, "serve", std::string(service.status().message()), kExitFailed);
  absl::StatusOr<std::unique_ptr<HttpServer>> http = HttpServer::Open(options.http, **service);
  if (!http.ok()) {
    return Complain(streams, "serve", std::string(http.status().message()),
                    absl::IsInvalidArgument(http.status()) ? kExitBadCommandLine : kExitFailed);
  }
  const absl::Status told = WriteWhole(options.root + "/address", (*http)->address(), 0600, WhereThere::kReplace);
  if (!told.ok()) return Complain(streams, "serve", std::string(told.message()), kExitFailed);
  int ended_by = 0;
  std::thread waiter([&] {
    sigwait(&ends, &ended_by);
    (*http)->Stop();
  });
  {
    const Rounds rounds(**service, streams);
    const std::string& address = (*http)->address();
    streams.err << "Serving jobs at " << address << "\nWith gcloud:\n"
                << "  export CLOUDSDK_API_ENDPOINT_OVERRIDES_ML=" << address << "/\n"
                << "  export CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE=" << address << "/\n"
                << "  export CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING=" << address << "/\n"
                << "  export CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true CLOUDSDK_CORE_PROJECT=p" << std::endl;
    (*http)->Run();
  }
  waiter.join();
  streams.err << "Running jobs continue; downpour serve finds them again" << std::endl;
  return kExitSignalled + ended_by;
}

std::function<int()> SetUp(CLI::App& app, Streams streams) {
  auto options = std::make_shared<Options>();
  app.add_option("--root", options->root, "The service's folder: its jobs and its gs://")->required()->type_name("DIR");
  app.add_option("--listen", options->http.listen, "Where it listens; others than this user need a token")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--cores", options->cores, "How many cores jobs may take at a time")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--token-file", options->http.token_file, "A file of mode 0600 with the token that clients send");
  app.add_option("--certificate", options->http.certificate, "A PEM file, for TLS");
  app.add_option("--private-key", options->http.key, "The certificate's, a PEM file");
  return [options, streams] { return Serve(*options, streams); };
}

}  // namespace

const Verb kServeVerb = {"serve", "Run the job service: jobs that wait their turn on this machine, by HTTP",
                         "  downpour serve --root ~/jobs --listen 127.0.0.1:7000\n"
                         "  downpour serve --root ~/jobs --listen 10.0.0.5:7000 --token-file token \\\n"
                         "      --certificate cert.pem --private-key key.pem\n",
                         "1 its root or its address is taken", SetUp};

}  // namespace downpour
