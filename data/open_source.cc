#include "data/open_source.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/places/answers.h"
#include "data/places/gcs.h"
#include "data/places/object_source.h"
#include "data/places/s3.h"
#include "data/places/url.h"
#include "data/places/web.h"
#include "job/data_place.h"

namespace downpour {
namespace {

constexpr size_t kMostMatches = 10'000;

absl::Status CheckPlace(const std::string& place) {
  const std::string fault = FaultOfPlace(place);
  return fault.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(ShownUrl(place), " ", fault));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenSource(const std::string& place) {
  const std::string scheme = SchemeOf(place);
  if (scheme.empty()) return OpenFile(place);
  if (absl::Status status = CheckPlace(place); !status.ok()) return status;
  if (scheme != kS3 && scheme != kGcs) return OpenObject(WebPlace(place));
  const auto [bucket, key] = BucketAndKeyOf(place);
  return OpenObject(scheme == kS3 ? S3Place(place, bucket, key) : GcsPlace(place, bucket, key));
}

absl::StatusOr<std::vector<std::string>> MatchingObjects(const std::string& pattern) {
  if (absl::Status status = CheckPlace(pattern); !status.ok()) return status;
  const std::string scheme = SchemeOf(pattern);
  const auto [bucket, key] = BucketAndKeyOf(pattern);
  const std::string prefix = key.substr(0, key.find_first_of("*?["));
  std::vector<std::string> found;
  std::string next;
  do {
    absl::StatusOr<ListedPage> page = scheme == kS3 ? ListS3(bucket, prefix, next) : ListGcs(bucket, prefix, next);
    if (!page.ok())
      return absl::Status(page.status().code(), absl::StrCat(pattern, ": ", std::string(page.status().message())));
    for (const std::string& name : page->keys) {
      if (fnmatch(key.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0)
        found.push_back(absl::StrCat(scheme, "://", bucket, "/", name));
    }
    if (found.size() > kMostMatches) {
      return absl::InvalidArgumentError(absl::StrCat(pattern, " matches more than ", kMostMatches, " objects"));
    }
    if (!page->next.empty() && page->next == next) {
      return absl::FailedPreconditionError(pattern + ": the server lists the same page again and again");
    }
    next = std::move(page->next);
  } while (!next.empty());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace downpour
