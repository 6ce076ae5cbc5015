// Opens data wherever a job says that they lie: docs/DATA.md, "Places".
//
// Tests: tests/unit/data/places_test.cc, tests/process/test_places.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"

namespace downpour {

// A path, or an address of http, https, s3 or gs. Errors: those of OpenFile or OpenObject (places/object_source.h);
// INVALID_ARGUMENT for another scheme, or an address that is none.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenSource(const std::string& place);

// The objects that a pattern of s3 or gs matches, as addresses sorted byte by byte. '*' and '?' match no '/'.
// Cost: lists all objects that begin as the pattern does, up to its first *, ? or [.
// Errors: those of FailureOf; INVALID_ARGUMENT for a bucket that is a pattern, and for more than 10,000 matches.
absl::StatusOr<std::vector<std::string>> MatchingObjects(const std::string& pattern);

}  // namespace downpour
