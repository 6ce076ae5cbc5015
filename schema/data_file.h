// DataFile: a file of a job's training set, and all before it. By these a chief tells whether a set is another one, or
// the one of before with further files behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace downpour {

struct DataFile {
  std::string name;          // its path on the host of a worker, for people: the last kMaxFileName bytes of it
  uint64_t examples = 0;     // of the set up to its end
  uint64_t fingerprint = 0;  // likewise
  bool operator==(const DataFile&) const = default;
};

inline constexpr size_t kMostFilesTold = 4096;
inline constexpr size_t kMaxFileName = 256;

}  // namespace downpour
