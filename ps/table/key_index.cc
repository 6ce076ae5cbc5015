#include "ps/table/key_index.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace downpour {
namespace {

// Of all slots, when a part grows, and when it has grown.
constexpr double kMostLoad = 0.85;
constexpr double kGrownLoad = 0.68;
constexpr size_t kFirstHugeArena = 8;  // from there on one that is not full hardly counts

}  // namespace

KeyIndex::Line KeyIndex::empty_line_ = {};

KeyIndex::KeyIndex(uint64_t salt) : salt_(salt), parts_(1) { parts_[0].chunks[0] = &empty_line_; }

void KeyIndex::Insert(uint64_t key, uint64_t hash, uint32_t place) {
  constexpr double kKeysInChunk = kKeysInLine * kLinesInChunk;
  const auto is_full = [](const Part& part) { return part.keys + 1 > kMostLoad * kKeysInChunk * part.chunk_count; };
  while (is_full(PartOf(hash))) Grow(hash);
  Put(PartOf(hash), {key, place}, hash);
}

void KeyIndex::Put(Part& part, const Entry& entry, uint64_t hash) {
  const uint32_t home = part.LineOf(hash);
  uint32_t line = home;
  for (; part.At(line).count == kKeysInLine; line = part.Next(line, home)) ++part.At(line).passed;
  Line& at = part.At(line);
  at.keys[at.count] = entry.key;
  at.places[at.count] = entry.place;
  ++at.count;
  ++part.keys;
}

void KeyIndex::Remove(uint64_t key, uint64_t hash) {
  Part& part = PartOf(hash);
  const uint32_t home = part.LineOf(hash);
  uint32_t line = home;
  for (; part.At(line).Match(key) == 0; line = part.Next(line, home)) {
    CHECK_GT(part.At(line).passed, 0) << "a key that is to be removed is not there";
    --part.At(line).passed;
  }
  Line& at = part.At(line);
  const int slot = std::countr_zero(at.Match(key));
  --at.count;
  at.keys[slot] = at.keys[at.count];
  at.places[slot] = at.places[at.count];
  --part.keys;
}

void KeyIndex::Grow(uint64_t hash) {
  const uint32_t number = directory_[(hash >> 1) >> (63 - depth_)];
  Part& part = parts_[number];
  std::vector<Entry> entries;
  entries.reserve(part.keys);
  for (uint32_t line = 0; line < part.lines; ++line) {
    const Line& at = part.At(line);
    for (uint32_t i = 0; i < at.count; ++i) entries.push_back({at.keys[i], at.places[i]});
  }
  if (part.chunk_count == kMostChunks) return Split(number, std::move(entries));
  Rebuild(part, entries);
}

void KeyIndex::Split(uint32_t number, std::vector<Entry> entries) {
  const uint32_t depth = parts_[number].depth;
  CHECK_LT(depth, kMostDepth) << "keys were chosen so that their hashes agree";
  if (depth == depth_) {
    std::vector<uint32_t> twice;
    for (uint32_t part : directory_) twice.insert(twice.end(), 2, part);
    directory_ = std::move(twice);
    ++depth_;
  }
  const auto second = static_cast<uint32_t>(parts_.size());
  parts_.push_back({.depth = depth + 1});
  parts_[number].depth = depth + 1;
  const uint64_t bit = uint64_t{1} << (63 - depth);
  for (uint64_t i = 0; i < directory_.size(); ++i) {
    if (directory_[i] == number && (i << 1 << (63 - depth_) & bit) != 0) directory_[i] = second;
  }
  const auto middle = std::partition(entries.begin(), entries.end(),
                                     [&](const Entry& entry) { return (HashOf(entry.key) & bit) == 0; });
  Rebuild(parts_[second], {middle, entries.end()});
  Rebuild(parts_[number], {entries.begin(), middle});
}

void KeyIndex::Rebuild(Part& part, const std::vector<Entry>& entries) {
  constexpr double kKeysWhenGrown = kGrownLoad * kKeysInLine * kLinesInChunk;
  const auto wanted = 1 + static_cast<uint32_t>(static_cast<double>(entries.size()) / kKeysWhenGrown);
  const uint32_t chunks = std::min(wanted, kMostChunks);
  while (part.chunk_count > chunks) free_.push_back(part.chunks[--part.chunk_count]);
  while (part.chunk_count < chunks) part.chunks[part.chunk_count++] = TakeChunk();
  part.lines = chunks * kLinesInChunk;
  part.keys = 0;
  for (uint32_t i = 0; i < chunks; ++i)
    std::memset(static_cast<void*>(part.chunks[i]), 0, kLinesInChunk * sizeof(Line));
  for (const Entry& entry : entries) Put(part, entry, HashOf(entry.key));
}

KeyIndex::Line* KeyIndex::TakeChunk() {
  constexpr size_t kChunkBytes = kLinesInChunk * sizeof(Line);
  constexpr size_t kInArena = Arenas::kBytes / kChunkBytes;
  if (!free_.empty()) {
    Line* const chunk = free_.back();
    free_.pop_back();
    return chunk;
  }
  if (taken_ % kInArena == 0) {
    if (taken_ > 0) Arenas::Filled(arenas_[arenas_.size() - 1]);
    arenas_.Add(arenas_.size() >= kFirstHugeArena);
  }
  return reinterpret_cast<Line*>(arenas_[arenas_.size() - 1] + taken_++ % kInArena * kChunkBytes);
}

size_t KeyIndex::bytes() const {
  return taken_ * kLinesInChunk * sizeof(Line) + parts_.capacity() * sizeof(Part) +
         directory_.capacity() * sizeof(uint32_t);
}

}  // namespace downpour
