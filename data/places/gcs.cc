#include "data/places/gcs.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "data/places/gcs_token.h"
#include "data/places/url.h"

namespace downpour {
namespace {

constexpr char kGoogle[] = "https://storage.googleapis.com";

struct GoogleAccess {
  std::string base;   // without a '/' at the end
  std::string token;  // empty: none
};

absl::StatusOr<GoogleAccess> Access() {
  const std::string emulator = FromEnvironment("STORAGE_EMULATOR_HOST");
  if (!emulator.empty()) {
    return GoogleAccess{
        absl::StrCat(absl::StrContains(emulator, "://") ? "" : "http://", absl::StripSuffix(emulator, "/")),
        FromEnvironment("GOOGLE_OAUTH_ACCESS_TOKEN")};
  }
  absl::StatusOr<std::string> token = GoogleToken();
  if (!token.ok()) return token.status();
  return GoogleAccess{kGoogle, *std::move(token)};
}

// `behind` follows the bucket's address.
absl::StatusOr<HttpRequest> BucketRequest(const std::string& bucket, const std::string& behind) {
  const absl::StatusOr<GoogleAccess> access = Access();
  if (!access.ok()) return access.status();
  HttpRequest request{.url = absl::StrCat(access->base, "/storage/v1/b/", PercentEncode(bucket), "/o", behind)};
  if (!access->token.empty()) request.headers.emplace_back("authorization", "Bearer " + access->token);
  return request;
}

std::string WordsOf(const HttpAnswer& answer) {
  std::string words = GcsWordsIn(answer.body);
  if (answer.status != kForbidden && answer.status != kDenied) return words;
  const absl::StatusOr<GoogleAccess> access = Access();
  if (access.ok() && access->token.empty()) {
    absl::StrAppend(&words, words.empty() ? "" : "; ",
                    "no credentials were found: set GOOGLE_APPLICATION_CREDENTIALS to a file of them, or ",
                    "GOOGLE_OAUTH_ACCESS_TOKEN to a token");
  }
  return words;
}

class GcsObject final : public ObjectPlace {
 public:
  GcsObject(std::string name, std::string bucket, std::string object)
      : name_(std::move(name)), bucket_(std::move(bucket)), object_(std::move(object)) {}

  const std::string& name() const override { return name_; }
  absl::StatusOr<HttpRequest> Ask(const std::string& range, const std::string& version) const override {
    const std::string only = version.empty() ? "" : "&ifGenerationMatch=" + PercentEncode(version);
    absl::StatusOr<HttpRequest> request =
        BucketRequest(bucket_, absl::StrCat("/", PercentEncode(object_), "?alt=media", only));
    if (!request.ok()) return request;
    request->headers.emplace_back("range", range);
    // What is stored gzipped comes as it is stored; otherwise it would come unpacked, and without ranges.
    request->headers.emplace_back("accept-encoding", "gzip");
    return request;
  }
  std::string VersionIn(const HttpAnswer& answer) const override { return answer.Header("x-goog-generation"); }
  std::string WordsIn(const HttpAnswer& answer) const override { return WordsOf(answer); }

 private:
  const std::string name_, bucket_, object_;
};

}  // namespace

std::unique_ptr<ObjectPlace> GcsPlace(const std::string& name, const std::string& bucket, const std::string& object) {
  return std::make_unique<GcsObject>(name, bucket, object);
}

absl::StatusOr<ListedPage> ListGcs(const std::string& bucket, const std::string& prefix, const std::string& next) {
  const std::string name = absl::StrCat("gs://", bucket, "/", prefix, "*");
  const std::string page = next.empty() ? "" : "&pageToken=" + PercentEncode(next);
  const std::string query =
      absl::StrCat("?prefix=", PercentEncode(prefix), "&fields=", PercentEncode("items/name,nextPageToken"), page);
  const absl::StatusOr<HttpAnswer> answer = HttpFetch(name, [&] { return BucketRequest(bucket, query); });
  if (!answer.ok()) return answer.status();
  if (answer->status != kWhole) return FailureOf(name, *answer, WordsOf(*answer));
  return GcsPageIn(answer->body);
}

}  // namespace downpour
