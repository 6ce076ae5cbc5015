// An output that acts on what it hears: on each word once, in the order given.
#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace downpour {

class ActingBuffer final : public std::stringbuf {
 public:
  struct Cue {
    std::string word;
    std::function<void()> action;
  };
  explicit ActingBuffer(std::vector<Cue> cues) : cues_(std::move(cues)) {}
  int sync() override {
    while (next_ < cues_.size() && str().find(cues_[next_].word) != std::string::npos) cues_[next_++].action();
    return 0;
  }

 private:
  const std::vector<Cue> cues_;
  size_t next_ = 0;
};

}  // namespace downpour
