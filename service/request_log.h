// RequestLog: a line for each prediction of the models that were created with onlinePredictionLogging.
//
//   RequestLog log(root);
//   log.Add({.model = "m", .version = "v1", .peer = "127.0.0.1", .rows = 64, .code = 200, .seconds = 0.002}, UnixMs());
//
// Shapes: ROOT/models/MODEL/requests.log. A part that has kMostBytes becomes requests.log.1, which replaces the one
//   before.
// Errors: a line that the disk refuses is dropped: a prediction is worth more.
// Threads: any.
// Tests: tests/process/test_predictions.py.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/posix/fd.h"

namespace downpour {

struct LoggedRequest {
  std::string model, version;
  std::string peer;  // its address
  uint64_t rows = 0;
  int code = 0;  // of HTTP
  double seconds = 0;
};

class RequestLog {
 public:
  static constexpr int64_t kMostBytes = 16 << 20;

  explicit RequestLog(std::string root) : root_(std::move(root)) {}
  std::string PathOf(const std::string& model) const { return root_ + "/models/" + model + "/requests.log"; }
  void Add(const LoggedRequest& request, int64_t unix_ms);

 private:
  const std::string root_;
  std::mutex mutex_;
  std::map<std::string, UniqueFd> files_;  // by model
};

}  // namespace downpour
