// Tokens for Google's services.
//
// Looked for in this order: GOOGLE_OAUTH_ACCESS_TOKEN; the file GOOGLE_APPLICATION_CREDENTIALS, or else the one that
//   `gcloud auth application-default login` writes, of a service account or of a person; the metadata server of a
//   machine of Google's (GCE_METADATA_HOST). A token is kept until 5 minutes before it ends, and shared by all threads.
// Tests: tests/unit/data/places_test.cc, tests/process/test_places.py.
#pragma once

#include <ctime>
#include <string>

#include "absl/status/statusor.h"

namespace downpour {

// Empty: there are no credentials, which will do for objects that everybody may read.
absl::StatusOr<std::string> GoogleToken();

// Where a token is asked for, and with which form.
struct TokenOrder {
  std::string url, form;
};
// Of a file of credentials. Errors: INVALID_ARGUMENT, without the file's contents.
absl::StatusOr<TokenOrder> TokenOrderOf(const std::string& credentials, std::time_t now);

}  // namespace downpour
