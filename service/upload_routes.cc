#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/http_answer.h"
#include "service/job_routes.h"
#include "service/storage_answer.h"

namespace downpour {
namespace {

using httplib::ContentReader;
using httplib::Request;
using httplib::Response;
using nlohmann::json;

// What is one request, in memory; larger objects come as resumable uploads.
constexpr size_t kMostMultipartBytes = size_t{64} << 20;
constexpr int kMoreToCome = 308, kDropped = 499;
constexpr const char* kUploadPath = R"(/(?:resumable/)?upload/storage/v1/b/([^/]+)/o)";

struct Part {
  std::string metadata, content;
};

// A body of multipart/related: JSON, and then the object's bytes. Clients end lines with \n or \r\n.
absl::StatusOr<Part> CutMultipart(const std::string& type, const std::string& body) {
  const absl::Status wrong = absl::InvalidArgumentError("the upload is no multipart/related of metadata and content");
  const size_t said = type.find("boundary=");
  if (said == std::string::npos) return wrong;
  std::string boundary = type.substr(said + 9);
  boundary = boundary.substr(0, boundary.find(';'));
  absl::StripAsciiWhitespace(&boundary);
  if (boundary.size() > 1 && (boundary[0] == '"' || boundary[0] == '\''))
    boundary = boundary.substr(1, boundary.size() - 2);
  const std::string mark = "--" + boundary;
  const size_t line = body.find('\n');
  if (boundary.empty() || !absl::StartsWith(body, mark) || line == std::string::npos) return wrong;
  const std::string newline = body[line - 1] == '\r' ? "\r\n" : "\n";
  std::vector<std::string> contents;
  size_t at = line + 1;
  while (contents.size() < 2) {
    const size_t end = body.find(newline + mark, at);
    const size_t headers = body.find(newline + newline, at);
    if (end == std::string::npos || headers == std::string::npos || headers > end) return wrong;
    const size_t from = std::min(end, headers + 2 * newline.size());
    contents.push_back(body.substr(from, end - from));
    at = end + newline.size() + mark.size() + newline.size();
  }
  return Part{contents[0], contents[1]};
}

// What the address says of the object, and its metadata where there are some.
absl::StatusOr<UploadOrder> OrderOf(const Request& request, const std::string& metadata) {
  UploadOrder order{.bucket = request.matches[1], .name = request.get_param_value("name")};
  const json said = metadata.empty() ? json::object() : ParseJson(metadata).value_or(json());
  if (!said.is_object()) return absl::InvalidArgumentError("the object's metadata are no JSON object");
  const auto take = [&](const char* key, std::string* text) {
    const auto found = said.find(key);
    if (found != said.end() && found->is_string()) *text = found->get<std::string>();
  };
  if (order.name.empty()) take("name", &order.name);
  take("crc32c", &order.crc32c);
  take("md5Hash", &order.md5);
  if (order.name.empty()) return absl::InvalidArgumentError("the object has no name: give it by ?name=");
  const absl::StatusOr<std::optional<int64_t>> generation = NumberIn(request, "ifGenerationMatch");
  if (!generation.ok()) return generation.status();
  order.generation = *generation;
  return order;
}

void BeginResumable(const ObjectStore& objects, const Request& request, const std::string& metadata,
                    Response& response) {
  const absl::StatusOr<UploadOrder> order = OrderOf(request, metadata);
  if (!order.ok()) return AnswerStorageError(order.status(), response);
  int64_t total = 0;
  const std::string length = request.get_header_value("X-Upload-Content-Length");
  if (!length.empty() && (!absl::SimpleAtoi(length, &total) || total < 0)) {
    return AnswerError(absl::InvalidArgumentError("X-Upload-Content-Length must be a number of bytes"), response);
  }
  const absl::StatusOr<std::string> upload = objects.Begin(*order);
  if (!upload.ok()) return AnswerStorageError(upload.status(), response);
  if (!length.empty()) {
    if (const absl::Status status = objects.uploads().Expect(*upload, total); !status.ok()) {
      (void)objects.uploads().Drop(*upload);  // why it was refused is told, not this
      return AnswerError(status, response);
    }
  }
  response.set_header("Location",
                      absl::StrCat(AddressIn(request), request.path, "?uploadType=resumable&upload_id=", *upload));
  response.set_header("X-GUploader-UploadID", *upload);
  AnswerJson(json::object(), response);
}

struct ByteRange {
  int64_t first = 0;
  int64_t end = -1;    // behind its last byte; not known yet
  int64_t total = -1;  // not known yet
  bool has_bytes = true;
};

// "bytes 0-99/200", "bytes 0-99/*", "bytes */200"; nothing: all of it.
absl::StatusOr<ByteRange> RangeOf(const Request& request) {
  const std::string text = request.get_header_value("Content-Range");
  const bool has_length = request.has_header("Content-Length");
  const auto length = static_cast<int64_t>(request.get_header_value<uint64_t>("Content-Length"));
  if (text.empty()) return has_length ? ByteRange{.end = length, .total = length} : ByteRange{};
  const absl::Status wrong = absl::InvalidArgumentError(
      "Content-Range must be like bytes 0-99/200, bytes 0-99/* or bytes */200, and as long as the body");
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "bytes ")) return wrong;
  const std::pair<std::string, std::string> parts = absl::StrSplit(rest, absl::MaxSplits('/', 1));
  ByteRange range{.has_bytes = parts.first != "*"};
  if (parts.second != "*" && (!absl::SimpleAtoi(parts.second, &range.total) || range.total < 0)) return wrong;
  if (!range.has_bytes) return has_length && length > 0 ? wrong : absl::StatusOr<ByteRange>(range);
  const std::pair<std::string, std::string> ends = absl::StrSplit(parts.first, absl::MaxSplits('-', 1));
  int64_t last = 0;
  if (!absl::SimpleAtoi(ends.first, &range.first) || !absl::SimpleAtoi(ends.second, &last)) return wrong;
  if (range.first < 0 || last < range.first || (range.total >= 0 && last >= range.total)) return wrong;
  if (last >= kMostObjectBytes) {
    return absl::OutOfRangeError(absl::StrCat("an object has at most ", kMostObjectBytes, " bytes"));
  }
  range.end = last + 1;
  if (has_length && length != range.end - range.first) return wrong;
  return range;
}

