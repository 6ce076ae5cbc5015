// Until its end this process can open only so many files more.
#pragma once

#include <glog/logging.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/posix/fd.h"

namespace downpour {

class FewDescriptors {
 public:
  explicit FewDescriptors(size_t more) {
    PCHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit few = before_;
    few.rlim_cur = 0;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
      few.rlim_cur = std::max<rlim_t>(few.rlim_cur, std::stoul(file.path().filename()) + 1);
    }
    few.rlim_cur += more;
    PCHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    // The limit is one of numbers: those that are free below it are taken, too.
    for (UniqueFd filler(dup(STDERR_FILENO)); filler.ok(); filler = UniqueFd(dup(STDERR_FILENO))) {
      fillers_.push_back(std::move(filler));
    }
    fillers_.resize(fillers_.size() - more);
  }
  ~FewDescriptors() { PCHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<UniqueFd> fillers_;
};

}  // namespace downpour
