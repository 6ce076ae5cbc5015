// Where data of a job lie: at a path, or at an address whose scheme says how they are read.
//
// Tests: tests/unit/job/data_place_test.cc.
#pragma once

#include <string>
#include <string_view>

namespace downpour {

inline constexpr char kHttp[] = "http";
inline constexpr char kHttps[] = "https";
inline constexpr char kS3[] = "s3";
inline constexpr char kGcs[] = "gs";

// "s3" of s3://BUCKET/KEY, in small letters. Empty: a path.
std::string SchemeOf(std::string_view place);

struct BucketAndKey {
  std::string bucket, key;
};
// Of an address of s3 or gs.
BucketAndKey BucketAndKeyOf(std::string_view place);

// Whether it stands for several files: it has *, ? or [. Those of http stand for themselves.
bool IsPattern(std::string_view place);

// Why it can be no place of data, without repeating what may be secret in it. Empty: it can.
std::string FaultOfPlace(std::string_view place);

}  // namespace downpour
