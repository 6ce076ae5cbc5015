// Objects of Google Cloud Storage, by its JSON API.
//
// STORAGE_EMULATOR_HOST (HOST:PORT or http://HOST:PORT) says where it is, if not at Google's. An emulator gets no token
//   but the one in GOOGLE_OAUTH_ACCESS_TOKEN; for Google's own see gcs_token.h.
// Tests: tests/process/test_places.py.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/places/answers.h"
#include "data/places/object_source.h"

namespace downpour {

std::unique_ptr<ObjectPlace> GcsPlace(const std::string& name, const std::string& bucket, const std::string& object);

// Objects of `bucket` whose names begin with `prefix`; `next` is a page's, or empty.
absl::StatusOr<ListedPage> ListGcs(const std::string& bucket, const std::string& prefix, const std::string& next);

}  // namespace downpour
