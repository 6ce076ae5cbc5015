// HttpServer: the service's HTTP. Who may speak to it and what bounds it has: runtime/http/listener.h.
//
//   auto server = HttpServer::Open({.listen = "127.0.0.1:7000"}, service, models);
//   (*server)->Run();    // until Stop, from any thread
//
// Tests: tests/process/test_job_service.py.
#pragma once

#include <httplib.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/http/listener.h"
#include "service/job_service.h"
#include "service/prediction_desk.h"

namespace downpour {

inline constexpr int kMostConnections = 64;

class HttpServer {
 public:
  // `most`: that a request for predictions may compute.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Open(const HttpSettings& settings, JobService& service,
                                                          ModelService& models, std::chrono::milliseconds most);
  const std::string& address() const { return listener_->address(); }
  void Run() { listener_->Run(); }
  void Stop() {
    desk_.End();
    listener_->Stop();
  }

 private:
  HttpServer(std::unique_ptr<HttpListener> listener, ModelService& models, std::chrono::milliseconds most)
      : listener_(std::move(listener)), desk_(models, most) {}
  void Prepare(JobService& service);
  // Of a caller who deploys from outside of the service's root: any file of this user's would be read for it.
  absl::Status CheckAnyPath(const httplib::Request& request) const;
  absl::Status CheckRequest(const httplib::Request& request) const;

  const std::unique_ptr<HttpListener> listener_;
  PredictionDesk desk_;
};

}  // namespace downpour
