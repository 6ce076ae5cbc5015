#include "service/storage_answer.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/http_answer.h"
#include "service/job.h"

namespace downpour {

using nlohmann::json;

namespace {

// As one part of an address's path.
std::string PathPart(const std::string& name) {
  std::string part;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = absl::ascii_isalnum(byte) || absl::string_view("-_.~").find(c) != absl::string_view::npos;
    if (is_plain) {
      part.push_back(c);
    } else {
      absl::StrAppendFormat(&part, "%%%02X", byte);
    }
  }
  return part;
}

}  // namespace

std::string AddressIn(const httplib::Request& request) {
  return absl::StrCat(request.ssl == nullptr ? "http" : "https", "://", request.get_header_value("Host"));
}

json ResourceOf(const httplib::Request& request, const StoredObject& object, const Checksums* sums) {
  const std::string time = TimeText(object.written_ms);
  const std::string path = absl::StrCat("/storage/v1/b/", object.bucket, "/o/", PathPart(object.name));
  const std::string address = AddressIn(request);
  json resource = {{"kind", "storage#object"},
                   {"id", absl::StrCat(object.bucket, "/", object.name, "/", object.generation)},
                   {"selfLink", address + path},
                   // gcloud does not read objects that have none.
                   {"mediaLink", absl::StrCat(address, "/download", path, "?alt=media&generation=", object.generation)},
                   {"bucket", object.bucket},
                   {"name", object.name},
                   {"size", absl::StrCat(object.bytes)},
                   {"generation", absl::StrCat(object.generation)},
                   {"metageneration", "1"},
                   {"etag", absl::StrCat(object.generation)},
                   {"contentType", "application/octet-stream"},
                   {"storageClass", "STANDARD"},
                   {"timeCreated", time},
                   {"updated", time}};
  if (sums != nullptr) {
    resource["crc32c"] = sums->crc32c;
    resource["md5Hash"] = sums->md5;
  }
  return resource;
}

void AnswerStorageError(const absl::Status& status, httplib::Response& response) {
  constexpr int kConditionNotMet = 412;
  AnswerError(status, response);
  if (!absl::IsAborted(status)) return;
  response.status = kConditionNotMet;
  AnswerJson(ErrorBody(kConditionNotMet, std::string(status.message()), "FAILED_PRECONDITION"), response);
}

void AnswerObject(const ObjectStore& objects, const httplib::Request& request,
                  const absl::StatusOr<StoredObject>& object, httplib::Response& response) {
  if (!object.ok()) return AnswerStorageError(object.status(), response);
  const absl::StatusOr<Checksums> sums = objects.ChecksumsOf(*object);
  if (!sums.ok()) return AnswerStorageError(sums.status(), response);
  AnswerJson(ResourceOf(request, *object, &*sums), response);
}

absl::StatusOr<std::optional<int64_t>> NumberIn(const httplib::Request& request, const char* parameter) {
  if (!request.has_param(parameter)) return std::nullopt;
  int64_t number = 0;
  if (absl::SimpleAtoi(request.get_param_value(parameter), &number) && number >= 0) return number;
  return absl::InvalidArgumentError(absl::StrCat(parameter, " must be a whole number, not below 0"));
}

}  // namespace downpour
