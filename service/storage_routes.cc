#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/http_answer.h"
#include "service/job_routes.h"
#include "service/storage_answer.h"

namespace downpour {
namespace {

using httplib::ContentReader;
using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr int64_t kMostListed = 1000;
constexpr int kNoContent = 204;

json BucketResource(const std::string& bucket) {
  return {{"kind", "storage#bucket"}, {"id", bucket},          {"name", bucket},
          {"location", "HERE"},       {"metageneration", "1"}, {"storageClass", "STANDARD"}};
}

void GetBucket(const ObjectStore& objects, const Request& request, Response& response) {
  const std::string bucket = request.matches[1];
  if (const absl::Status status = objects.CheckBucket(bucket); !status.ok()) return AnswerError(status, response);
  AnswerJson(BucketResource(bucket), response);
}

void GetLayout(const ObjectStore& objects, const Request& request, Response& response) {
  const std::string bucket = request.matches[1];
  if (const absl::Status status = objects.CheckBucket(bucket); !status.ok()) return AnswerError(status, response);
  AnswerJson({{"kind", "storage#storageLayout"},
              {"bucket", bucket},
              {"location", "HERE"},
              {"locationType", "region"},
              {"hierarchicalNamespace", {{"enabled", false}}}},
             response);
}

void ListBuckets(const ObjectStore& objects, const Request& request, Response& response) {
  json answer = {{"kind", "storage#buckets"}};
  for (const std::string& bucket : objects.Buckets()) {
    if (absl::StartsWith(bucket, request.get_param_value("prefix"))) answer["items"].push_back(BucketResource(bucket));
  }
  AnswerJson(answer, response);
}

absl::StatusOr<json> MakeBucket(const ObjectStore& objects, const std::string& body) {
  const json said = ParseJson(body).value_or(json());
  if (!said.is_object() || !said.contains("name") || !said["name"].is_string()) {
    return absl::InvalidArgumentError("a bucket needs a name: {\"name\": \"models\"}");
  }
  const std::string bucket = said["name"].get<std::string>();
  if (const absl::Status status = objects.MakeBucket(bucket); !status.ok()) return status;
  return BucketResource(bucket);
}

void RemoveBucket(const ObjectStore& objects, const Request& request, Response& response) {
  const absl::Status removed = objects.RemoveBucket(request.matches[1]);
  if (absl::IsFailedPrecondition(removed)) {  // as Google has it
    constexpr int kConflict = 409;
    response.status = kConflict;
    return AnswerJson(ErrorBody(kConflict, std::string(removed.message()), "FAILED_PRECONDITION"), response);
  }
  if (!removed.ok()) return AnswerError(removed, response);
  response.status = kNoContent;
}

// The object, if it is the one that the request means.
absl::StatusOr<StoredObject> Asked(const ObjectStore& objects, const Request& request,
                                   const char* generation_parameter = "generation",
                                   const char* condition_parameter = "ifGenerationMatch") {
  const absl::StatusOr<std::optional<int64_t>> generation = NumberIn(request, generation_parameter);
  const absl::StatusOr<std::optional<int64_t>> condition = NumberIn(request, condition_parameter);
  if (!generation.ok() || !condition.ok()) return generation.ok() ? condition.status() : generation.status();
  absl::StatusOr<StoredObject> object = objects.Find(request.matches[1], request.matches[2]);
  // gcloud asks whether there is an object DIR/ as well, which none can be here.
  if (absl::IsInvalidArgument(object.status()) && absl::EndsWith(std::string(request.matches[2]), "/")) {
    return absl::NotFoundError(absl::StrCat("there is no such object: ", std::string(object.status().message())));
  }
  if (!object.ok()) return object;
  const std::string which =
      absl::StrCat("gs://", object->bucket, "/", object->name, " is of generation ", object->generation, " by now");
  if (*generation && **generation != object->generation) return absl::NotFoundError(which);
  if (*condition && **condition != object->generation) return absl::AbortedError(which);
  return object;
}

void Get(const ObjectStore& objects, const Request& request, Response& response) {
  const absl::StatusOr<StoredObject> object = Asked(objects, request);
  if (request.get_param_value("alt") != "media" || !object.ok())
    return AnswerObject(objects, request, object, response);
  auto file = std::make_shared<std::ifstream>(objects.PathOf(object->bucket, object->name).value(), std::ios::binary);
  response.set_header("ETag", absl::StrCat("\"", object->generation, "\""));
  response.set_header("X-Goog-Generation", absl::StrCat(object->generation));
  response.set_header("X-Goog-Stored-Content-Length", absl::StrCat(object->bytes));
  // Of an empty one nothing is provided, and a provider would be asked for ever.
  if (object->bytes == 0) return response.set_content("", "application/octet-stream");
  response.set_content_provider(static_cast<size_t>(object->bytes), "application/octet-stream",
                                [file](size_t offset, size_t length, httplib::DataSink& sink) {
                                  char block[65536];
                                  file->clear();
                                  file->seekg(static_cast<std::streamoff>(offset));
                                  file->read(block, static_cast<std::streamsize>(std::min(length, sizeof(block))));
                                  if (file->gcount() == 0) return false;  // it has become shorter
                                  return sink.write(block, static_cast<size_t>(file->gcount()));
                                });
}

void Remove(const ObjectStore& objects, const Request& request, Response& response) {
  const absl::StatusOr<StoredObject> object = Asked(objects, request);
  if (!object.ok()) return AnswerStorageError(object.status(), response);
  const absl::Status removed = objects.Remove(absl::StrCat("gs://", object->bucket, "/", object->name));
  if (!removed.ok()) return AnswerError(removed, response);
  response.status = kNoContent;
}

// Both are done at once here. rewriteTo may be called again and again at Google, and copyTo answers the object alone.
void Copy(const ObjectStore& objects, const Request& request, Response& response) {
  const absl::StatusOr<StoredObject> from = Asked(objects, request, "sourceGeneration", "ifSourceGenerationMatch");
  const absl::StatusOr<std::optional<int64_t>> generation = NumberIn(request, "ifGenerationMatch");
  if (!from.ok() || !generation.ok()) {
    return AnswerStorageError(from.ok() ? generation.status() : from.status(), response);
  }
  const UploadOrder order{.bucket = request.matches[4], .name = request.matches[5], .generation = *generation};
  const absl::StatusOr<StoredObject> copy = objects.Copy(*from, order);
  if (request.matches[3] == "copyTo" || !copy.ok()) return AnswerObject(objects, request, copy, response);
  const absl::StatusOr<Checksums> sums = objects.ChecksumsOf(*copy);
  if (!sums.ok()) return AnswerStorageError(sums.status(), response);
  const std::string bytes = absl::StrCat(copy->bytes);
  AnswerJson({{"kind", "storage#rewriteResponse"},
              {"done", true},
              {"totalBytesRewritten", bytes},
              {"objectSize", bytes},
              {"resource", ResourceOf(request, *copy, &*sums)}},
             response);
}

// "nextPageToken,items/name" wants no checksums, for which each object is read once.
bool WantsChecksums(const std::string& fields) {
  for (const absl::string_view field : absl::StrSplit(fields, ',')) {
    if (field == "items" || field == "" || absl::StrContains(field, "*")) return true;
  }
  return absl::StrContains(fields, "crc32c") || absl::StrContains(fields, "md5Hash");
}

absl::StatusOr<json> ListObjects(const ObjectStore& objects, const Request& request) {
  ListOrder order{.prefix = request.get_param_value("prefix"), .delimiter = request.get_param_value("delimiter")};
  const std::string page = request.get_param_value("pageToken");
  if (!absl::WebSafeBase64Unescape(page, &order.after)) {
    return absl::InvalidArgumentError("pageToken must be the nextPageToken of the page before");
  }
  const absl::StatusOr<std::optional<int64_t>> most = NumberIn(request, "maxResults");
  if (!most.ok()) return most.status();
  order.most = static_cast<size_t>(std::clamp<int64_t>(most->value_or(kMostListed), 1, kMostListed));
  const absl::StatusOr<Listing> found = objects.List(request.matches[1], order);
  if (!found.ok()) return found.status();
  json answer = {{"kind", "storage#objects"}};
  const bool wants_checksums = WantsChecksums(request.get_param_value("fields"));
  for (const StoredObject& object : found->objects) {
    const absl::StatusOr<Checksums> sums =
        wants_checksums ? objects.ChecksumsOf(object) : absl::NotFoundError("nobody asked for them");
    if (wants_checksums && !sums.ok()) continue;  // it went away, or is being written, meanwhile
    answer["items"].push_back(ResourceOf(request, object, wants_checksums ? &*sums : nullptr));
  }
  for (const std::string& prefix : found->prefixes) answer["prefixes"].push_back(prefix);
  if (!found->last.empty()) answer["nextPageToken"] = absl::WebSafeBase64Escape(found->last);
  return answer;
}

}  // namespace

void AddStorageRoutes(httplib::Server& server, const ObjectStore& objects) {
  // gcloud asks at /b for what others ask at /storage/v1/b.
  const std::string buckets = R"((?:/storage/v1)?/b)", bucket = buckets + "/([^/]+)", object = bucket + "/o/(.+)";
  server.Get(buckets, [&](const Request& request, Response& response) { ListBuckets(objects, request, response); });
  server.Post(buckets, WithBody([&](const Request&, const std::string& body) { return MakeBucket(objects, body); }));
  server.Get(bucket, [&](const Request& request, Response& response) { GetBucket(objects, request, response); });
  // gcloud asks it before it moves or removes folders, whether they are objects of their own.
  server.Get(bucket + "/storageLayout",
             [&](const Request& request, Response& response) { GetLayout(objects, request, response); });
  // Folders are no objects here. gcloud asks for them before it removes a bucket with all that it holds.
  server.Get(bucket + "/(?:managedFolders|folders)", [&](const Request& request, Response& response) {
    const absl::Status status = objects.CheckBucket(request.matches[1]);
    status.ok() ? AnswerJson(json::object(), response) : AnswerError(status, response);
  });
  server.Delete(bucket, [&](const Request& request, Response& response, const ContentReader&) {
    RemoveBucket(objects, request, response);
  });
  server.Get(bucket + "/o",
             [&](const Request& request, Response& response) { AnswerOr(ListObjects(objects, request), response); });
  server.Get("(?:/download)?" + object,
             [&](const Request& request, Response& response) { Get(objects, request, response); });
  server.Delete(object, [&](const Request& request, Response& response, const ContentReader&) {
    Remove(objects, request, response);
  });
  server.Post(
      object + "/(rewriteTo|copyTo)/b/([^/]+)/o/(.+)",
      [&](const Request& request, Response& response, const ContentReader&) { Copy(objects, request, response); });
  AddUploadRoutes(server, objects);
}

}  // namespace downpour
