#include "runtime/http/connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace downpour {
namespace {

void Decrement(const std::string& peer, std::map<std::string, int>* counts) {
  if (--(*counts)[peer] == 0) counts->erase(peer);
}

}  // namespace

HttpConnections::HttpConnections(int most, Serve serve)
    : most_(most), most_of_one_(std::max(1, most / 2)), serve_(std::move(serve)) {
  for (int i = 0; i < most; ++i) threads_.emplace_back([this] { Work(); });
}

void HttpConnections::Add(UniqueFd fd, const std::string& peer) {
  {
    const std::lock_guard hold(mutex_);
    const auto of_peer = open_.find(peer);
    const bool is_many = of_peer != open_.end() && of_peer->second >= most_of_one_ * (1 + kWaiting);
    if (ends_ || is_many || static_cast<int>(waiting_.size()) >= most_ * kWaiting) return;
    ++open_[peer];
    waiting_.push_back({std::move(fd), peer});
  }
  changed_.notify_all();
}

std::list<HttpConnections::Waiting>::iterator HttpConnections::NextToServe() {
  return std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& next) {
    const auto of_peer = served_.find(next.peer);
    return of_peer == served_.end() || of_peer->second < most_of_one_;
  });
}

bool HttpConnections::IsSomeoneWaiting() const {
  const std::lock_guard hold(mutex_);
  return !waiting_.empty();
}

void HttpConnections::Work() {
  std::unique_lock hold(mutex_);
  while (true) {
    changed_.wait(hold, [&] { return ends_ || NextToServe() != waiting_.end(); });
    if (ends_) return;
    const auto next = NextToServe();
    const Waiting now = std::move(*next);
    waiting_.erase(next);
    ++served_[now.peer];
    served_fds_.insert(now.fd.get());
    hold.unlock();
    serve_(now.fd.get());
    hold.lock();
    served_fds_.erase(now.fd.get());
    Decrement(now.peer, &served_);
    Decrement(now.peer, &open_);
    changed_.notify_all();  // one that waited may have its turn
  }
}

void HttpConnections::End() {
  {
    const std::lock_guard hold(mutex_);
    ends_ = true;
    waiting_.clear();
    for (const int fd : served_fds_) shutdown(fd, SHUT_RD);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace downpour
