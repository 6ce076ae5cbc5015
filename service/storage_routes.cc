#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/http_answer.h"
#include "service/job_routes.h"

namespace downpour {
namespace {

using httplib::ContentReader;
using httplib::Request;
using httplib::Response;
using nlohmann::json;

// What is one request, in memory; larger objects come as resumable uploads.
constexpr size_t kMostMultipartBytes = size_t{64} << 20;
constexpr size_t kMostListed = 1000;
constexpr int kMoreToCome = 308;

json ResourceOf(const StoredObject& object) {
  const std::string time = TimeText(object.written_ms);
  return {{"kind", "storage#object"},
          {"id", absl::StrCat(object.bucket, "/", object.name)},
          {"bucket", object.bucket},
          {"name", object.name},
          {"size", absl::StrCat(object.bytes)},
          {"generation", absl::StrCat(object.written_ms)},
          {"metageneration", "1"},
          {"storageClass", "STANDARD"},
          {"timeCreated", time},
          {"updated", time}};
}

void AnswerObject(const absl::StatusOr<StoredObject>& object, Response& response) {
  if (!object.ok()) return AnswerError(object.status(), response);
  AnswerJson(ResourceOf(*object), response);
}

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

absl::StatusOr<StoredObject> StoreWhole(const ObjectStore& objects, const std::string& bucket, const std::string& name,
                                        const std::string& content) {
  const absl::StatusOr<std::string> upload = objects.Begin(bucket, name);
  if (!upload.ok()) return upload.status();
  if (const absl::Status status = objects.Append(*upload, content); !status.ok()) return status;
  return objects.Finish(*upload);
}

// The object's name stands in the address, or in the metadata.
absl::StatusOr<std::string> NameOf(const Request& request, const std::string& metadata) {
  if (request.has_param("name")) return request.get_param_value("name");
  const absl::StatusOr<json> object = ParseJson(metadata);
  if (!object.ok() || !object->is_object() || !object->contains("name") || !(*object)["name"].is_string()) {
    return absl::InvalidArgumentError("the object has no name: give it by ?name=");
  }
  return (*object)["name"].get<std::string>();
}

void Insert(const ObjectStore& objects, const Request& request, Response& response, const ContentReader& reader) {
  const std::string bucket = request.matches[1], kind = request.get_param_value("uploadType");
  const absl::StatusOr<std::string> body = ReadBody(request, reader, kMostMultipartBytes);
  if (!body.ok()) return AnswerError(body.status(), response);
  if (kind == "multipart") {
    const absl::StatusOr<Part> part = CutMultipart(request.get_header_value("Content-Type"), *body);
    if (!part.ok()) return AnswerError(part.status(), response);
    const absl::StatusOr<std::string> name = NameOf(request, part->metadata);
    if (!name.ok()) return AnswerError(name.status(), response);
    return AnswerObject(StoreWhole(objects, bucket, *name, part->content), response);
  }
  const absl::StatusOr<std::string> name = NameOf(request, *body);
  if (!name.ok()) return AnswerError(name.status(), response);
  if (kind == "media") return AnswerObject(StoreWhole(objects, bucket, *name, *body), response);
  if (kind != "resumable") {
    return AnswerError(absl::InvalidArgumentError("uploadType must be media, multipart or resumable"), response);
  }
  const absl::StatusOr<std::string> upload = objects.Begin(bucket, *name);
  if (!upload.ok()) return AnswerError(upload.status(), response);
  const char* scheme = request.ssl == nullptr ? "http" : "https";
  response.set_header("Location", absl::StrCat(scheme, "://", request.get_header_value("Host"), request.path,
                                               "?uploadType=resumable&upload_id=", *upload));
  AnswerJson(json::object(), response);
}

struct ByteRange {
  int64_t first = 0;
  int64_t total = -1;  // not known yet
  bool has_bytes = true;
};

// "bytes 0-99/200", "bytes 0-99/*", "bytes */200"; nothing: all of it.
absl::StatusOr<ByteRange> RangeOf(const Request& request) {
  std::string text = request.get_header_value("Content-Range");
  const auto length = static_cast<int64_t>(request.get_header_value<uint64_t>("Content-Length"));
  if (text.empty()) return ByteRange{.total = length};
  const absl::Status wrong = absl::InvalidArgumentError("Content-Range must be like bytes 0-99/200");
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "bytes ")) return wrong;
  const std::pair<std::string, std::string> parts = absl::StrSplit(rest, absl::MaxSplits('/', 1));
  ByteRange range;
  if (parts.second != "*" && !absl::SimpleAtoi(parts.second, &range.total)) return wrong;
  range.has_bytes = parts.first != "*";
  const std::string first = parts.first.substr(0, parts.first.find('-'));
  if (range.has_bytes && (!absl::SimpleAtoi(first, &range.first) || range.first < 0)) return wrong;
  return range;
}

