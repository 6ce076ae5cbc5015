#include "service/http_answer.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using nlohmann::json;

struct Code {
  absl::StatusCode status;
  int http;
  const char* name;
};
constexpr Code kCodes[] = {{absl::StatusCode::kInvalidArgument, 400, "INVALID_ARGUMENT"},
                           {absl::StatusCode::kFailedPrecondition, 400, "FAILED_PRECONDITION"},
                           {absl::StatusCode::kOutOfRange, 413, "OUT_OF_RANGE"},
                           {absl::StatusCode::kUnauthenticated, 401, "UNAUTHENTICATED"},
                           {absl::StatusCode::kPermissionDenied, 403, "PERMISSION_DENIED"},
                           {absl::StatusCode::kNotFound, 404, "NOT_FOUND"},
                           {absl::StatusCode::kAlreadyExists, 409, "ALREADY_EXISTS"},
                           {absl::StatusCode::kAborted, 409, "ABORTED"},
                           {absl::StatusCode::kCancelled, 499, "CANCELLED"},
                           {absl::StatusCode::kResourceExhausted, 429, "RESOURCE_EXHAUSTED"},
                           {absl::StatusCode::kUnavailable, 503, "UNAVAILABLE"},
                           {absl::StatusCode::kDeadlineExceeded, 504, "DEADLINE_EXCEEDED"}};
constexpr const char* kRetryAfter = "1";  // seconds
constexpr Code kUnknown{absl::StatusCode::kInternal, 500, "INTERNAL"};

const Code& CodeOf(const absl::Status& status) {
  const auto* found = std::ranges::find(kCodes, status.code(), &Code::status);
  return found == std::end(kCodes) ? kUnknown : *found;
}

void SetCode(const Code& code, httplib::Response& response) {
  response.status = code.http;
  if (code.status == absl::StatusCode::kUnavailable) response.set_header("Retry-After", kRetryAfter);
}

}  // namespace

void AnswerJson(const json& body, httplib::Response& response) {
  response.set_content(body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json");
}

json ErrorBody(int code, const std::string& message, const std::string& status) {
  return {{"error", {{"code", code}, {"message", message}, {"status", status}}}};
}

void AnswerError(const absl::Status& status, httplib::Response& response) {
  const Code& code = CodeOf(status);
  SetCode(code, response);
  AnswerJson(ErrorBody(code.http, std::string(status.message()), code.name), response);
}

void AnswerPlainError(const absl::Status& status, httplib::Response& response) {
  SetCode(CodeOf(status), response);
  AnswerJson({{"error", std::string(status.message())}}, response);
}

int HttpCodeOf(const absl::Status& status) { return status.ok() ? 200 : CodeOf(status).http; }

absl::StatusOr<int> PageSize(const std::string& said, int usual, int most) {
  int size = 0;
  if (said.empty() || said == "0") return usual;
  if (!absl::SimpleAtoi(said, &size) || size < 0) return absl::InvalidArgumentError("pageSize must be a number from 0");
  return std::min(size, most);
}

absl::Status ForeignToken() {
  return absl::InvalidArgumentError(
      "the pageToken is none of this service's: give the nextPageToken of an answer as it came");
}

void AnswerOr(const absl::StatusOr<json>& answer, httplib::Response& response) {
  return answer.ok() ? AnswerJson(*answer, response) : AnswerError(answer.status(), response);
}

void AnswerFile(const std::string& path, size_t bytes, const std::string& type, httplib::Response& response) {
  auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  response.set_content_provider(bytes, type, [file](size_t offset, size_t length, httplib::DataSink& sink) {
    char block[65536];
    file->clear();
    file->seekg(static_cast<std::streamoff>(offset));
    file->read(block, static_cast<std::streamsize>(std::min(length, sizeof(block))));
    if (file->gcount() == 0) return false;
    return sink.write(block, static_cast<size_t>(file->gcount()));
  });
}

absl::StatusOr<std::string> ReadBody(const httplib::Request& request, const httplib::ContentReader& reader,
                                     size_t most) {
  std::string body;
  // Without a length the library would wait for the connection's end.
  if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) return body;
  bool too_long = false;
  if (request.is_multipart_form_data()) {  // the library takes it apart; behind its end the next request begins
    size_t size = 0;
    reader([](const httplib::MultipartFormData&) { return true; },
           [&](const char*, size_t more) { return (size += more) <= most; });
    return absl::InvalidArgumentError("a request's body is no form: send it as it is, not as multipart/form-data");
  }
  reader([&](const char* data, size_t size) {
    too_long = body.size() + size > most;
    if (!too_long) body.append(data, size);
    return !too_long;
  });
  if (too_long) return absl::OutOfRangeError(absl::StrCat("a request like this has at most ", most, " bytes"));
  return body;
}

httplib::Server::HandlerWithContentReader WithBody(BodyHandler handler) {
  return [handler](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
    const absl::StatusOr<std::string> body = ReadBody(request, reader, kMostRequestBytes);
    AnswerOr(body.ok() ? handler(request, *body) : body.status(), response);
  };
}

}  // namespace downpour
