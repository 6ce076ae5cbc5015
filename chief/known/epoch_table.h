// EpochTable: what fit() returns of each epoch, as the lines of metrics.jsonl tell.
//
//   epochs.Note(line);   // of kind "epoch" or "eval"
//   epochs.Text();
//
// Cost: memory of the newest kMost epochs.
// Errors: none; a line that is none of these is left out.
// Tests: tests/unit/chief/history_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace downpour {

class EpochTable {
 public:
  static constexpr size_t kMost = 10'000;

  void Note(const nlohmann::json& line);

  // JSON, at most kMaxTextBytes: an object for each epoch, the newest if there are too many, with epoch, loss,
  // evalLoss, evalAccuracy and the metrics, as far as they are known.
  std::string Text() const;

 private:
  std::map<uint64_t, std::map<std::string, double>> epochs_;
};

}  // namespace downpour
