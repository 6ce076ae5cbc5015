#include "service/running_service.h"

#include <signal.h>

#include <chrono>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/driver/posix_whole_file.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<RunningService>> RunningService::Open(const ServiceSettings& settings,
                                                                     const HttpSettings& http) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // what is known of a run is in its folder, not in its wait status
  absl::StatusOr<std::unique_ptr<JobService>> service = JobService::Open(settings);
  if (!service.ok()) return service.status();
  for (const std::string& sentence : (*service)->found())
    std::cerr << absl::StrCat("the job service: ", sentence, "\n");
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Open(http, **service);
  if (!server.ok()) return server.status();
  const absl::Status told = WriteWhole(settings.root + "/address", (*server)->address(), 0600, WhereThere::kReplace);
  if (!told.ok()) return told;
  return std::unique_ptr<RunningService>(new RunningService(*std::move(service), *std::move(server)));
}

RunningService::RunningService(std::unique_ptr<JobService> service, std::unique_ptr<HttpServer> http)
    : service_(std::move(service)),
      http_(std::move(http)),
      answers_([this] { http_->Run(); }),
      works_([this] { Work(); }) {}

RunningService::~RunningService() {
  {
    const std::lock_guard hold(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  works_.join();
  http_->Stop();
  answers_.join();
}

void RunningService::Work() {
  constexpr auto kPause = std::chrono::milliseconds(200);
  for (bool last = false;;) {
    if (const absl::Status status = service_->Work(); !status.ok()) {
      std::cerr << absl::StrCat("the job service: ", std::string(status.message()), "; it is tried again\n");
    }
    if (last) return;
    std::unique_lock hold(mutex_);
    wake_.wait_for(hold, kPause, [this] { return ends_; });
    last = ends_;  // what was asked for since the last round is begun still
  }
}

}  // namespace downpour
