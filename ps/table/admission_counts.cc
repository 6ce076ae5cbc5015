#include "ps/table/admission_counts.h"

#include <algorithm>
#include <tuple>

#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr uint64_t kSetStream = 13;  // apart from that of buckets

}  // namespace

AdmissionCounts::Entry* AdmissionCounts::SetOf(uint64_t key) {
  const uint64_t sets = entries_.size() / kInSet;
  return &entries_[(MixAll(kSetStream, key) >> 32) * sets >> 32 << 2];
}

AdmissionCounts::Entry* AdmissionCounts::Find(uint64_t key) {
  Entry* const set = SetOf(key);
  Entry* const found = std::find_if(set, set + kInSet, [key](const Entry& e) { return e.last != 0 && e.key == key; });
  return found == set + kInSet ? nullptr : found;
}

AdmissionCounts::Entry& AdmissionCounts::Oldest(uint64_t key) {
  Entry* const set = SetOf(key);
  return *std::min_element(set, set + kInSet, [](const Entry& a, const Entry& b) {
    return std::tie(a.last, a.key) < std::tie(b.last, b.key);
  });
}

uint32_t AdmissionCounts::Raise(uint64_t key, const AgeRule& age, uint32_t now, uint32_t mark) {
  Entry* const found = Find(key);
  Entry& entry = found == nullptr ? Oldest(key) : *found;
  const uint32_t before = found == nullptr || age.Expired(found->last) ? 0 : found->count;
  entry = {.key = key, .last = now, .mark = mark, .count = before + 1};
  return entry.count;
}

void AdmissionCounts::Remove(uint64_t key, uint32_t mark) {
  if (Entry* const found = Find(key); found != nullptr) *found = {.mark = mark};
}

bool AdmissionCounts::Put(const Entry& entry) {
  if (Find(entry.key) != nullptr) return false;
  Entry& oldest = Oldest(entry.key);
  if (std::tie(oldest.last, oldest.key) < std::tie(entry.last, entry.key)) oldest = entry;
  return true;
}

void AdmissionCounts::Shift(uint32_t pushes) {
  for (Entry& entry : entries_) {
    if (entry.last != 0) entry.last += pushes;
  }
}

}  // namespace downpour
