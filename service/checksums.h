// Checksums of objects, as Google's store has them.
//
//   ChecksumsOf(bytes).md5                     // "XUFAKrxLKna5cZ2REBfFkg==" of "hello"
//   ChecksumCache cache;
//   cache.Of("/srv/jobs/storage/models/a");    // reads the file once, until it changes
//
// Cost: of a file about 2 s for each GiB, the first time. One file is read at a time.
// Errors: NOT_FOUND where there is no such file; UNAVAILABLE where it became shorter while it was read.
// Threads: any.
// Tests: tests/unit/service/checksums_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/status/statusor.h"

namespace downpour {

// In base64.
struct Checksums {
  std::string crc32c;  // its four bytes, the highest first
  std::string md5;
};

Checksums ChecksumsOf(std::string_view bytes);

class ChecksumCache {
 public:
  absl::StatusOr<Checksums> Of(const std::string& path);

 private:
  // Device, inode, size, and when content and inode changed: another file under the name, or other content, has others.
  using Key = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;

  std::mutex reads_;  // held while a file is read
  std::mutex mutex_;  // of what follows
  std::map<Key, Checksums> known_;
};

}  // namespace downpour
