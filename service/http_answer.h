// What every route of the service's HTTP answers with: JSON, and Google's errors.
//
//   Answer(resource, response);
//   AnswerError(absl::NotFoundError("there is no job wd1"), response);   // 404 {"error": {"code": 404, ...}}
#pragma once

#include <httplib.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace downpour {

inline constexpr size_t kMostRequestBytes = size_t{2} << 20;

void Answer(const nlohmann::json& body, httplib::Response& response);
void AnswerError(const absl::Status& status, httplib::Response& response);
nlohmann::json ErrorBody(int code, const std::string& message, const std::string& status);

// Errors: OUT_OF_RANGE beyond `most` bytes, of which no more are read.
absl::StatusOr<std::string> ReadBody(const httplib::Request& request, const httplib::ContentReader& reader,
                                     size_t most);

}  // namespace downpour
