// What a run found wrong. The first finding ends the run: what follows a broken invariant explains nothing.
#pragma once

#include <string>
#include <utility>

namespace downpour {

class Findings {
 public:
  void Add(std::string what) {
    if (first_.empty()) first_ = std::move(what);
  }
  bool ok() const { return first_.empty(); }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

}  // namespace downpour
