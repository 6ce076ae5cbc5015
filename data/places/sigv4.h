// Signatures of requests as AWS wants them (Signature Version 4), for requests without a body.
//
// Source: "Authenticating Requests: Using the Authorization Header", Amazon S3 API Reference.
// Tests: tests/unit/data/places_test.cc has that page's examples; tests/process/test_places.py asks botocore.
#pragma once

#include <ctime>
#include <string>

#include "data/places/http.h"

namespace downpour {

struct AwsKeys {
  std::string id, secret;
  std::string token = "";  // of keys that end after a while
};

// `headers`, then those that make them signed: x-amz-date, x-amz-content-sha256, x-amz-security-token, authorization.
// Names of headers are in small letters. Path and query of `url` are percent-encoded, and its parameters stand in the
// order of their names.
HttpHeaders SignedByAws(const std::string& url, const HttpHeaders& headers, const AwsKeys& keys,
                        const std::string& region, std::time_t now);

}  // namespace downpour
