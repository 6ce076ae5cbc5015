// Names of things that travel: slices, leases, epochs, versions, processes.
//
// Strong types, so that a lease is never passed for a slice. All are plain numbers on the wire and on disk.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <type_traits>

namespace downpour {

// Index into the job's slice grid (slice_grid.h), dense from 0.
enum class SliceId : uint32_t {};

// (epoch, split) as one dense number: epoch * splits per epoch + split (runtime/plan.h).
enum class LeaseId : uint64_t {};

// A step of a lease, counted from 1; 0 means "none yet". So `consumed` is both a count and the last step.
using Step = uint32_t;

// One life of one process, given out by the chief at Join and never reused within a run; it is never a name.
enum class Incarnation : uint64_t { kNone = 0 };

template <typename Id>
constexpr std::underlying_type_t<Id> ToNumber(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

// The fence of one slice: raised before anything is said about a new placement of that slice.
// Order: by the chief's term, then by n. {0, 0} is no epoch.
struct SliceEpoch {
  uint32_t term = 0;
  uint32_t n = 0;
  auto operator<=>(const SliceEpoch&) const = default;
};

// A slice's state: n counts the updates of its values, on across epochs. Versions of different epochs do not compare.
struct Version {
  SliceEpoch epoch;
  uint64_t n = 0;
  bool operator==(const Version&) const = default;
};

// The fewest and the most updates that some slices have; as it is made, of no slice.
struct VersionSpan {
  uint64_t oldest = UINT64_MAX;
  uint64_t newest = 0;
  bool empty() const { return oldest > newest; }
  void Include(const VersionSpan& other) {
    if (other.oldest < oldest) oldest = other.oldest;
    if (other.newest > newest) newest = other.newest;
  }
  bool operator==(const VersionSpan&) const = default;
};

// How far a slice is with a lease that it has not finished.
struct LeaseCounter {
  LeaseId lease{};
  Step consumed = 0;
  bool operator==(const LeaseCounter&) const = default;
};

// A checkpoint round: never reused, since the term rises whenever a chief starts.
struct Round {
  uint32_t term = 0;
  uint32_t n = 0;
  auto operator<=>(const Round&) const = default;
};

inline std::string ToString(SliceEpoch e) { return std::to_string(e.term) + "." + std::to_string(e.n); }
inline std::string ToString(Round r) { return std::to_string(r.term) + "-" + std::to_string(r.n); }

}  // namespace downpour
