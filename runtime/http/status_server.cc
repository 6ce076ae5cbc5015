#include "runtime/http/status_server.h"

#include <utility>

#include "runtime/prometheus_text.h"

namespace downpour {
namespace {

void Refuse(int code, const std::string& why, httplib::Response& response) {
  response.status = code;
  response.set_content(why + "\n", "text/plain");
}

}  // namespace

absl::StatusOr<std::unique_ptr<StatusServer>> StatusServer::Open(const HttpSettings& settings, Mailbox* mailbox,
                                                                 TextOf text_of, std::string secret) {
  absl::StatusOr<std::unique_ptr<HttpListener>> listener = HttpListener::Open(settings, kMostConnections);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<StatusServer>(
      new StatusServer(*std::move(listener), mailbox, std::move(text_of), std::move(secret)));
}

StatusServer::StatusServer(std::unique_ptr<HttpListener> listener, Mailbox* mailbox, TextOf text_of, std::string secret)
    : listener_(std::move(listener)), mailbox_(mailbox), text_of_(std::move(text_of)), secret_(std::move(secret)) {
  httplib::Server& http = listener_->http();
  http.set_payload_max_length(0);
  http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    absl::Status status = listener_->CheckHost(request);
    if (status.ok()) status = listener_->CheckCaller(request, kMayLook);
    if (status.ok()) return httplib::Server::HandlerResponse::Unhandled;
    Refuse(absl::IsUnauthenticated(status) ? 401 : 403, std::string(status.message()), response);
    return httplib::Server::HandlerResponse::Handled;
  });
  http.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) { Serve(response); });
  thread_ = std::thread([this] { listener_->Run(); });
}

StatusServer::~StatusServer() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  listener_->Stop();
  thread_.join();
}

void StatusServer::Answer(std::string status) {
  {
    const std::lock_guard lock(mutex_);
    ++answers_;
    status_ = std::move(status);
  }
  changed_.notify_all();
}

void StatusServer::Serve(httplib::Response& response) {
  std::unique_lock lock(mutex_);
  const uint64_t before = answers_;
  mailbox_->Post(Received{kStatusServer, StatusRequest{.secret = secret_}});
  changed_.wait_for(lock, kPatience, [&] { return answers_ > before || ends_; });
  if (answers_ == before) return Refuse(503, "no answer from the process that this server is part of", response);
  response.set_content(text_of_(status_), PrometheusText::kType);
}

}  // namespace downpour
