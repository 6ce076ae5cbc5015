// What every route of the service's HTTP answers with: JSON, and Google's errors.
//
//   AnswerJson(resource, response);
//   AnswerError(absl::NotFoundError("there is no job wd1"), response);   // 404 {"error": {"code": 404, ...}}
#pragma once

#include <httplib.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace downpour {

inline constexpr size_t kMostRequestBytes = size_t{2} << 20;

void AnswerJson(const nlohmann::json& body, httplib::Response& response);
// UNAVAILABLE with Retry-After, so that clients ask again by themselves.
void AnswerError(const absl::Status& status, httplib::Response& response);
// {"error": "words"}, as clients of TensorFlow Serving and of the Open Inference Protocol read it.
void AnswerPlainError(const absl::Status& status, httplib::Response& response);
int HttpCodeOf(const absl::Status& status);  // 200 of OK
nlohmann::json ErrorBody(int code, const std::string& message, const std::string& status);

// What a query says of a page's size: from 1 to `most`; `usual` where it says nothing or 0.
absl::StatusOr<int> PageSize(const std::string& said, int usual, int most);

// Of a pageToken that the service never gave.
absl::Status ForeignToken();

void AnswerOr(const absl::StatusOr<nlohmann::json>& answer, httplib::Response& response);

// The first `bytes` of a file, a block at a time. One that has become shorter breaks the answer off.
void AnswerFile(const std::string& path, size_t bytes, const std::string& type, httplib::Response& response);

// Errors: OUT_OF_RANGE beyond `most` bytes, of which no more are read.
absl::StatusOr<std::string> ReadBody(const httplib::Request& request, const httplib::ContentReader& reader,
                                     size_t most);

// A route that is given its request's body, of at most kMostRequestBytes.
using BodyHandler = std::function<absl::StatusOr<nlohmann::json>(const httplib::Request&, const std::string&)>;
httplib::Server::HandlerWithContentReader WithBody(BodyHandler handler);

}  // namespace downpour
