// The checkpoints in the job folder: which of them are valid, found by reading them all and never remembered.
//
//   checkpoints/TERM-N/ps-0.shard, ps-1.shard, ..., MANIFEST
//
//   store.Load([&](const absl::Status& status) { if (status.ok()) Use(store.valid()); });
//
// Order: newest first; what Load found stays as it was found until the next Load, while Prune follows what became
//   durable since.
// Errors: a folder without a manifest is rubbish of an abandoned round; one whose manifest is damaged is named, kept,
//   and never used; one whose manifest cannot be read may be whole, and fails Load. Pruning that fails costs only
//   space.
// Tests: tests/unit/chief/checkpoint_store_test.cc.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "chief/folder/storage.h"
#include "schema/checkpoint_format.h"

namespace downpour {

class CheckpointStore {
 public:
  explicit CheckpointStore(Storage& storage) : storage_(storage) {}

  void Load(std::function<void(const absl::Status&)> then);

  const std::vector<Manifest>& valid() const { return valid_; }
  struct Damaged {
    Round round;
    std::string why;
  };
  const std::vector<Damaged>& damaged() const { return damaged_; }
  Round newest() const;                  // of both; {0, 0}: there is none
  std::string WhyNot(Round lost) const;  // what became of one that was durable and is not valid, in words
  uint32_t highest_term() const { return highest_term_; }  // of any folder there, whatever is in it

  // Which checkpoints stay: the newest `keep`. With `apart`, and three or more of them, the newest two and older ones
  // that are so far apart. Rounds may be a second apart, and what spoils one of them shall not have spoiled all; the
  // second is there for tools that still read it.
  struct Retention {
    int64_t keep = 1;
    std::chrono::milliseconds apart{};
  };
  // `round`, written at `unix_ms`, is durable. Removes rubbish and the valid checkpoints that do not stay; `then` sees
  // what came of each.
  void Prune(Round round, int64_t unix_ms, const Retention& retention, std::function<void(const absl::Status&)> then);
  // These stay whatever retention says, until this is said again with others. Those that stayed only for that go then.
  void Pin(std::set<Round> rounds, const std::function<void(const absl::Status&)>& then);
  // An abandoned round's folder, at leisure.
  void Discard(Round round);

 private:
  struct Durable {
    Round round;
    int64_t unix_ms = 0;
  };
  void ReadNext();
  void RemoveAll(const std::vector<Round>& rounds, const std::function<void(const absl::Status&)>& then);
  size_t LeastWanted(const Retention& retention) const;  // of durable_, which has more than stay

  Storage& storage_;
  std::function<void(const absl::Status&)> loaded_;
  std::vector<Round> unread_;  // oldest last
  std::vector<Manifest> valid_;
  std::vector<Damaged> damaged_;
  std::vector<Round> rubbish_;
  std::vector<Durable> durable_;  // ascending; those that retention has not sorted out
  std::set<Round> pinned_;
  std::set<Round> spared_;  // that retention has sorted out, and that are pinned
  uint32_t highest_term_ = 0;
};

}  // namespace downpour
