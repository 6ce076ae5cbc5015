// Workers without arithmetic, on threads of this process: they pull and push every slice as fast as they are let.
//
//   BenchLoad load(chief_endpoint, 2);
//   ...
//   for (const Acknowledgement& one : load.End()) ...
//
// Threads: construct and End on one thread. Between them every worker runs on its own.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/world_time.h"

namespace downpour {

// Of one slice's push.
struct Acknowledgement {
  Time at;
  Duration pause;  // before it, in which its worker waited for some and heard of none
};

class BenchLoad {
 public:
  BenchLoad(const std::string& chief, int workers);
  ~BenchLoad();
  // Once: what was acknowledged, whosever it was, in order.
  std::vector<Acknowledgement> End();

 private:
  class Worker;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
};

}  // namespace downpour
