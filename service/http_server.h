// HttpServer: the service's HTTP. Who may speak to it and what bounds it has: runtime/http/listener.h.
//
//   absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Open({.listen = "127.0.0.1:7000"}, service);
//   (*server)->Run();    // until Stop, from any thread
//
// Tests: tests/process/test_job_service.py.
#pragma once

#include <httplib.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/http/listener.h"
#include "service/job_service.h"

namespace downpour {

inline constexpr int kMostConnections = 64;

class HttpServer {
 public:
  static absl::StatusOr<std::unique_ptr<HttpServer>> Open(const HttpSettings& settings, JobService& service);
  const std::string& address() const { return listener_->address(); }
  void Run() { listener_->Run(); }
  void Stop() { listener_->Stop(); }

 private:
  explicit HttpServer(std::unique_ptr<HttpListener> listener) : listener_(std::move(listener)) {}
  void Prepare(JobService& service);
  absl::Status MayAsk(const httplib::Request& request) const;

  const std::unique_ptr<HttpListener> listener_;
};

}  // namespace downpour
