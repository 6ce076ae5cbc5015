// A scenario transcript: what is done to a role, line by line, and what it does then.
//
//   # Prose: the hole, and how it is closed.
//   stage ps
//   push lease=0 step=1 0@1.1
//       trace applied lease=0 step=1 0@1.1 v1
//       to worker: PushReply lease=0 0@1.1 consumed=1 acked=1 v1
//
// A line at the margin is a command, the indented lines below it are all that came of it. With DOWNPOUR_REWRITE=1 in
// the environment the files are written again with what really came.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schema/ids.h"

namespace downpour {

// One command: `push lease=0 step=1 0@1.1` has the name push, two options and one place.
class Command {
 public:
  explicit Command(const std::string& line);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& words() const { return words_; }  // what is neither name nor option
  bool Has(const std::string& option) const { return options_.contains(option); }
  std::string Text(const std::string& option, const std::string& otherwise = "") const;
  uint64_t Number(const std::string& option, uint64_t otherwise = 0) const;

 private:
  std::string name_;
  std::map<std::string, std::string> options_;
  std::vector<std::string> words_;
};

// SLICE@TERM.N, and what stands behind it: `v7` a version, `/ps-0` a server.
struct SlicePlace {
  SliceId slice{};
  SliceEpoch epoch;
  std::string rest;  // without its first character
};
SlicePlace ParsePlace(const std::string& word);
Round ParseRoundName(const std::string& word);  // 1-2

// What the commands are given to.
class Stage {
 public:
  virtual ~Stage() = default;
  // What came of it, line by line.
  virtual std::vector<std::string> Do(const Command& command) = 0;
};

// The transcript as it really goes; equal to `text` if all went as written.
std::string Play(const std::string& text);

}  // namespace downpour