void Continue(const ObjectStore& objects, const Request& request, Response& response, const ContentReader& reader) {
  const std::string upload = request.get_param_value("upload_id");
  const absl::StatusOr<ByteRange> range = RangeOf(request);
  absl::StatusOr<int64_t> size = objects.Size(upload);
  if (!range.ok() || !size.ok()) return AnswerError(range.ok() ? size.status() : range.status(), response);
  absl::Status written;
  if (range->has_bytes && range->first <= *size) {
    int64_t known = *size - range->first;  // bytes that came before, and come again
    reader([&](const char* data, size_t count) {
      const auto skipped = static_cast<size_t>(std::min<int64_t>(known, static_cast<int64_t>(count)));
      known -= static_cast<int64_t>(skipped);
      if (skipped < count) written = objects.Append(upload, std::string_view(data + skipped, count - skipped));
      return written.ok();
    });
  }
  if (!written.ok()) return AnswerError(written, response);
  size = objects.Size(upload);
  if (!size.ok()) return AnswerError(size.status(), response);
  if (*size == range->total) return AnswerObject(objects.Finish(upload), response);
  response.status = kMoreToCome;
  if (*size > 0) response.set_header("Range", absl::StrCat("bytes=0-", *size - 1));
}

void Get(const ObjectStore& objects, const Request& request, Response& response) {
  const absl::StatusOr<StoredObject> object = objects.Find(request.matches[1], request.matches[2]);
  if (!object.ok()) return AnswerError(object.status(), response);
  if (request.get_param_value("alt") != "media") return AnswerJson(ResourceOf(*object), response);
  AnswerFile(objects.PathOf(object->bucket, object->name).value(), static_cast<size_t>(object->bytes),
             "application/octet-stream", response);
}

}  // namespace

void AddStorageRoutes(httplib::Server& server, const ObjectStore& objects) {
  const auto insert = [&](const Request& request, Response& response, const ContentReader& reader) {
    Insert(objects, request, response, reader);
  };
  server.Post(R"(/(?:resumable/)?upload/storage/v1/b/([^/]+)/o)", insert);
  server.Put(R"(/(?:resumable/)?upload/storage/v1/b/([^/]+)/o)",
             [&](const Request& request, Response& response, const ContentReader& reader) {
               Continue(objects, request, response, reader);
             });
  server.Get(R"((?:/storage/v1)?/b/([^/]+))", [&](const Request& request, Response& response) {
    const std::string bucket = request.matches[1];
    if (const absl::Status status = objects.CheckBucket(bucket); !status.ok()) return AnswerError(status, response);
    AnswerJson({{"kind", "storage#bucket"}, {"id", bucket}, {"name", bucket}, {"location", "HERE"}}, response);
  });
  server.Get(R"((?:/storage/v1)?/b/([^/]+)/o)", [&](const Request& request, Response& response) {
    const auto found = objects.List(request.matches[1], request.get_param_value("prefix"), kMostListed);
    if (!found.ok()) return AnswerError(found.status(), response);
    json answer = {{"kind", "storage#objects"}};
    for (const StoredObject& object : *found) answer["items"].push_back(ResourceOf(object));
    AnswerJson(answer, response);
  });
  server.Get(R"((?:/download)?(?:/storage/v1)?/b/([^/]+)/o/(.+))",
             [&](const Request& request, Response& response) { Get(objects, request, response); });
}

}  // namespace downpour
