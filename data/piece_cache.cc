#include "data/piece_cache.h"

#include <system_error>

namespace downpour {

PieceCache::~PieceCache() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& reader : readers_) reader.join();
}

absl::StatusOr<PieceCache::Piece> PieceCache::Get(const Key& key) {
  std::unique_lock lock(mutex_);
  if (Piece kept = Find(key)) return kept;
  const auto under_way = under_way_.find(key);
  if (under_way == under_way_.end()) return Decode(key, lock);
  const std::shared_ptr<const Attempt> attempt = under_way->second;
  changed_.wait(lock, [&] { return attempt->is_over; });
  if (!attempt->error.ok()) return attempt->error;
  return attempt->values;
}

void PieceCache::ReadAhead(absl::Span<const Key> keys) {
  {
    const std::lock_guard lock(mutex_);
    size_t bytes = 0;
    for (const Key& key : keys) {
      bytes += source_.bytes(key);
      if (bytes > kKeptBytes / 2) break;
      if (Find(key) || under_way_.contains(key) || !wanted_.insert(key).second) continue;
      queue_.push_back(key);
    }
    if (queue_.empty()) return;
    try {
      while (readers_.size() < kReaders) readers_.emplace_back([this] { Loop(); });
    } catch (const std::system_error&) {
      // The system has no more threads. Those that there are go on, and without any whoever asks decodes.
    }
    if (readers_.empty()) {
      queue_.clear();
      wanted_.clear();
    }
  }
  changed_.notify_all();
}

PieceCache::Piece PieceCache::Find(const Key& key) {
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->values;
}

absl::StatusOr<PieceCache::Piece> PieceCache::Decode(const Key& key, std::unique_lock<std::mutex>& lock) {
  wanted_.erase(key);
  const auto attempt = std::make_shared<Attempt>();
  under_way_.emplace(key, attempt);
  lock.unlock();
  absl::StatusOr<Values> values = source_.decode(key);
  lock.lock();
  under_way_.erase(key);
  attempt->is_over = true;
  changed_.notify_all();
  attempt->error = values.status();
  if (!values.ok()) return values.status();
  attempt->values = std::make_shared<const Values>(*std::move(values));
  Keep(key, attempt->values);
  return attempt->values;
}

void PieceCache::Keep(const Key& key, Piece values) {
  const size_t bytes = source_.bytes(key);
  kept_.push_front({key, std::move(values), bytes});
  places_.emplace(key, kept_.begin());
  for (bytes_ += bytes; bytes_ > kKeptBytes && kept_.size() > 1; kept_.pop_back()) {
    bytes_ -= kept_.back().bytes;
    places_.erase(kept_.back().key);
  }
}

void PieceCache::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    const Key key = queue_.front();
    queue_.pop_front();
    if (wanted_.contains(key)) Decode(key, lock).IgnoreError();
  }
}

}  // namespace downpour
