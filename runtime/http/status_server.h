// StatusServer: serves /metrics, made of the status of a role that runs beside it.
//
//   auto server = StatusServer::Open({.listen = "127.0.0.1:9100"}, &mailbox, [](const std::string& status) {...});
//   driver = ZmqDriver::Open(options, {.mailbox = &mailbox, .status_server = server->get()});
//
// Order: a request asks the role as `watch` does, by a StatusRequest of kStatusServer. The driver hands the reply to
//   Answer. All that wait then get the same one.
// Cost: one status for each scrape on the role's thread. `text_of` runs on a thread of this server, one at a time.
// Errors: those of HttpListener. A role that does not answer for kPatience is 503 to who asked.
// Threads: Open and the destructor on one thread, Answer from any.
// Tests: tests/unit/runtime/http/status_server_test.cc, tests/process/test_metrics.py.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/http/listener.h"
#include "runtime/posix/mailbox.h"
#include "runtime/role.h"

namespace downpour {

// No connection has that number.
inline constexpr PeerId kStatusServer{UINT64_MAX};

class StatusServer {
 public:
  static constexpr auto kPatience = std::chrono::seconds(5);
  static constexpr int kMostConnections = 4;
  using TextOf = std::function<std::string(const std::string& status)>;

  // `mailbox` outlives this. `secret`: what the role wants to hear of whoever asks; empty: nothing.
  static absl::StatusOr<std::unique_ptr<StatusServer>> Open(const HttpSettings& settings, Mailbox* mailbox,
                                                            TextOf text_of, std::string secret = {});
  ~StatusServer();

  const std::string& address() const { return listener_->address(); }
  void Answer(std::string status);

 private:
  StatusServer(std::unique_ptr<HttpListener> listener, Mailbox* mailbox, TextOf text_of, std::string secret);
  void Serve(httplib::Response& response);

  const std::unique_ptr<HttpListener> listener_;
  Mailbox* const mailbox_;
  const TextOf text_of_;
  const std::string secret_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t answers_ = 0;
  std::string status_;  // the last answer
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace downpour