// As many of the body's bytes as come. A body that ends early is no error: the answer says how far the upload is.
absl::Status TakeBytes(Uploads& uploads, const std::string& upload, const ContentReader& reader, ByteRange* range) {
  absl::Status written;
  int64_t at = range->first;
  const bool is_whole = reader([&](const char* data, size_t count) {
    if (range->end >= 0 && at + static_cast<int64_t>(count) > range->end) {
      written = absl::InvalidArgumentError("the body is longer than its Content-Range says");
    } else {
      written = uploads.Write(upload, at, std::string_view(data, count));
    }
    at += static_cast<int64_t>(count);
    return written.ok();
  });
  if (range->end < 0 && is_whole) range->total = at;  // of one without any length its end is the object's
  return written;
}

void Continue(const ObjectStore& objects, const Request& request, Response& response, const ContentReader& reader) {
  const std::string upload = request.get_param_value("upload_id");
  Uploads& uploads = objects.uploads();
  // The answer to its last bytes was lost, or another request brought them first.
  if (uploads.Finished(upload)) return AnswerObject(objects, request, objects.Finish(upload), response);
  absl::StatusOr<ByteRange> range = RangeOf(request);
  absl::StatusOr<int64_t> size = uploads.Size(upload);
  if (!range.ok() || !size.ok()) return AnswerError(range.ok() ? size.status() : range.status(), response);
  const auto tell = [&] {
    if (*size > 0) response.set_header("Range", absl::StrCat("bytes=0-", *size - 1));
  };
  absl::Status taken;
  if (range->total >= 0) taken = uploads.Expect(upload, range->total);
  const bool knew_total = range->total >= 0;
  if (taken.ok() && range->has_bytes && range->first > *size) {
    taken = absl::InvalidArgumentError(absl::StrCat("byte ", range->first, " would leave a gap: the upload has ", *size,
                                                    " bytes, so continue with byte ", *size));
  }
  if (taken.ok() && range->has_bytes) taken = TakeBytes(uploads, upload, reader, &*range);
  if (taken.ok() && !knew_total && range->total >= 0) taken = uploads.Expect(upload, range->total);
  // One that brought the same bytes may have ended it meanwhile.
  if (uploads.Finished(upload)) return AnswerObject(objects, request, objects.Finish(upload), response);
  if (!taken.ok()) {
    tell();
    return AnswerStorageError(taken, response);
  }
  size = uploads.Size(upload);
  if (size.ok() && *size == range->total) return AnswerObject(objects, request, objects.Finish(upload), response);
  if (!size.ok()) return AnswerError(size.status(), response);
  response.status = kMoreToCome;
  tell();
}

void Insert(const ObjectStore& objects, const Request& request, Response& response, const ContentReader& reader) {
  // Some clients send parts by POST as well.
  if (request.has_param("upload_id")) return Continue(objects, request, response, reader);
  const std::string kind = request.get_param_value("uploadType");
  const absl::StatusOr<std::string> body = ReadBody(request, reader, kMostMultipartBytes);
  if (!body.ok()) return AnswerError(body.status(), response);
  if (kind == "resumable") return BeginResumable(objects, request, *body, response);
  if (kind != "media" && kind != "multipart") {
    return AnswerError(absl::InvalidArgumentError("uploadType must be media, multipart or resumable"), response);
  }
  const absl::StatusOr<Part> part = kind == "media" ? Part{.metadata = "", .content = *body}
                                                    : CutMultipart(request.get_header_value("Content-Type"), *body);
  if (!part.ok()) return AnswerError(part.status(), response);
  const absl::StatusOr<UploadOrder> order = OrderOf(request, part->metadata);
  if (!order.ok()) return AnswerStorageError(order.status(), response);
  AnswerObject(objects, request, objects.Store(*order, part->content), response);
}

}  // namespace

void AddUploadRoutes(httplib::Server& server, const ObjectStore& objects) {
  objects.uploads().RemoveOld();
  server.Post(kUploadPath, [&](const Request& request, Response& response, const ContentReader& reader) {
    Insert(objects, request, response, reader);
  });
  server.Put(kUploadPath, [&](const Request& request, Response& response, const ContentReader& reader) {
    Continue(objects, request, response, reader);
  });
  server.Delete(kUploadPath, [&](const Request& request, Response& response, const ContentReader&) {
    const absl::Status dropped = objects.uploads().Drop(request.get_param_value("upload_id"));
    if (!dropped.ok()) return AnswerError(dropped, response);
    response.status = kDropped;
    AnswerJson(json::object(), response);
  });
}

}  // namespace downpour
