// Objects of S3, and of servers that speak as S3 does.
//
// The environment says where and who: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION,
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; or else the profile AWS_PROFILE of the file
//   AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials). It is read for each request, since keys may be changed while a
//   job runs. Without keys requests are not signed, as objects that everybody may read need it.
// Tests: tests/unit/data/places_test.cc, tests/process/test_places.py.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/places/answers.h"
#include "data/places/object_source.h"
#include "data/places/sigv4.h"

namespace downpour {

std::unique_ptr<ObjectPlace> S3Place(const std::string& name, const std::string& bucket, const std::string& key);

// Keys of `bucket` that begin with `prefix`; `next` is a page's, or empty.
absl::StatusOr<ListedPage> ListS3(const std::string& bucket, const std::string& prefix, const std::string& next);

// Where a bucket answers, without a '/' at the end. `endpoint` empty: at Amazon's.
std::string BucketUrl(const std::string& endpoint, const std::string& region, const std::string& bucket);

// Of a file as ~/.aws/credentials; nothing without that profile, or without keys in it.
std::optional<AwsKeys> KeysOfProfile(const std::string& file, const std::string& profile);

}  // namespace downpour
