// LiveRows: rows of tables of a job that is being trained, as its buckets hold them at the moment of the question.
//
//   LiveRows rows([&] { ...wakes the feed's thread... });
//   absl::StatusOr<TableValues> values = rows.Fetch(keys);        // by any thread
//   LiveRows::News news = rows.Take();                            // by the feed's: what is asked, what no more
//   rows.Answer(question.number, found);
//
// Order: the rows of one bucket are of one point between two pushes. Those of two buckets, and the values of variables
//   beside them, may be of others, as an evaluation of the job has them.
// Cost: a question to each ps that has some of the rows.
// Errors: those of row_source.h. UNAVAILABLE after kPatience, and at once after Close. For kSilence after a question
//   went unanswered the oldest one alone has that patience, and the others have kBrief: where a ps is away not every
//   thread that asks stands still for it.
// Threads: any.
// Tests: tests/unit/predict/live_rows_test.cc, tests/process/test_live.py.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "job/slice_grid.h"
#include "predict/row_source.h"
#include "runtime/compute.h"
#include "runtime/row_frames.h"

namespace downpour {

class LiveRows final : public RowSource {
 public:
  static constexpr auto kPatience = std::chrono::milliseconds(500), kBrief = std::chrono::milliseconds(50);
  static constexpr auto kSilence = std::chrono::seconds(2);

  struct Question {
    uint64_t number = 0;
    SliceValues keys;  // of each bucket that has some, ascending
  };
  struct News {
    std::vector<Question> asked;
    std::vector<uint64_t> forgotten;  // that were asked before, and nobody waits for any more
  };

  explicit LiveRows(std::function<void()> wake) : wake_(std::move(wake)) {}

  absl::StatusOr<TableValues> Fetch(const TableKeys& keys) const override;

  // Before the first Fetch.
  void UseGrid(std::shared_ptr<const SliceGrid> grid);
  News Take();
  void Answer(uint64_t number, SliceValues rows);
  // Nobody answers from now on, for this reason.
  void Close(const absl::Status& why);

 private:
  // Of one bucket, where its rows go: table by table, places among the keys that were wanted of it.
  struct Part {
    RowKeys keys;
    std::vector<std::pair<size_t, size_t>> places;
  };
  std::map<uint32_t, Part> Split(const TableKeys& keys) const;
  absl::StatusOr<SliceValues> Pack(const std::map<uint32_t, Part>& parts) const;
  absl::StatusOr<SliceValues> Ask(SliceValues keys) const;

  const std::function<void()> wake_;
  std::shared_ptr<const SliceGrid> grid_;
  mutable std::mutex mutex_;
  mutable std::condition_variable answered_;
  mutable News news_;
  mutable uint64_t last_number_ = 0;
  mutable std::map<uint64_t, std::optional<SliceValues>> waiting_;  // by number
  mutable std::chrono::steady_clock::time_point silent_until_;      // some ps does not answer
  absl::Status closed_ = absl::OkStatus();                          // why nobody answers any more
};

}  // namespace downpour
