// PieceCache: the pieces of a set's files that were decoded last, and those that are decoded ahead of their use.
//
//   PieceCache cache({.decode = ..., .bytes = ...});
//   cache.ReadAhead(keys);          // on threads of its own, while something else is computed
//   auto values = cache.Get(key);   // what is kept; else what is under way, once it is there; else decoded now
//
// Order: what is read ahead is begun in the order in which it was named, kReaders pieces at a time. Get does not wait
//   for what has not begun: it decodes that itself.
// Cost: keeps kKeptBytes of values, and one piece at least. What one ReadAhead names may fill half of that; of more the
//   first ones are taken. The threads begin with the first ReadAhead that finds something to do.
// Errors: those of decoding. One that is met ahead is told to those who wait for the piece at that moment; later ones
//   try again.
// Threads: Get and ReadAhead from any. The destructor waits for the pieces that are being decoded, and drops the rest.
// Tests: tests/unit/data/piece_cache_test.cc.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"

namespace downpour {

class PieceCache {
 public:
  static constexpr size_t kKeptBytes = size_t{64} << 20;
  static constexpr size_t kReaders = 4;  // an object in a store takes tens of milliseconds to answer, whatever is asked

  using Key = std::pair<size_t, size_t>;  // a file, and a place in its index
  using Values = std::vector<ColumnValues>;
  using Piece = std::shared_ptr<const Values>;
  // Both are called on several threads.
  struct Source {
    std::function<absl::StatusOr<Values>(const Key&)> decode;
    std::function<size_t(const Key&)> bytes;  // that the values take
  };

  explicit PieceCache(Source source) : source_(std::move(source)) {}
  ~PieceCache();

  absl::StatusOr<Piece> Get(const Key& key);
  void ReadAhead(absl::Span<const Key> keys);

 private:
  struct Attempt {  // at a piece that is being decoded
    bool is_over = false;
    absl::Status error;
    Piece values;
  };
  struct Kept {
    Key key;
    Piece values;
    size_t bytes;
  };

  Piece Find(const Key& key);  // null: it is not kept. Else it is what was used last
  // Decodes what nobody decodes; `lock` is let go meanwhile.
  absl::StatusOr<Piece> Decode(const Key& key, std::unique_lock<std::mutex>& lock);
  void Keep(const Key& key, Piece values);
  void Loop();

  const Source source_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Kept> kept_;  // the one that was used last stands first
  std::map<Key, std::list<Kept>::iterator> places_;
  size_t bytes_ = 0;
  std::map<Key, std::shared_ptr<Attempt>> under_way_;
  std::set<Key> wanted_;   // ahead, and not begun
  std::deque<Key> queue_;  // their order; some of it is not wanted any more
  bool ending_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace downpour
