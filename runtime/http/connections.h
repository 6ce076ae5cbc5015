// HttpConnections: who is served now, and who waits. Nobody who opens many connections keeps others out.
//
//   HttpConnections connections(/*most=*/64, [](int fd) {...});   // on threads of its own
//   connections.Add(std::move(fd), "10.0.0.7");
//
// Bounds: `most` are served at a time, of one peer half of them. kWaiting times as many may wait. Further ones are
//   closed at once.
// Threads: Add and End on one.
// Tests: tests/unit/runtime/http/connections_test.cc.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/posix/fd.h"

namespace downpour {

class HttpConnections {
 public:
  static constexpr int kWaiting = 4;
  using Serve = std::function<void(int fd)>;

  HttpConnections(int most, Serve serve);
  ~HttpConnections() { End(); }

  // `peer`: whose connections count together.
  void Add(UniqueFd fd, const std::string& peer);
  bool IsSomeoneWaiting() const;
  // Those who are served are read no more, those who wait are not served. Returns once all threads have ended.
  void End();

 private:
  struct Waiting {
    UniqueFd fd;
    std::string peer;
  };
  void Work();
  std::list<Waiting>::iterator NextToServe();

  const int most_, most_of_one_;
  const Serve serve_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::list<Waiting> waiting_;
  std::map<std::string, int> open_;    // of each peer, waiting or served
  std::map<std::string, int> served_;  // of each peer
  std::set<int> served_fds_;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace downpour
