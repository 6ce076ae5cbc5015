#include "data/piece_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

using Key = PieceCache::Key;
constexpr size_t kMegabyte = size_t{1} << 20;

// Pieces that hold the number of their place. A decoding stays under way while its key is held.
class Pieces {
 public:
  PieceCache::Source source() {
    return {.decode = [this](const Key& key) { return Decode(key); }, .bytes = [this](const Key&) { return bytes; }};
  }
  void Hold(const std::set<Key>& keys) {
    const std::lock_guard lock(mutex_);
    held_ = keys;
  }
  void LetGo() {
    Hold({});
    changed_.notify_all();
  }
  // Waits until so many decodings have begun.
  std::vector<Key> Begun(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.size() >= count; });
    return begun_;
  }
  std::vector<Key> begun() { return Begun(0); }

  size_t bytes = kMegabyte;
  std::set<Key> failing;

 private:
  absl::StatusOr<PieceCache::Values> Decode(const Key& key) {
    std::unique_lock lock(mutex_);
    begun_.push_back(key);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_.contains(key); });
    if (failing.contains(key)) return absl::DataLossError(absl::StrCat("piece ", key.second, " is torn"));
    return PieceCache::Values{std::vector<int64_t>{static_cast<int64_t>(key.second)}};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Key> held_;
  std::vector<Key> begun_;
};

int64_t Number(PieceCache& cache, const Key& key) {
  const absl::StatusOr<PieceCache::Piece> piece = cache.Get(key);
  return piece.ok() ? std::get<std::vector<int64_t>>((**piece)[0])[0] : -1;
}

TEST(PieceCache, APieceIsDecodedOnceWhileItIsKept) {
  Pieces pieces;
  pieces.bytes = PieceCache::kKeptBytes / 2;
  PieceCache cache(pieces.source());
  for (const size_t place : {1, 2, 1, 2, 1, 3, 1}) EXPECT_EQ(Number(cache, {0, place}), static_cast<int64_t>(place));
  EXPECT_THAT(pieces.begun(), ElementsAre(Key(0, 1), Key(0, 2), Key(0, 3)));
  Number(cache, {0, 2});
  EXPECT_THAT(pieces.Begun(4).back(), Key(0, 2)) << "the one that was not used for longest made room";
}

TEST(PieceCache, OnePieceIsKeptHoweverLarge) {
  Pieces pieces;
  pieces.bytes = 2 * PieceCache::kKeptBytes;
  PieceCache cache(pieces.source());
  EXPECT_EQ(Number(cache, {0, 1}), 1);
  EXPECT_EQ(Number(cache, {0, 1}), 1);
  EXPECT_THAT(pieces.begun(), ElementsAre(Key(0, 1)));
}

TEST(PieceCache, WhatIsNamedIsDecodedBeforeItIsAskedFor) {
  Pieces pieces;
  PieceCache cache(pieces.source());
  const std::vector<Key> named = {{0, 7}, {1, 7}, {0, 7}};
  cache.ReadAhead(named);
  EXPECT_THAT(pieces.Begun(2), UnorderedElementsAre(Key(0, 7), Key(1, 7)));
  for (const Key& key : named) EXPECT_EQ(Number(cache, key), 7);
  cache.ReadAhead(named);
  EXPECT_THAT(pieces.begun(), UnorderedElementsAre(Key(0, 7), Key(1, 7))) << "what is there is not decoded again";
}

TEST(PieceCache, WhoAsksForWhatIsUnderWayWaitsForItAndForNothingElse) {
  Pieces pieces;
  std::vector<Key> first, all;
  for (size_t place = 0; place < 2 * PieceCache::kReaders; ++place) {
    all.emplace_back(0, place);
    if (place < PieceCache::kReaders) first.emplace_back(0, place);
  }
  pieces.Hold({first.begin(), first.end()});
  PieceCache cache(pieces.source());
  cache.ReadAhead(all);
  EXPECT_THAT(pieces.Begun(PieceCache::kReaders), testing::UnorderedElementsAreArray(first));
  const Key last = all.back();
  EXPECT_EQ(Number(cache, last), static_cast<int64_t>(last.second)) << "all readers are held, and it has not begun";
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&] { EXPECT_EQ(Number(cache, first[0]), 0); });
  }
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // so that some ask while it is under way
  pieces.LetGo();
  for (std::thread& asker : askers) asker.join();
  for (const Key& key : all) EXPECT_EQ(Number(cache, key), static_cast<int64_t>(key.second));
  std::vector<Key> begun = pieces.begun();
  std::sort(begun.begin(), begun.end());
  EXPECT_EQ(begun, all) << "each once";
}

TEST(PieceCache, HalfOfWhatIsKeptIsReadAhead) {
  Pieces pieces;
  pieces.bytes = PieceCache::kKeptBytes / 8;
  std::vector<Key> all;
  for (size_t place = 0; place < 8; ++place) all.emplace_back(0, place);
  pieces.Hold({all.begin(), all.end()});
  {
    PieceCache cache(pieces.source());
    cache.ReadAhead(all);
    pieces.Begun(4);
    pieces.LetGo();
    for (size_t place = 0; place < 4; ++place) Number(cache, {0, place});
  }
  EXPECT_THAT(pieces.begun(), UnorderedElementsAre(Key(0, 0), Key(0, 1), Key(0, 2), Key(0, 3)));
}

TEST(PieceCache, AnErrorIsOfWhoAsksAndMayPass) {
  Pieces pieces;
  pieces.failing = {{0, 1}};
  pieces.Hold({{0, 1}});
  PieceCache cache(pieces.source());
  cache.ReadAhead(std::vector<Key>{{0, 1}});
  pieces.Begun(1);
  std::thread asker([&] { EXPECT_THAT(cache.Get({0, 1}).status().message(), HasSubstr("piece 1 is torn")); });
  pieces.LetGo();
  asker.join();
  EXPECT_THAT(cache.Get({0, 1}).status().message(), HasSubstr("piece 1 is torn"));
  pieces.failing.clear();
  EXPECT_EQ(Number(cache, {0, 1}), 1);
}

TEST(PieceCache, ManyAskForManyAtOnce) {
  Pieces pieces;
  pieces.bytes = PieceCache::kKeptBytes / 16;
  PieceCache cache(pieces.source());
  std::vector<std::thread> askers;
  for (size_t asker = 0; asker < 4; ++asker) {
    askers.emplace_back([&cache, asker] {
      for (size_t i = 0; i < 400; ++i) {
        const size_t place = (i * 7 + asker * 13) % 40;
        if (i % 5 == 0) cache.ReadAhead(std::vector<Key>{{0, (place + 1) % 40}, {0, (place + 2) % 40}});
        EXPECT_EQ(Number(cache, {0, place}), static_cast<int64_t>(place));
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
}

}  // namespace
}  // namespace downpour
