#include "runtime/shm/ring.h"

#include <algorithm>
#include <cstring>

namespace downpour {
namespace {

// Before each record: its bytes.
constexpr size_t kHead = sizeof(uint64_t);

}  // namespace

bool RingWriter::Begin(size_t bytes) {
  const uint64_t held = written_ - words_->read.load(std::memory_order_acquire);
  // More than there is room for: the reader's word is not what it was told to be. It harms itself alone.
  if (held > bytes_ || bytes > bytes_ || kHead + bytes > bytes_ - held) return false;
  at_ = written_;
  const uint64_t head = bytes;
  Put(&head, kHead);
  return true;
}

void RingWriter::Put(const void* data, size_t bytes) {
  if (bytes == 0) return;  // of an empty frame `data` is null
  const size_t from = at_ & (bytes_ - 1);
  const size_t first = std::min(bytes, bytes_ - from);
  std::memcpy(begin_ + from, data, first);
  std::memcpy(begin_, static_cast<const std::byte*>(data) + first, bytes - first);
  at_ += bytes;
}

// In one total order with AskToBeWoken: either the reader sees the record, or this sees that it waits.
bool RingWriter::Publish() {
  written_ = at_;
  words_->written.store(written_, std::memory_order_seq_cst);
  return words_->waits.load(std::memory_order_seq_cst) != 0 && words_->waits.exchange(0) != 0;
}

RingReader::Found RingReader::Next(std::string* record) {
  if (broken_) return Found::kBroken;
  const uint64_t held = words_->written.load(std::memory_order_acquire) - read_;
  if (held == 0) return Found::kNothing;
  broken_ = true;
  if (held > bytes_ || held < kHead) return Found::kBroken;
  uint64_t bytes = 0;
  CopyOut(read_, &bytes, kHead);
  if (bytes > held - kHead) return Found::kBroken;
  broken_ = false;
  record->resize(bytes);
  CopyOut(read_ + kHead, record->data(), bytes);
  read_ += kHead + bytes;
  words_->read.store(read_, std::memory_order_release);
  return Found::kRecord;
}

bool RingReader::AskToBeWoken() {
  words_->waits.store(1, std::memory_order_seq_cst);
  if (words_->written.load(std::memory_order_seq_cst) == read_) return true;
  return !TakeBackWish();
}

void RingReader::CopyOut(uint64_t from, void* to, size_t bytes) const {
  const size_t begin = from & (bytes_ - 1);
  const size_t first = std::min(bytes, bytes_ - begin);
  std::memcpy(to, begin_ + begin, first);
  std::memcpy(static_cast<std::byte*>(to) + first, begin_, bytes - first);
}

}  // namespace downpour
