// What the routes of the store answer, as Google's storage JSON API has it.
//
// Errors: where another object is there than the request names by its generation, HTTP 412.
// Tests: tests/process/test_storage.py.
#pragma once

#include <httplib.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "service/object_store.h"

namespace downpour {

// How the client reaches this service, as its request says: "http://127.0.0.1:7000".
std::string AddressIn(const httplib::Request& request);
// `sums`: null for lists of which nobody asked for them.
nlohmann::json ResourceOf(const httplib::Request& request, const StoredObject& object, const Checksums* sums);
void AnswerStorageError(const absl::Status& status, httplib::Response& response);
// With its checksums.
void AnswerObject(const ObjectStore& objects, const httplib::Request& request,
                  const absl::StatusOr<StoredObject>& object, httplib::Response& response);
// Of a parameter that is a whole number, not below 0.
absl::StatusOr<std::optional<int64_t>> NumberIn(const httplib::Request& request, const char* parameter);

}  // namespace downpour
