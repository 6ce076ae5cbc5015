// RunningService: a JobService that works and answers, on threads of its own.
//
//   auto service = RunningService::Open({.root = "/srv/jobs", ...}, {.listen = "127.0.0.1:7000"});
//   ...(*service)->address()...   // its end ends the service, after one last round, and no job
//
// Shapes: ROOT/address holds the address, for ServiceClient.
// Errors: those of JobService and HttpServer.
// Tests: tests/process/test_job_service.py.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "service/http_server.h"
#include "service/job_service.h"

namespace downpour {

class RunningService {
 public:
  static absl::StatusOr<std::unique_ptr<RunningService>> Open(ServiceSettings settings, const HttpSettings& http);
  ~RunningService();

  const std::string& address() const { return http_->address(); }

 private:
  RunningService(std::unique_ptr<JobService> service, std::unique_ptr<ModelService> models,
                 std::unique_ptr<HttpServer> http);
  void Work();

  const std::unique_ptr<JobService> service_;
  const std::unique_ptr<ModelService> models_;
  const std::unique_ptr<HttpServer> http_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread answers_, works_;  // last: they use the others
};

}  // namespace downpour
