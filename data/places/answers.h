// What servers of objects answer, taken apart: headers, pages of listings, words of failures.
//
// Errors: whatever bytes come, nothing or a Status (INVALID_ARGUMENT). Memory: that of the text, times 10 at most.
// Tests: tests/unit/data/places_test.cc; tests/fuzz/place_answers.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

// Of "bytes 0-99/1000". Source: RFC 9110, 14.4.
struct ContentRange {
  uint64_t first = 0, last = 0;  // last >= first
  uint64_t total = 0;            // > last
};
std::optional<ContentRange> ContentRangeIn(const std::string& text);

struct ListedPage {
  std::vector<std::string> keys;
  std::string next;  // what asks for the page behind this one; empty: it is the last
};
// Of ListObjectsV2 with encoding-type=url.
absl::StatusOr<ListedPage> S3PageIn(const std::string& xml);
// Of Google's objects.list.
absl::StatusOr<ListedPage> GcsPageIn(const std::string& json);

// "NoSuchKey: The specified key does not exist." Empty: it has no such words.
std::string S3WordsIn(const std::string& xml);
std::string GcsWordsIn(const std::string& json);

}  // namespace downpour
